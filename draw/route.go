package draw

import (
	"cmp"
	"slices"
)

type point struct{ x, y int }

// wire is a horizontal stretch of an edge between two layers: it comes down in column
// from, runs along its row, and goes down in column to.
type wire struct {
	seg      *seg
	from, to int
	row      int
	after    []*wire // wires that must be above this one
	placed   bool
}

func (w *wire) span() (lo, hi int) { return min(w.from, w.to), max(w.from, w.to) }

// channel finds rows for the edges between two layers.
//
// Every column is used by at most one edge on the upper side and one on the lower side. Where both
// sides use a column for different edges, the edge from above must turn off before the other one
// turns in:
//
//	   A        A's row lies above B's, or the two would
//	   └──…     overlap in this column.
//	…──┐
//	   B
//
// Edges in the same direction are stacked so that they do not cross.
type channel struct {
	wires []*wire
	top   map[int]*wire // by the column they come from
	taken map[int]bool  // columns in use, above or below
	rows  [][]*wire
}

// route sets the bends of segs, with rows as their y, and returns the number of rows.
func route(segs []*seg) int {
	c := &channel{top: map[int]*wire{}, taken: map[int]bool{}}
	for _, s := range segs {
		x1, x2 := s.x1(), s.x2()
		c.taken[x1], c.taken[x2] = true, true
		if x1 == x2 {
			continue
		}
		w := &wire{seg: s, from: x1, to: x2}
		c.wires = append(c.wires, w)
		c.top[x1] = w
	}
	for _, w := range c.wires {
		if above := c.top[w.to]; above != nil {
			w.after = append(w.after, above)
		}
	}
	// To the right, the rightmost wire comes first; to the left, the leftmost.
	slices.SortStableFunc(c.wires, func(a, b *wire) int {
		if ra, rb := a.to > a.from, b.to > b.from; ra != rb {
			if ra {
				return -1
			}
			return 1
		} else if ra {
			return cmp.Compare(b.from, a.from)
		}
		return cmp.Compare(a.from, b.from)
	})
	for waiting := slices.Clone(c.wires); len(waiting) > 0; {
		var stuck []*wire
		for _, w := range waiting {
			if slices.ContainsFunc(w.after, func(a *wire) bool { return !a.placed }) {
				stuck = append(stuck, w)
			} else {
				c.place(w)
			}
		}
		if len(stuck) == len(waiting) {
			stuck = append(stuck, c.split(onCycle(stuck[0])))
		}
		waiting = stuck
	}
	c.trace()
	return len(c.rows)
}

// place puts w into the highest free and allowed row.
func (c *channel) place(w *wire) {
	row := 0
	for _, a := range w.after {
		row = max(row, a.row+1)
	}
	lo, hi := w.span()
	fits := len(c.rows)
	for r := len(c.rows) - 1; r >= row; r-- {
		clash, same := false, false
		for _, o := range c.rows[r] {
			if l, h := o.span(); l <= hi && lo <= h {
				clash = true
				same = same || (o.to > o.from) == (w.to > w.from)
			}
		}
		if same {
			break
		}
		if !clash {
			fits = r
		}
	}
	w.row, w.placed = max(fits, row), true
	for len(c.rows) <= w.row {
		c.rows = append(c.rows, nil)
	}
	c.rows[w.row] = append(c.rows[w.row], w)
}

// onCycle follows the waiting wires until it finds one on a cycle.
func onCycle(w *wire) *wire {
	seen := map[*wire]bool{}
	for !seen[w] {
		seen[w] = true
		i := slices.IndexFunc(w.after, func(a *wire) bool { return !a.placed })
		w = w.after[i]
	}
	return w
}

// split resolves wires that wait for each other: w turns off into an unused column,
// where its second half starts.
//
//	A   B
//	└─┐ │
//	┌─┼─┘
//	│ └─┐
//	B   A
func (c *channel) split(w *wire) *wire {
	via := w.to
	for d := 1; c.taken[via]; d++ {
		via = w.to - d
		if !c.taken[via] {
			break
		}
		via = w.to + d
	}
	c.taken[via] = true
	rest := &wire{seg: w.seg, from: via, to: w.to, after: append(w.after, w)}
	w.to, w.after = via, nil
	c.wires = append(c.wires, rest)
	return rest
}

// trace sets the bends of each edge.
func (c *channel) trace() {
	slices.SortStableFunc(c.wires, func(a, b *wire) int { return cmp.Compare(a.row, b.row) })
	for _, w := range c.wires {
		w.seg.bends = append(w.seg.bends, point{w.from, w.row}, point{w.to, w.row})
	}
}
