package draw

import (
	"slices"
	"strings"
)

// maxCells is the maximum size of a text diagram. Two thousand columns by two thousand
// rows is more than a reader can usefully scroll through.
const maxCells = 1 << 22

// cells are the metrics for drawing with characters.
var cells = metrics{
	box: func(lines []string) (half, trim int) {
		w := 4
		for _, line := range lines {
			w = max(w, textWidth(line)+4)
		}
		return w / 2, 1 - w%2
	},
	room:      textWidth,
	line:      1,
	padY:      2,
	gapBox:    4,
	gapBend:   3,
	port:      4,
	portTight: 2,
	lane:      1,
	lead:      0,
	tip:       1,
	minGap:    2,
	minLabel:  1,
	loop:      3,
	framePad:  3,
	frameTop:  1,
	frameEnd:  1,
	titleGap:  3,
	shelf:     76,
}

// Text returns a diagram of the shape for a terminal: boxes in layers, with arrows
// downward, dashed if an edge is conditional. An edge that closes a cycle is drawn
// upward, and no two edges share a line.
//
// If the diagram would be too large to be useful, Text returns a list of the edges, one
// per line.
func (s Shape) Text() string { return s.paint(unicodeGlyphs) }

// ASCII is like [Shape.Text], but uses only ASCII characters, except in names. Where
// two lines cross, the vertical one is on top.
func (s Shape) ASCII() string { return s.paint(asciiGlyphs) }

func (s Shape) paint(g *glyphs) string {
	pic := lay(s, &cells)
	if len(pic.nodes) == 0 {
		return ""
	}
	if pic.w >= maxCells/max(1, pic.h) {
		return pic.list(g)
	}
	c := newCanvas(pic.w+1, pic.h, g)
	for _, l := range pic.frames {
		f := l.self
		c.frame(f.x-f.half, f.y, f.x+f.half, f.y+f.h-1)
		c.text(f.x-f.half+l.titleX-1, f.y, " "+clean(l.title)+" ")
	}
	for _, it := range pic.boxes {
		n := pic.nodes[it.node]
		left, right := it.x-it.half+it.trim, it.x+it.half
		c.box(left, it.y, right, it.y+it.h-1, n.terminal())
		y := it.y + (it.h-len(it.lines))/2
		for i, line := range it.lines {
			c.text(left+(right-left+1-textWidth(line))/2, y+i, line)
		}
	}
	for _, p := range pic.paths {
		c.path(p, pic.edges[p.edge].Conditional)
	}
	for _, p := range pic.paths {
		for i, line := range p.text {
			x := p.mid.x
			if !p.loop {
				x -= textWidth(line) / 2
			} else {
				x++
			}
			c.text(x, p.mid.y+i, line)
		}
	}
	return c.String()
}

// list returns the nodes that no edge touches, and the edges.
func (pic *picture) list(g *glyphs) string {
	var b strings.Builder
	for _, it := range pic.boxes {
		if len(it.ins)+len(it.outs)+len(it.loops) == 0 {
			b.WriteString(clean(pic.nodes[it.node].ID) + "\n")
		}
	}
	for _, e := range pic.edges {
		line := g.lines[goLeft|goRight]
		if e.Conditional {
			line = g.dashH
		}
		b.WriteString(clean(e.From) + " " + string([]rune{line, line, g.right}) + " " + clean(e.To))
		if e.Label != "" {
			b.WriteString("  " + clean(e.Label))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// path draws one edge: a joint in the border it leaves, the line, and the tip.
func (c *canvas) path(p path, dashed bool) {
	points := p.cells()
	if len(points) < 2 {
		return
	}
	first, last := points[0], points[len(points)-1]
	switch {
	case p.loop:
		c.set(first.x-1, first.y, c.g.outRight)
		c.line(first.x, first.y, goLeft, dashed)
	case p.upwards():
		c.set(first.x, first.y+1, c.g.outUp)
		c.line(first.x, first.y, goDown, dashed)
	default:
		c.set(first.x, first.y-1, c.g.outDown)
		c.line(first.x, first.y, goUp, dashed)
	}
	for i := range len(points) - 1 {
		c.stroke(points[i], points[i+1], dashed)
	}
	switch {
	case p.loop:
		c.set(last.x, last.y, c.g.left)
	case p.upwards():
		c.set(last.x, last.y, c.g.up)
	default:
		c.set(last.x, last.y, c.g.down)
	}
}

func (p path) upwards() bool { return p.points[0].y > p.points[len(p.points)-1].y }

// cells returns the corners of the path in character cells. In the layout, lines run
// from border to border; here, borders are separate cells, and the line lies strictly
// between them.
func (p path) cells() []point {
	n := len(p.points)
	if n < 2 {
		return nil
	}
	points := slices.Clone(p.points)
	switch {
	case p.loop:
		points[0].x++
		points[n-1].x++
	case p.upwards():
		points[0].y--
	default:
		points[n-1].y--
	}
	return points
}
