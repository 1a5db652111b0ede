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
//
// Being near says nothing where all are, as in a store that was filled at once: only a greater
// share of the highest relevance among the others counts than the share that each memory gets.
func setContext(cs []Recalled) {
	type point struct {
		*Reasons
		at time.Time
	}
	points := make([]point, len(cs))
	var best, second float64 // relevances
	for i := range cs {
		points[i] = point{&cs[i].Why, notedAt(cs[i].Item)}
		points[i].Context = 0
		if r := points[i].Relevance; r > best {
			best, second = r, best
		} else {
			second = max(second, r)
		}
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
	most := func(p point) float64 { // the highest relevance among the others
		if p.Relevance == best {
			return second
		}
		return best
	}
	least := 1.0
	for _, p := range points {
		if m := most(p); m > 0 {
			least = min(least, p.Context/m)
		}
	}
	for _, p := range points {
		p.Context = max(0, p.Context-least*most(p))
	}
}

// total returns the relevance of a memory with that of its context.
func (w Reasons) total(weights Weights) float64 { return w.Relevance + weights.Context*w.Context }
