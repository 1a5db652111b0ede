package memory

import "github.com/treadle-go/treadle/store"

// relevanceOf returns the score of each item of a search relative to the best one,
// from 0 to 1. It is measured from the score of an item that the query is not about,
// so that recency and importance do not outweigh a clear difference. That is the last
// of a hundred items; of fewer items the last one may well be relevant, so a smaller
// part of its score is taken.
func relevanceOf(items []*store.Item) []float64 {
	if len(items) == 0 {
		return nil
	}
	best, last := items[0].Score, items[min(len(items), recallDepth)-1].Score
	base := max(0, last) * min(1, float64(len(items))/recallDepth)
	out := make([]float64, len(items))
	for i, item := range items {
		if best > base {
			out[i] = max(0, item.Score-base) / (best - base)
		} else if best > 0 { // all are alike
			out[i] = max(0, item.Score) / best
		}
	}
	return out
}
