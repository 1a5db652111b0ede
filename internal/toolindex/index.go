package toolindex

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/store"
)

// The constants of the ranking were chosen on half of the questions of BFCL; see
// docs/performance.md.
const (
	saturation    = 1.2 // k1 of BM25
	norm          = 0.2 // b of BM25
	fuzzyWeight   = 0.5 // of similar words in place of an unknown word
	semanticShare = 0.5 // of the similarity in the score
)

// fieldWeights are the weights of a word by its field.
var fieldWeights = [fields]float64{4, 1.5, 2, 1}

// Index is an index of tools. It is safe for concurrent use.
type Index struct {
	tools    []*llm.Tool // sorted by name
	postings map[string][]posting
	words    []word             // sorted
	similar  map[string][]int32 // positions in words, by trigram

	embedder store.Embedder // nil without a semantic part
	vectors  *vectors
}

// word is a word of the tools.
type word struct {
	text     string
	trigrams int
}

// posting is a tool with a word, and what the word adds to the tool's score.
type posting struct {
	tool  int
	score float64
}

// New returns an index of tools with unique names. The embedder is optional; it is called
// for the first search, and then for each query.
func New(tools []*llm.Tool, embedder store.Embedder) *Index {
	x := &Index{tools: slices.Clone(tools), embedder: embedder, vectors: newVectors()}
	slices.SortStableFunc(x.tools, func(a, b *llm.Tool) int { return cmp.Compare(a.Name, b.Name) })
	x.build()
	return x
}

// build computes the postings.
func (x *Index) build() {
	type counted struct {
		counts  [fields]map[string]int
		lengths [fields]float64
	}
	docs := make([]counted, len(x.tools))
	average := [fields]float64{}
	having := map[string]int{} // tools by word
	for i, t := range x.tools {
		seen := map[string]bool{}
		for f, text := range texts(t) {
			docs[i].counts[f] = map[string]int{}
			for _, word := range terms(text) {
				docs[i].counts[f][word]++
				docs[i].lengths[f]++
				if !seen[word] {
					seen[word] = true
					having[word]++
				}
			}
			average[f] += docs[i].lengths[f] / float64(len(x.tools))
		}
	}
	x.postings = make(map[string][]posting, len(having))
	for i, doc := range docs {
		frequency := map[string]float64{}
		for f, counts := range doc.counts {
			if len(counts) == 0 {
				continue
			}
			length := 1 - norm + norm*doc.lengths[f]/average[f]
			for word, n := range counts {
				frequency[word] += fieldWeights[f] * float64(n) / length
			}
		}
		for word, tf := range frequency {
			n := float64(having[word])
			rarity := math.Log1p((float64(len(docs)) - n + 0.5) / (n + 0.5))
			x.postings[word] = append(x.postings[word], posting{i, rarity * tf / (saturation + tf)})
		}
	}
	x.similar = map[string][]int32{}
	for i, text := range slices.Sorted(maps.Keys(x.postings)) {
		grams := trigrams(text)
		x.words = append(x.words, word{text, len(grams)})
		for _, gram := range grams {
			x.similar[gram] = append(x.similar[gram], int32(i))
		}
	}
}

// Search returns the best k of the allowed tools for a text; a nil allow allows all. Without
// an embedder, it returns only tools that have a word of the text.
func (x *Index) Search(ctx context.Context, text string, k int, allow func(*llm.Tool) bool) ([]*llm.Tool, error) {
	text = clip(text, maxQuery)
	scores := x.keyword(text)
	if x.embedder != nil {
		near, err := x.semantic(ctx, text)
		if err != nil {
			return nil, fmt.Errorf("embed with %s: %w", x.embedder.Model(), err)
		}
		fuse(scores, near)
	}
	best := ranking{scores: scores}
	for i, s := range scores {
		if s > 0 {
			best.order = append(best.order, i)
		}
	}
	heap.Init(&best)
	var found []*llm.Tool
	for len(found) < k && len(best.order) > 0 {
		if t := x.tools[heap.Pop(&best).(int)]; allow == nil || allow(t) {
			found = append(found, t)
		}
	}
	return found, nil
}

// keyword returns the keyword score of each tool. A word that the text repeats counts once.
func (x *Index) keyword(text string) []float64 {
	scores := make([]float64, len(x.tools))
	seen := map[string]bool{}
	unknown := 0
	for _, word := range terms(text) {
		if seen[word] {
			continue
		}
		seen[word] = true
		if len(seen) > maxWords {
			break
		}
		if all := x.postings[word]; all != nil {
			for _, p := range all {
				scores[p.tool] += p.score
			}
			continue
		}
		unknown++
		if unknown > maxUnknown {
			continue
		}
		for _, like := range x.alike(word) {
			for _, p := range x.postings[like.word] {
				scores[p.tool] += fuzzyWeight * like.share * p.score
			}
		}
	}
	return scores
}

const (
	maxQuery   = 8 << 10 // bytes
	maxWords   = 256     // distinct words of a query
	maxUnknown = 32      // unknown words that are compared with others
	minAlike   = 0.5     // share of trigrams
	minFuzzy   = 4       // characters of a word
)

// alike is a similar word and the share of trigrams that it has in common.
type alike struct {
	word  string
	share float64
}

// alike returns the words of tools that are spelled like text, in alphabetical order.
func (x *Index) alike(text string) []alike {
	if utf8.RuneCountInString(text) < minFuzzy {
		return nil
	}
	grams := trigrams(text)
	common := make([]uint8, len(x.words)) // a word has at most 128 trigrams
	for _, gram := range grams {
		for _, i := range x.similar[gram] {
			common[i]++
		}
	}
	var out []alike
	for i, n := range common {
		if share := 2 * float64(n) / float64(len(grams)+x.words[i].trigrams); share >= minAlike {
			out = append(out, alike{x.words[i].text, share})
		}
	}
	return out
}

// fuse adds similarities to keyword scores, each divided by its maximum.
func fuse(scores, near []float64) {
	if len(scores) == 0 {
		return
	}
	byWord, byMeaning := max(slices.Max(scores), tiny), max(slices.Max(near), tiny)
	for i := range scores {
		scores[i] = (1-semanticShare)*scores[i]/byWord + semanticShare*near[i]/byMeaning
	}
}

// tiny replaces a maximum of zero.
const tiny = 1e-9

// ranking is a heap of tools, the best first.
type ranking struct {
	scores []float64
	order  []int
}

func (r *ranking) Len() int { return len(r.order) }

func (r *ranking) Less(i, j int) bool {
	a, b := r.order[i], r.order[j]
	if r.scores[a] != r.scores[b] {
		return r.scores[a] > r.scores[b]
	}
	return a < b
}

func (r *ranking) Swap(i, j int) { r.order[i], r.order[j] = r.order[j], r.order[i] }

// Push implements [heap.Interface].
func (r *ranking) Push(v any) { r.order = append(r.order, v.(int)) }

// Pop implements [heap.Interface].
func (r *ranking) Pop() any {
	last := len(r.order) - 1
	v := r.order[last]
	r.order = r.order[:last]
	return v
}
