package memory

import "github.com/treadle-go/treadle/store"

// relevanceOf returns the score of each item of a search relative to the best item, from 0
// to 1. Scores are measured from a baseline, the score of an unrelated item, so that
// recency and importance do not outweigh a clear difference. With a hundred items, the
// baseline is the score of the last one. With fewer items, the last one may well be
// relevant, so only a fraction of its score is used.
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
		} else if best > 0 { // all scores are equal
			out[i] = max(0, item.Score) / best
		}
	}
	return out
}
