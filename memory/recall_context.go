package memory

import (
	"math"
	"slices"
	"time"
)

// contextHalfLife is the time between two memories at which one counts half as context of the
// other. Recall hardly depends on it: docs/memory-quality.md.
const contextHalfLife = 2 * time.Minute

// setContext sets the context of memories. The highest decayed relevance of the earlier and of
// the later ones is computed in one pass over each direction of time.
func setContext(cs []Recalled) {
	type point struct {
		*Reasons
		at time.Time
	}
	points := make([]point, len(cs))
	for i := range cs {
		points[i] = point{&cs[i].Why, notedAt(cs[i].Item)}
	}
	slices.SortStableFunc(points, func(a, b point) int { return a.at.Compare(b.at) })
	for range 2 {
		nearby := 0.0
		for i, p := range points {
			if i > 0 {
				before := points[i-1]
				gap := p.at.Sub(before.at).Abs()
				nearby = max(nearby, before.Relevance) * math.Exp2(-float64(gap)/float64(contextHalfLife))
			}
			p.Context = max(p.Context, nearby)
		}
		slices.Reverse(points)
	}
	// A constant context, as in a store that was filled at once, says nothing.
	least := 1.0
	for _, p := range points {
		least = min(least, p.Context)
	}
	for _, p := range points {
		p.Context -= least
	}
}

// total returns the relevance of a memory with that of its context.
func (w Reasons) total(weights Weights) float64 { return w.Relevance + weights.Context*w.Context }
