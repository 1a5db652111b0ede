package draw

import "math"

// columns chooses x for every item. Neighbors pull at each other like springs, and
// items of a layer keep their order and distance. Each layer is solved exactly while
// the others are fixed; a few passes over the layers come close to the optimum.
func (p *part) columns() {
	for _, layer := range p.layers {
		x := 0.0
		for i, it := range layer {
			if i > 0 {
				x += float64(p.apart(layer[i-1], it))
			}
			it.fx = x
		}
	}
	n := len(p.layers)
	for range 2 {
		for l := range n {
			p.settle(p.layers[l], true, false)
		}
		for l := n - 1; l >= 0; l-- {
			p.settle(p.layers[l], false, true)
		}
	}
	rounds := 16
	if len(p.items) > 20_000 {
		rounds = 3
	}
	for i := range rounds {
		for l := range n {
			if i%2 == 1 {
				l = n - 1 - l
			}
			p.settle(p.layers[l], true, true)
		}
	}
	for _, layer := range p.layers {
		p.snap(layer)
	}
	for range 3 {
		p.straightenLinks()
		p.straightenItems()
	}
	p.slide()
}

// apart returns the minimum distance between the centers of two neighbors.
func (p *part) apart(a, b *item) int {
	gap := p.m.gapBox
	if a.kind >= labelItem || b.kind >= labelItem {
		gap = p.m.gapBend
	}
	return a.right + gap + b.left
}

// settle moves the items of a layer as close as possible, by least squares, to the
// positions that their neighbors prefer. Items that would overlap are pooled and move
// as one, the classic solution for a sum of squares over ordered values.
func (p *part) settle(layer []*item, up, down bool) {
	pools := make([]pool, 0, len(layer))
	off := 0.0
	for i, it := range layer {
		if i > 0 {
			off += float64(p.apart(layer[i-1], it))
		}
		want, weight := it.pull(up, down)
		pools = merge(append(pools, pool{want - off, weight, 1}))
	}
	off = 0
	i := 0
	for _, b := range pools {
		for range b.n {
			if i > 0 {
				off += float64(p.apart(layer[i-1], layer[i]))
			}
			layer[i].fx = b.at + off
			i++
		}
	}
}

type pool struct {
	at, weight float64
	n          int
}

func merge(pools []pool) []pool {
	for k := len(pools) - 1; k > 0 && pools[k-1].at >= pools[k].at; k-- {
		a, b := pools[k-1], pools[k]
		w := a.weight + b.weight
		pools[k-1] = pool{(a.at*a.weight + b.at*b.weight) / w, w, a.n + b.n}
		pools = pools[:k]
	}
	return pools
}

// pull returns the position that the neighbors prefer for the item, and how strongly.
// Passing edges pull hardest: a bend in a long edge is the hardest to read.
func (it *item) pull(up, down bool) (want, weight float64) {
	sum := 0.0
	tug := func(other *item, at int) {
		w := 1.0
		if it.kind >= labelItem {
			w *= 3
		}
		if other.kind >= labelItem {
			w *= 3
		}
		sum += w * (other.fx + float64(at))
		weight += w
	}
	if up {
		for _, s := range it.up {
			tug(s.upper, s.upOff-s.lowOff)
		}
	}
	if down {
		for _, s := range it.down {
			tug(s.lower, s.lowOff-s.upOff)
		}
	}
	if weight == 0 {
		return it.fx, 0.01
	}
	return sum / weight, weight
}

// snap rounds the positions of a layer to whole columns. Rounding could bring two items
// one column too close, so each item also keeps its distance from the previous one.
func (p *part) snap(layer []*item) {
	for i, it := range layer {
		it.x = int(math.Floor(it.fx + 0.5))
		if i > 0 {
			it.x = max(it.x, layer[i-1].x+p.apart(layer[i-1], it))
		}
	}
}

// free returns the range of columns that the item can move in.
func (p *part) free(it *item) (lo, hi int) {
	layer := p.layers[it.layer]
	lo, hi = math.MinInt32, math.MaxInt32
	if it.pos > 0 {
		prev := layer[it.pos-1]
		lo = prev.x + p.apart(prev, it)
	}
	if it.pos+1 < len(layer) {
		next := layer[it.pos+1]
		hi = next.x - p.apart(it, next)
	}
	return lo, hi
}

// jog returns the cost of an edge that moves d columns sideways: having a bend costs
// more than lengthening one.
func jog(d int) int {
	if d == 0 {
		return 0
	}
	return 6 + max(d, -d)
}

// straightenLinks moves all bends of a long edge to one column, if a column is free
// along the whole edge.
func (p *part) straightenLinks() {
	for _, k := range p.links {
		n := len(k.segs)
		if n < 2 {
			continue
		}
		lo, hi := math.MinInt32, math.MaxInt32
		cost := jog(k.segs[n-1].x2() - k.segs[n-1].x1())
		for _, s := range k.segs[:n-1] {
			cost += jog(s.x2() - s.x1())
			l, h := p.free(s.lower)
			lo, hi = max(lo, l), min(hi, h)
		}
		top, bottom := k.segs[0].x1(), k.segs[n-1].x2()
		best, found := 0, false
		try := func(x int) {
			if c := jog(x-top) + jog(bottom-x); lo <= x && x <= hi && c < cost {
				best, cost, found = x, c, true
			}
		}
		try(top)
		try(bottom)
		try(lo)
		try(hi)
		try(k.segs[n/2].x1())
		if found {
			for _, s := range k.segs[:n-1] {
				s.lower.x = best
			}
		}
	}
}

// straightenItems moves items slightly where that straightens their edges.
func (p *part) straightenItems() {
	for _, layer := range p.layers {
		for _, it := range layer {
			lo, hi := p.free(it)
			cost := func(dx int) int {
				c := 0
				for _, s := range it.up {
					c += jog(s.x2() + dx - s.x1())
				}
				for _, s := range it.down {
					c += jog(s.x1() + dx - s.x2())
				}
				return c
			}
			best, least := 0, cost(0)
			if least == 0 {
				continue
			}
			try := func(dx int) {
				if x := it.x + dx; lo <= x && x <= hi {
					if c := cost(dx); c < least {
						best, least = dx, c
					}
				}
			}
			for _, s := range it.up {
				try(s.x1() - s.x2())
			}
			for _, s := range it.down {
				try(s.x2() - s.x1())
			}
			it.x += best
		}
	}
}

// slide moves edges along the sides of their boxes where that straightens them.
func (p *part) slide() {
	for _, gap := range p.gaps {
		for _, s := range gap {
			if d := s.x2() - s.x1(); d != 0 && !p.slideEnd(s.upper, s.upper.down, s, d) {
				p.slideEnd(s.lower, s.lower.up, s, -d)
			}
		}
	}
}

// slideEnd moves the point where s meets a side of it by d columns, if the adjacent
// edges leave room.
func (p *part) slideEnd(it *item, side []*seg, s *seg, d int) bool {
	if it.kind != nodeItem {
		return false
	}
	off := func(s *seg) *int {
		if s.upper == it {
			return &s.upOff
		}
		return &s.lowOff
	}
	to := *off(s) + d
	lo, hi := -it.left+p.m.portTight, it.half-p.m.portTight
	for i, o := range side {
		if o != s {
			continue
		}
		if i > 0 {
			lo = *off(side[i-1]) + p.m.portTight
		}
		if i+1 < len(side) {
			hi = *off(side[i+1]) - p.m.portTight
		}
	}
	if to < lo || to > hi {
		return false
	}
	*off(s) = to
	return true
}
