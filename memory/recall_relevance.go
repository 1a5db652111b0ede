package memory

import "github.com/treadle-go/treadle/store"

// relevanceOf says how well each of the items of a search answers it, compared with
// the best of them, from 0 to 1. The store's score is by words, or by meaning and
// words; what is unlike the query has one below zero.
func relevanceOf(items []*store.Item) []float64 {
	var best float64
	for _, item := range items {
		best = max(best, item.Score)
	}
	out := make([]float64, len(items))
	for i, item := range items {
		if best > 0 {
			out[i] = max(0, item.Score) / best
		}
	}
	return out
}
