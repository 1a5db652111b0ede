package memory

import "github.com/treadle-go/treadle/store"

// relevanceOf returns the score of each item of a search relative to the best one,
// from 0 to 1. Scores below zero, of items that are unlike the query, become 0.
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
