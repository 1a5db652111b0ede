package draw

import (
	"cmp"
	"slices"
)

// picture is a finished layout with absolute positions, relative to the top left
// corner. Columns range from 0 to w, inclusive, and rows from 0 to h-1.
type picture struct {
	*scene
	w, h   int
	frames []*level
	paths  []path // one per edge, in the order of the edges
}

// path is the route of an edge, from its source to its target.
type path struct {
	edge   int
	points []point
	loop   bool
	text   []string // the label's lines, if any
	mid    point    // position of the label: center column, or first column if loop; top row
}

// lay computes the layout of s:
//
//  1. scene.go groups nodes into frames (one per expanded subgraph) and lifts every edge to the
//     innermost frame that contains both of its ends.
//  2. layers.go breaks cycles, assigns nodes to layers, and orders each layer to minimize edge
//     crossings. A label is a separate small box in the layout, so it never overlaps other items.
//  3. columns.go chooses columns: neighbors attract each other, and long edges are straightened.
//  4. route.go gives every edge a separate lane between two layers. Edges cross but never share a
//     line.
//  5. This file stacks the layers and returns rectangles and polylines.
func lay(s Shape, m *metrics) *picture {
	sc := newScene(s, m)
	pic := &picture{scene: sc}
	if len(sc.nodes) == 0 {
		return pic
	}
	sc.orient()
	for _, it := range sc.boxes {
		sc.size(it)
	}
	// Inner levels are created after the outer ones, but must be placed first.
	for _, l := range slices.Backward(sc.levels) {
		l.arrange(m)
	}
	root := sc.levels[0]
	pic.w, pic.h = root.w, root.h
	pic.collect()
	return pic
}

// size computes the size of a node's box: its text, room for its edges, and loops
// beside it.
func (sc *scene) size(it *item) {
	m, n := sc.m, sc.nodes[it.node]
	notes := n.notes()
	for i := range notes {
		notes[i] = clean(notes[i])
	}
	it.lines = append([]string{clean(n.title())}, notes...)
	lines := len(it.lines)
	it.half, it.trim = m.box(it.lines)
	for _, k := range []int{len(it.ins), len(it.outs)} {
		if need := (k-1)*m.spread(k)/2 + m.portTight; k > 1 && need >= it.half {
			it.half, it.trim = need, 0
		}
	}
	it.left, it.right = it.half-it.trim, it.half
	rows := 0
	for _, e := range it.loops {
		rows += sc.loopLines(e)
		wide := 0
		for _, line := range wrap(sc.edges[e].Label) {
			wide = max(wide, m.room(line)+1)
		}
		it.right = max(it.right, it.half+m.loop+wide)
	}
	it.h = max(lines, rows)*m.line + m.padY
}

// loopLines returns the height of a loop: at least two lines, or the height of its
// label.
func (sc *scene) loopLines(edge int) int { return max(2, len(wrap(sc.edges[edge].Label))) }

// arrange places the items of a level whose inner frames are finished.
func (l *level) arrange(m *metrics) {
	parts := l.parts(m)
	x, y, shelf := 0, 0, 0
	for i, p := range parts {
		p.assign()
		p.fill()
		p.order()
		p.dock()
		p.columns()
		p.rows()
		// Unconnected parts are placed side by side. A frame that edges cross has only
		// one row, so that nothing blocks the way down to its border.
		if i > 0 && x+p.w > max(parts[0].w, m.shelf) && len(l.ports) == 0 {
			x, y = 0, y+shelf+m.minGap
			shelf = 0
		}
		p.move(x, y)
		x += p.w + m.gapBox
		shelf = max(shelf, p.h)
		l.w, l.h = max(l.w, x-m.gapBox), max(l.h, y+p.h)
	}
	if l.self != nil {
		l.enclose(m)
	}
}

// rows routes the edges, stacks the layers, and moves the part to 0, 0.
func (p *part) rows() {
	y := 0
	for i, layer := range p.layers {
		h, boxes := 0, false
		for _, it := range layer {
			h = max(h, it.h)
			boxes = boxes || it.kind <= frameItem
		}
		for _, it := range layer {
			it.y = y + (h-it.h)/2
			if it.kind == bendItem {
				it.y, it.h = y, h
			}
		}
		y += h
		if i == len(p.gaps) {
			break
		}
		lanes, tipUp, tipDown := route(p.gaps[i]), 0, 0
		for _, s := range p.gaps[i] {
			if s.tipUp {
				tipUp = p.m.tip
			}
			if s.tipDown {
				tipDown = p.m.tip
			}
		}
		first := y + tipUp + p.m.lead
		for _, s := range p.gaps[i] {
			for j := range s.bends {
				s.bends[j].y = first + s.bends[j].y*p.m.lane
			}
		}
		least := p.m.minLabel
		if boxes && slices.ContainsFunc(p.layers[i+1], func(it *item) bool { return it.kind <= frameItem }) {
			least = p.m.minGap
		}
		y += max(least, tipUp+p.m.lead+lanes*p.m.lane+tipDown)
	}
	p.h = y
	lo, hi := 1<<30, -1<<30
	for _, it := range p.items {
		lo, hi = min(lo, it.x-it.left), max(hi, it.x+it.right)
	}
	for _, gap := range p.gaps {
		for _, s := range gap {
			for _, b := range s.bends {
				lo, hi = min(lo, b.x), max(hi, b.x)
			}
		}
	}
	p.w = hi - lo
	p.move(-lo, 0)
}

func (p *part) move(dx, dy int) {
	for _, it := range p.items {
		it.x, it.y = it.x+dx, it.y+dy
	}
	for _, gap := range p.gaps {
		for _, s := range gap {
			shift(s.bends, dx, dy)
		}
	}
}

func shift(points []point, dx, dy int) {
	for i := range points {
		points[i].x, points[i].y = points[i].x+dx, points[i].y+dy
	}
}

// enclose places the frame around a level, wide enough for its title, which is at the
// top where no edge passes.
func (l *level) enclose(m *metrics) {
	var crossed []int
	for _, p := range l.ports {
		if len(p.ins) == 0 {
			crossed = append(crossed, p.x+m.framePad)
		}
	}
	slices.Sort(crossed)
	l.titleX = m.titleGap
	width := m.room(clean(l.title))
	for _, x := range crossed {
		if x <= l.titleX+width+1 {
			l.titleX = max(l.titleX, x+m.titleGap)
		}
	}
	span := max(l.w+2*m.framePad, l.titleX+width+m.titleGap)
	f := l.self
	f.half = (span + 1) / 2
	f.left, f.right = f.half, f.half
	f.h = m.frameTop + l.h + m.frameEnd
}

// portAt returns the column where an edge crosses the frame, relative to the frame's
// center.
func (it *item) portAt(m *metrics, edge int) int {
	return m.framePad + it.frame.ports[edge].x - it.half
}

// collect makes all positions absolute, outer levels first, and joins the links of each
// edge into one path.
func (pic *picture) collect() {
	type piece struct {
		role   role
		depth  int
		points []point
	}
	pieces := make([][]piece, len(pic.edges))
	pic.paths = make([]path, len(pic.edges))
	for _, l := range pic.levels {
		dx, dy := 0, 0
		if f := l.self; f != nil {
			dx, dy = f.x-f.half+pic.m.framePad, f.y+pic.m.frameTop
			pic.frames = append(pic.frames, l)
		}
		for _, k := range l.links { // before the items move, because bends and labels do not move with them
			points := k.trace()
			shift(points, dx, dy)
			if k.flip {
				slices.Reverse(points)
			}
			depth := l.depth
			if k.role == leaving {
				depth = -depth // from the inside out
			}
			pieces[k.edge] = append(pieces[k.edge], piece{k.role, depth, points})
			if k.label != nil {
				pic.paths[k.edge].text = k.label.lines
				pic.paths[k.edge].mid = point{k.label.x + dx, k.label.y + dy}
			}
		}
		for _, it := range l.items {
			it.x, it.y = it.x+dx, it.y+dy
		}
	}
	for i, ps := range pieces {
		slices.SortFunc(ps, func(a, b piece) int {
			return cmp.Or(cmp.Compare(a.role, b.role), cmp.Compare(a.depth, b.depth))
		})
		var points []point
		for _, p := range ps {
			points = append(points, p.points...)
		}
		pic.paths[i].edge = i
		pic.paths[i].points = simplify(points)
	}
	for _, it := range pic.boxes {
		pic.loops(it)
	}
}

// trace returns the points of a link from top to bottom.
func (k *link) trace() []point {
	var points []point
	for _, s := range k.segs {
		points = append(points, point{s.x1(), s.upper.y + s.upper.h})
		points = append(points, s.bends...)
		points = append(points, point{s.x2(), s.lower.y})
	}
	return points
}

// simplify drops points in the middle of straight lines.
func simplify(points []point) []point {
	var out []point
	for _, p := range points {
		if n := len(out); n > 0 && out[n-1] == p {
			continue
		}
		if n := len(out); n > 1 {
			a, b := out[n-2], out[n-1]
			if a.x == b.x && b.x == p.x || a.y == b.y && b.y == p.y {
				out[n-1] = p
				continue
			}
		}
		out = append(out, p)
	}
	return out
}

// loops draws the edges from a node to itself, beside its box.
func (pic *picture) loops(it *item) {
	m, rows := pic.m, 0
	for _, e := range it.loops {
		rows += pic.loopLines(e)
	}
	y := it.y + (it.h-rows*m.line)/2 + m.line/2
	for _, e := range it.loops {
		n := pic.loopLines(e)
		x, back := it.x+it.half, y+(n-1)*m.line
		pic.paths[e] = path{
			edge: e, loop: true,
			points: []point{{x, y}, {x + m.loop, y}, {x + m.loop, back}, {x, back}},
			text:   wrap(pic.edges[e].Label),
			mid:    point{x + m.loop + 1, y - m.line/2},
		}
		y += n * m.line
	}
}
