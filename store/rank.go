package store

import (
	"cmp"
	"math"
	"slices"
)

// The constants of the ranking by words (BM25) and of rank fusion, as they are
// commonly set. The pivot is a fixed length instead of the average of all items,
// which would let other tenants' items influence a score.
const (
	saturation = 1.2
	lengthNorm = 0.75
	pivot      = 32
	fusion     = 60
)

// place is a candidate on its way into the answer.
type place struct {
	seq    int64
	score  float64
	why    Explanation
	counts []int // of the query's terms; why.Terms is left to the few that are returned
}

func (q *Query) rank(near, matching []Candidate) []Ranked {
	bySimilarity, byWords := q.bySimilarity(near), q.byWords(matching)
	var places []place
	switch {
	case q.Vector == nil:
		places = byWords
	case q.Terms == nil:
		places = bySimilarity
	default:
		places = fuse(bySimilarity, byWords)
	}
	places = places[min(q.Offset, len(places)):]
	places = places[:min(q.Limit, len(places))]
	ranked := make([]Ranked, len(places))
	for i, p := range places {
		ranked[i] = Ranked{Seq: p.seq, Score: p.score}
		if q.explain {
			p.why.Terms = q.having(p.counts)
			ranked[i].Explanation = &p.why
		}
	}
	return ranked
}

// having are the query's terms that an item has.
func (q *Query) having(counts []int) (terms []string) {
	for i, n := range counts {
		if n > 0 {
			terms = append(terms, q.Terms[i])
		}
	}
	return terms
}

func sortPlaces(places []place) {
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(b.seq, a.seq))
	})
}

// bySimilarity ranks by the most similar vector of each candidate.
func (q *Query) bySimilarity(near []Candidate) []place {
	places := make([]place, 0, len(near))
	for _, c := range near {
		p := place{seq: c.Seq, score: math.Inf(-1)}
		for _, v := range c.Vectors {
			if s := dot(q.Vector, v.Data); s > p.score {
				p.score, p.why.Field = s, v.Field
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

// dot is the cosine of vectors of length 1. It is computed here alone, so that a
// score is the same whatever computed the candidates.
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

// byWords ranks by BM25, the candidates being all there is.
func (q *Query) byWords(matching []Candidate) []place {
	having := make([]int, len(q.Terms))
	for _, c := range matching {
		for i, n := range c.Counts {
			if n > 0 {
				having[i]++
			}
		}
	}
	rarity := make([]float64, len(q.Terms))
	for i, n := range having {
		rarity[i] = math.Log1p((float64(len(matching)-n) + 0.5) / (float64(n) + 0.5))
	}
	places := make([]place, 0, len(matching))
	for _, c := range matching {
		p := place{seq: c.Seq, counts: c.Counts}
		norm := saturation * (1 - lengthNorm + lengthNorm*float64(c.Length)/pivot)
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
	return places
}

// fuse merges two rankings by reciprocal rank.
func fuse(bySimilarity, byWords []place) []place {
	places := make([]place, 0, len(bySimilarity)+len(byWords))
	at := map[int64]int{}
	for i, p := range bySimilarity {
		p.score = 1 / float64(fusion+i+1)
		at[p.seq] = len(places)
		places = append(places, p)
	}
	for i, p := range byWords {
		score := 1 / float64(fusion+i+1)
		if j, ok := at[p.seq]; ok {
			places[j].score += score
			places[j].why.Keyword, places[j].why.KeywordRank, places[j].counts = p.why.Keyword, p.why.KeywordRank, p.counts
			continue
		}
		p.score = score
		places = append(places, p)
	}
	sortPlaces(places)
	return places
}
