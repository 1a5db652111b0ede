package memory

import (
	"maps"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/treadle-go/treadle/store"
)

// relevanceOf says how well each of the items of a search answers it, compared with
// the best of them, from 0 to 1.
//
// Where the store has ranked by meaning and by words the two ranks are fused, as it
// does itself; but the one by meaning counts only for as much as the item is
// similar, compared with the most similar one, and the one by words for as much of
// the query as the item has words of. Where little is known, to be second, or first
// by the word "a", says nothing.
func relevanceOf(query string, items []*store.Item) []float64 {
	out := make([]float64, len(items))
	byMeaning, closest := false, 0.0
	for _, item := range items {
		byMeaning = byMeaning || item.Explanation.SimilarityRank > 0
		closest = max(closest, item.Explanation.Similarity)
	}
	words := weighWords(query, items)
	var best float64
	for i, item := range items {
		x := item.Explanation
		if out[i] = max(0, item.Score); byMeaning {
			out[i] = words.share(x.Terms) * byRank(x.KeywordRank)
			if x.Similarity > 0 {
				out[i] += x.Similarity / closest * byRank(x.SimilarityRank)
			}
		}
		best = max(best, out[i])
	}
	for i := range out {
		if best > 0 {
			out[i] /= best
		}
	}
	return out
}

// byRank is what a rank is worth: that of the store's fusion. Rank 0 is none.
func byRank(rank int) float64 {
	if rank == 0 {
		return 0
	}
	return 1 / float64(60+rank)
}

// wordWeights are the weights of the words of a query: rare ones have more.
type wordWeights struct {
	of  map[string]float64
	all float64
}

func weighWords(query string, items []*store.Item) wordWeights {
	having := map[string]int{}
	for _, word := range strings.FieldsFunc(strings.ToLower(query), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		having[word] = 0
	}
	for _, item := range items {
		for _, term := range item.Explanation.Terms {
			having[term]++
		}
	}
	w := wordWeights{of: map[string]float64{}}
	for _, word := range slices.Sorted(maps.Keys(having)) { // sorted, so that the sum is always the same
		w.of[word] = math.Log1p(float64(len(items)) / max(float64(having[word]), 0.5))
		w.all += w.of[word]
	}
	return w
}

// share is how much of the query some of its words are, from 0 to 1.
func (w wordWeights) share(words []string) float64 {
	var some float64
	for _, word := range words {
		some += w.of[word]
	}
	if some == 0 {
		return 0
	}
	return some / w.all
}
