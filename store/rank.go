package store

import (
	"cmp"
	"math"
	"slices"
)

// The constants of the keyword ranking (BM25) and of the fusion. Items are short, so
// their length and repeated words matter less than in the long texts for which 1.2 and
// 0.75 are common. docs/memory-quality.md shows the results of other values.
const (
	saturation = 0.9
	lengthNorm = 0.2
	// wordsWeight is added to the cosine of an item that contains all words of the
	// query.
	wordsWeight = 0.8
	// nameWeight is the fraction of it for an item that contains only one of several
	// words, if the word is a name in the query. Any other single word is often a
	// coincidence and does not count.
	nameWeight = 0.5
	// lexicalWeight is the weight of the cosine of an embedder that represents only
	// spelling.
	lexicalWeight = 0.25
)

// place is a candidate being ranked.
type place struct {
	seq    int64
	score  float64
	why    Explanation
	texts  []Vector // all vectors of the item
	counts []int    // counts of the query's terms; why.Terms is set only for the returned items
}

func (q *Query) rank(near, matching []Candidate) []Ranked {
	if q.collect != nil {
		return q.collect.take(near, matching)
	}
	bySimilarity := q.bySimilarity(near)
	matching = q.byWord(matching)
	byWords, full := q.byWords(matching, known(bySimilarity, matching))
	var places []place
	switch {
	case q.Vector == nil:
		places = byWords
	case q.Terms == nil:
		places = bySimilarity
	default:
		places = q.fuse(bySimilarity, byWords, full)
	}
	places = places[min(q.Offset, len(places)):]
	places = places[:min(q.Limit, len(places))]
	ranked := make([]Ranked, len(places))
	for i, p := range places {
		ranked[i] = Ranked{Seq: p.seq, Score: p.score}
		if q.explain {
			p.why.Terms = q.having(p.counts)
			p.why.Vector = meanOf(p.texts)
			ranked[i].Explanation = &p.why
		}
	}
	return ranked
}

// byWord returns the candidates with their counts of the query's words instead of its
// terms. A form of a word that contains another, such as a stem, is counted once.
func (q *Query) byWord(matching []Candidate) []Candidate {
	if len(q.said) == len(q.Terms) {
		return matching
	}
	out := make([]Candidate, len(matching))
	for i, c := range matching {
		counts := make([]int, len(q.said))
		for t, n := range c.Counts {
			counts[q.groups[t]] = max(counts[q.groups[t]], n)
		}
		c.Counts = counts
		out[i] = c
	}
	return out
}

// having returns the query's words that an item contains.
func (q *Query) having(counts []int) (said []string) {
	for i, n := range counts {
		if n > 0 {
			said = append(said, q.said[i])
		}
	}
	return said
}

func sortPlaces(places []place) {
	// A place is large, so sort only the parts that are compared.
	type key struct {
		score float64
		seq   int64
		at    int
	}
	keys := make([]key, len(places))
	for i, p := range places {
		keys[i] = key{p.score, p.seq, i}
	}
	slices.SortFunc(keys, func(a, b key) int {
		if order := cmp.Compare(b.score, a.score); order != 0 {
			return order
		}
		return cmp.Compare(b.seq, a.seq)
	})
	sorted := make([]place, len(places))
	for i, k := range keys {
		sorted[i] = places[k.at]
	}
	copy(places, sorted)
}

// bySimilarity ranks by the most similar vector of each candidate.
func (q *Query) bySimilarity(near []Candidate) []place {
	places := make([]place, 0, len(near))
	for _, c := range near {
		p := place{seq: c.Seq, score: math.Inf(-1)}
		for _, v := range c.Vectors {
			if s := dot(q.Vector, v.Data); s > p.score {
				p.score, p.why.Field, p.texts = s, v.Field, c.Vectors
			}
		}
		p.why.Similarity = p.score
		places = append(places, p)
	}
	sortPlaces(places)
	for i := range places {
		places[i].why.SimilarityRank = i + 1
	}
	return places[:min(q.Depth, len(places))]
}

// meanOf returns the mean of the vectors of an item, scaled to length 1, or nil if there is
// none. The vector of one text would make items similar that differ in all other texts.
func meanOf(texts []Vector) []float32 {
	if len(texts) == 0 {
		return nil
	}
	if len(texts) == 1 {
		return texts[0].Data
	}
	sum := make([]float32, len(texts[0].Data))
	for _, t := range texts {
		for i := range min(len(sum), len(t.Data)) {
			sum[i] += t.Data[i]
		}
	}
	mean, err := unit(sum, len(sum))
	if err != nil { // not finite
		return texts[0].Data
	}
	return mean
}

// dot returns the cosine of vectors of length 1. All scores are computed here, so that
// they do not depend on the backend.
func dot(a, b []float32) float64 {
	if len(a) != len(b) {
		return math.Inf(-1)
	}
	var sum float64
	for i, x := range a {
		sum += float64(x) * float64(b[i])
	}
	return sum
}

// known returns the number of distinct items among the candidates.
func known(near []place, matching []Candidate) int {
	if len(near) == 0 {
		return len(matching)
	}
	seqs := make(map[int64]bool, len(near)+len(matching))
	for _, p := range near {
		seqs[p.seq] = true
	}
	for _, c := range matching {
		seqs[c.Seq] = true
	}
	return len(seqs)
}

// byWords ranks by BM25, using the candidates as the collection; items is the number of
// items in it. The reference length is the candidates' average length: the average of all
// items would let other tenants influence a score. full is the score of an item of this
// length that contains each word of the query once.
func (q *Query) byWords(matching []Candidate, items int) (places []place, full float64) {
	having := make([]int, len(q.said))
	length := 0
	for _, c := range matching {
		length += c.Length
		for i, n := range c.Counts {
			if n > 0 {
				having[i]++
			}
		}
	}
	average := float64(max(1, length)) / float64(max(1, len(matching)))
	rarity := make([]float64, len(q.said))
	for i, n := range having {
		rarity[i] = math.Log1p((float64(items-n) + 0.5) / (float64(n) + 0.5))
		full += rarity[i]
	}
	places = make([]place, 0, len(matching))
	for _, c := range matching {
		p := place{seq: c.Seq, counts: c.Counts}
		norm := saturation * (1 - lengthNorm + lengthNorm*float64(c.Length)/average)
		for i, n := range c.Counts {
			if n > 0 {
				p.score += rarity[i] * float64(n) * (saturation + 1) / (float64(n) + norm)
			}
		}
		p.why.Keyword = p.score
		places = append(places, p)
	}
	sortPlaces(places)
	for i := range places {
		places[i].why.KeywordRank = i + 1
	}
	return places, full
}

// fuse adds the share of the query's words that an item contains to its similarity. The share is
// relative to the query, not to the best item, so meaning decides where no item contains much of
// the query. Rank fusion would put an item that is by far the nearest after any item that is among
// the first sixty in both lists, for example because of the word "the".
//
// The similarity of an item that was not among the nearest is unknown. It is at most that of the
// last of the nearest, which is used instead.
func (q *Query) fuse(bySimilarity, byWords []place, full float64) []place {
	places := make([]place, 0, len(bySimilarity)+len(byWords))
	at := make(map[int64]int, len(bySimilarity))
	var least float64
	for _, p := range bySimilarity {
		if q.lexical {
			p.score *= lexicalWeight
		}
		at[p.seq] = len(places)
		places = append(places, p)
		least = p.score
	}
	for _, p := range byWords {
		share := wordsWeight * min(1, p.score/full)
		if i := only(p.counts); len(q.said) > 1 && i >= 0 {
			share *= nameWeight
			if !q.names[i] && !q.lexical {
				share = 0
			}
		}
		if j, ok := at[p.seq]; ok {
			places[j].score += share
			places[j].why.Keyword, places[j].why.KeywordRank, places[j].counts = p.why.Keyword, p.why.KeywordRank, p.counts
			continue
		}
		p.score = least + share
		places = append(places, p)
	}
	sortPlaces(places)
	return places
}

// only returns the index of the only nonzero count, or -1 if no count or more than
// one is nonzero.
func only(counts []int) int {
	at := -1
	for i, n := range counts {
		switch {
		case n > 0 && at >= 0:
			return -1
		case n > 0:
			at = i
		}
	}
	return at
}
