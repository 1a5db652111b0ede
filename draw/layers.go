package draw

import (
	"cmp"
	"slices"
)

// seg is the part of a link between two adjacent layers. upOff and lowOff are the
// columns where it meets its ends, relative to their centers.
type seg struct {
	edge           int
	upper, lower   *item
	upOff, lowOff  int
	tipUp, tipDown bool    // this end has an arrowhead
	bends          []point // between the layers, from top to bottom
}

func (s *seg) x1() int { return s.upper.x + s.upOff }
func (s *seg) x2() int { return s.lower.x + s.lowOff }

// part is a connected component of one level, laid out in layers.
type part struct {
	m      *metrics
	items  []*item
	links  []*link
	layers [][]*item
	gaps   [][]*seg // gaps[i] lies between layers i and i+1
	w, h   int
}

// parts splits a level into connected components, in definition order. All items that
// an edge reaches from outside form one component, which comes first.
func (l *level) parts(m *metrics) []*part {
	in := map[*item]*part{}
	var out []*part
	gather := func(from ...*item) {
		p := &part{m: m}
		out = append(out, p)
		for _, it := range from {
			in[it] = p
		}
		for i := 0; i < len(from); i++ {
			visit := func(it *item) {
				if in[it] == nil {
					in[it] = p
					from = append(from, it)
				}
			}
			for _, k := range from[i].outs {
				visit(k.lower)
			}
			for _, k := range from[i].ins {
				visit(k.upper)
			}
		}
	}
	var ports []*item
	for _, it := range l.items {
		if it.kind == portItem {
			ports = append(ports, it)
		}
	}
	if len(ports) > 0 {
		gather(ports...)
	}
	for _, it := range l.items {
		if in[it] == nil {
			gather(it)
		}
		in[it].items = append(in[it].items, it)
	}
	for _, k := range l.links {
		in[k.upper].links = append(in[k.upper].links, k)
	}
	return out
}

// assign puts every item one layer below the lowest of its predecessors, then lowers
// items that have more edges below than above, which shortens edges. Ports are on the
// border: the first and the last layer are reserved for them.
func (p *part) assign() {
	first, waiting := 0, map[*item]int{}
	for _, it := range p.items {
		waiting[it] = len(it.ins)
		if it.kind == portItem && len(it.ins) == 0 {
			first = 1
		}
	}
	var sorted []*item
	for _, it := range p.items {
		if it.kind != portItem {
			it.layer = first
		}
		if waiting[it] == 0 {
			sorted = append(sorted, it)
		}
	}
	last := first
	for i := 0; i < len(sorted); i++ {
		it := sorted[i]
		for _, k := range it.outs {
			k.lower.layer = max(k.lower.layer, it.layer+1)
			waiting[k.lower]--
			if waiting[k.lower] == 0 {
				sorted = append(sorted, k.lower)
			}
		}
		if it.kind != portItem {
			last = max(last, it.layer)
		}
	}
	for _, it := range slices.Backward(sorted) {
		switch {
		case it.kind == portItem && len(it.ins) > 0:
			it.layer = last + 1
		case it.kind != portItem && len(it.outs) > len(it.ins):
			low := last + 1
			for _, k := range it.outs {
				low = min(low, k.lower.layer)
			}
			it.layer = max(it.layer, low-1)
		}
	}
}

// fill builds the layers: the items, the labels between them, and a bend wherever an
// edge passes a layer. Odd layers exist only where there is a label.
func (p *part) fill() {
	index := map[int]int{}
	for _, it := range p.items {
		it.layer *= 2
		index[it.layer] = 0
	}
	at := func(k *link) int { // the label's layer, next to the start of the edge
		if k.flip {
			return k.lower.layer - 1
		}
		return k.upper.layer + 1
	}
	for _, k := range p.links {
		if len(k.lines) > 0 {
			index[at(k)] = 0
		}
	}
	used := make([]int, 0, len(index))
	for l := range index {
		used = append(used, l)
	}
	slices.Sort(used)
	for i, l := range used {
		index[l] = i
	}
	p.gaps = make([][]*seg, len(used)-1)
	for _, k := range p.links {
		from := k.upper
		for i := index[k.upper.layer] + 1; i <= index[k.lower.layer]; i++ {
			to := k.lower
			switch {
			case used[i] == k.lower.layer:
			case len(k.lines) > 0 && used[i] == at(k):
				to = p.label(k)
			default:
				to = &item{kind: bendItem, home: k.upper.home}
			}
			if to != k.lower {
				to.layer = used[i]
				p.items = append(p.items, to)
			}
			s := &seg{edge: k.edge, upper: from, lower: to}
			from.down, to.up = append(from.down, s), append(to.up, s)
			p.gaps[i-1] = append(p.gaps[i-1], s)
			k.segs = append(k.segs, s)
			from = to
		}
		first, last := k.segs[0], k.segs[len(k.segs)-1]
		if k.upper.kind == frameItem {
			first.upOff = k.upper.portAt(p.m, k.edge)
		}
		if k.lower.kind == frameItem {
			last.lowOff = k.lower.portAt(p.m, k.edge)
		}
		first.tipUp = k.flip && k.role != leaving && k.upper.kind == nodeItem
		last.tipDown = !k.flip && k.role != leaving && k.lower.kind == nodeItem
	}
	for _, it := range p.items {
		it.layer = index[it.layer]
	}
	p.layers = make([][]*item, len(used))
}

// label creates the item for a link's text.
func (p *part) label(k *link) *item {
	it := &item{kind: labelItem, home: k.upper.home, lines: k.lines, h: len(k.lines) * p.m.line}
	for _, line := range k.lines {
		it.half = max(it.half, p.m.room(line)/2)
	}
	it.left, it.right = it.half, it.half
	k.label = it
	return it
}

// order repeatedly sorts the items of each layer by the positions of their neighbors,
// and keeps the order with the fewest crossings.
func (p *part) order() {
	p.firstOrder()
	total := 0
	for _, g := range p.gaps {
		total += len(g)
	}
	maxIdle, rounds := 8, 32
	if total > 20_000 {
		maxIdle, rounds = 2, 4 // good enough: such a diagram is too large to read closely
	}
	best, fewest := p.snapshot(), p.crossings()
	for i, idle := 0, 0; i < rounds && idle < maxIdle && fewest > 0; i++ {
		swap := i%4 >= 2
		if i%2 == 0 {
			for l := 1; l < len(p.layers); l++ {
				p.sortLayer(l, true, swap)
			}
		} else {
			for l := len(p.layers) - 2; l >= 0; l-- {
				p.sortLayer(l, false, swap)
			}
		}
		idle++
		if n := p.crossings(); n < fewest {
			best, fewest, idle = p.snapshot(), n, 0
		}
	}
	for i, layer := range best {
		p.layers[i] = layer
		number(layer)
	}
}

// firstOrder orders the items by walking down from the top, which keeps branches
// together.
func (p *part) firstOrder() {
	seen := map[*item]bool{}
	for _, root := range p.items {
		if len(root.up) > 0 {
			continue
		}
		for stack := []*item{root}; len(stack) > 0; {
			it := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if seen[it] {
				continue
			}
			seen[it] = true
			p.layers[it.layer] = append(p.layers[it.layer], it)
			for _, s := range slices.Backward(it.down) {
				stack = append(stack, s.lower)
			}
		}
	}
	for _, layer := range p.layers {
		number(layer)
	}
}

func number(layer []*item) {
	for i, it := range layer {
		it.pos = i
	}
}

func (p *part) snapshot() [][]*item {
	out := make([][]*item, len(p.layers))
	for i, layer := range p.layers {
		out[i] = slices.Clone(layer)
	}
	return out
}

// sortLayer orders one layer by the mean position of the neighbors above or below. An
// item without neighbors keeps its position. If two items have the same mean, swap puts
// the later one first, which sometimes escapes a local minimum.
func (p *part) sortLayer(l int, above, swap bool) {
	layer := p.layers[l]
	keys := make(map[*item]float64, len(layer))
	for _, it := range layer {
		sum, n := 0.0, 0
		if above {
			for _, s := range it.up {
				sum, n = sum+s.upper.place(s.upOff), n+1
			}
		} else {
			for _, s := range it.down {
				sum, n = sum+s.lower.place(s.lowOff), n+1
			}
		}
		keys[it] = float64(it.pos) + 0.5
		if n > 0 {
			keys[it] = sum / float64(n)
		}
	}
	tie := 1
	if swap {
		tie = -1
	}
	slices.SortFunc(layer, func(a, b *item) int {
		return cmp.Or(cmp.Compare(keys[a], keys[b]), tie*cmp.Compare(a.pos, b.pos))
	})
	number(layer)
}

// place returns where an edge meets the item, in units of items of its layer. Only a
// frame has fixed positions; a node's edges are sorted later.
func (it *item) place(off int) float64 {
	if it.kind != frameItem {
		return float64(it.pos) + 0.5
	}
	return float64(it.pos) + float64(off+it.half+1)/float64(2*it.half+2)
}

// crossings returns the number of pairs of edges that cross.
func (p *part) crossings() int {
	n := 0
	for _, gap := range p.gaps {
		sorted := slices.Clone(gap)
		slices.SortFunc(sorted, func(a, b *seg) int {
			return cmp.Or(
				cmp.Compare(a.upper.place(a.upOff), b.upper.place(b.upOff)),
				cmp.Compare(a.lower.place(a.lowOff), b.lower.place(b.lowOff)))
		})
		ends := make([]float64, len(sorted))
		for i, s := range sorted {
			ends[i] = s.lower.place(s.lowOff)
		}
		n += inversions(ends, make([]float64, len(ends)))
	}
	return n
}

// inversions sorts v and returns the number of pairs that were out of order.
func inversions(v, spare []float64) int {
	if len(v) < 2 {
		return 0
	}
	mid := len(v) / 2
	n := inversions(v[:mid], spare[:mid]) + inversions(v[mid:], spare[mid:])
	copy(spare, v)
	a, b := spare[:mid], spare[mid:]
	for i := range v {
		if len(b) == 0 || len(a) > 0 && a[0] <= b[0] {
			v[i], a = a[0], a[1:]
		} else {
			v[i], b = b[0], b[1:]
			n += len(a)
		}
	}
	return n
}

// dock spreads the edges of each box along its sides, ordered by their destinations, so
// that edges of one box never cross near it.
func (p *part) dock() {
	for _, it := range p.items {
		if it.kind != nodeItem {
			continue
		}
		slices.SortStableFunc(it.down, func(a, b *seg) int {
			return cmp.Or(cmp.Compare(a.lower.place(a.lowOff), b.lower.place(b.lowOff)), cmp.Compare(a.edge, b.edge))
		})
		slices.SortStableFunc(it.up, func(a, b *seg) int {
			return cmp.Or(cmp.Compare(a.upper.place(a.upOff), b.upper.place(b.upOff)), cmp.Compare(a.edge, b.edge))
		})
		for i, s := range it.down {
			s.upOff = p.m.offset(i, len(it.down))
		}
		for i, s := range it.up {
			s.lowOff = p.m.offset(i, len(it.up))
		}
	}
}

// offset returns the column of the i-th of n edges on one side of a box.
func (m *metrics) offset(i, n int) int {
	return (2*i - (n - 1)) * m.spread(n) / 2
}

func (m *metrics) spread(n int) int {
	if n > 5 {
		return m.portTight
	}
	return m.port
}
