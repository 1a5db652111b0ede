package draw

import (
	"encoding/xml"
	"fmt"
	"strings"
	"unicode"
)

// grid is the distance in pixels between two columns or rows of the layout.
const grid = 6

// squares are the metrics for drawing on the grid.
var squares = metrics{
	box: func(lines []string) (half, trim int) {
		w := pixels(lines[0], nameSize)
		for _, n := range lines[1:] {
			w = max(w, pixels(n, noteSize))
		}
		return max(5, int(w+28+2*grid-1)/(2*grid)), 0
	},
	room:      func(s string) int { return (int(pixels(s, labelSize)) + 8) / grid },
	line:      3,
	padY:      4,
	gapBox:    6,
	gapBend:   4,
	port:      4,
	portTight: 2,
	lane:      2,
	lead:      2,
	tip:       2,
	minGap:    7,
	minLabel:  2,
	loop:      5,
	framePad:  4,
	frameTop:  5,
	frameEnd:  2,
	titleGap:  2,
	shelf:     150,
}

// Font sizes and the baseline, in pixels.
const (
	nameSize  = 14
	noteSize  = 11
	labelSize = 12
	baseline  = 14 // in a line of three squares; renderers center text differently
)

// pixels estimates the width of text in a common sans serif font. No font metrics are
// available; the estimate is generous, and boxes have margins.
func pixels(s string, size float64) float64 {
	w := 0.0
	for _, r := range s {
		switch {
		case runeWidth(r) == 0:
		case runeWidth(r) == 2:
			w += 1.05
		case strings.ContainsRune("ijlIft.,:;'|!()[]{} ", r):
			w += 0.38
		case strings.ContainsRune("mwMW@%", r):
			w += 0.95
		case unicode.IsUpper(r):
			w += 0.72
		default:
			w += 0.6
		}
	}
	return w * size
}

// svgStyle loads no fonts and follows the reader's light or dark mode. All rules are
// below one class, so that they do not affect the styles of a page that embeds the
// diagram.
const svgStyle = `
.treadle { font-family: system-ui, -apple-system, "Segoe UI", "Helvetica Neue", Arial, sans-serif; font-size: 14px; }
.treadle text { fill: #23213a; text-anchor: middle; }
.treadle .ground { fill: #ffffff; }
.treadle .node rect { fill: #f2f0ff; stroke: #8b7fd6; stroke-width: 1.2; }
.treadle .terminal rect { fill: #bfb6fc; }
.treadle .start rect { fill: none; }
.treadle .note { font-size: 11px; font-style: italic; fill: #5f5b7d; }
.treadle .frame rect { fill: #8b7fd6; fill-opacity: 0.06; stroke: #8b7fd6; stroke-opacity: 0.55; }
.treadle .frame text { font-size: 12px; font-weight: 600; text-anchor: start; fill: #5f5b7d; }
.treadle .edge { fill: none; stroke: #5d5a72; stroke-width: 1.4; }
.treadle .conditional { stroke-dasharray: 5 4; }
.treadle .head { fill: #5d5a72; }
.treadle .label { font-size: 12px; fill: #4a4763; stroke: #ffffff; stroke-width: 6; stroke-linejoin: round; paint-order: stroke; }
.treadle .beside { text-anchor: start; }
@media (prefers-color-scheme: dark) {
.treadle text { fill: #eceafc; }
.treadle .ground { fill: #16151f; }
.treadle .node rect { fill: #2a2742; stroke: #9d92e6; }
.treadle .terminal rect { fill: #4b4391; }
.treadle .start rect { fill: none; }
.treadle .note, .treadle .frame text { fill: #b5b0d8; }
.treadle .edge { stroke: #aaa6c4; }
.treadle .head { fill: #aaa6c4; }
.treadle .label { fill: #d5d2ea; stroke: #16151f; }
}
`

// SVG returns a diagram of the shape as a complete SVG document, with one path per
// edge, dashed if conditional, and a frame around each expanded subgraph.
func (s Shape) SVG() string {
	pic := lay(s, &squares)
	const margin = 2 * grid
	w, h := pic.w*grid+2*margin, pic.h*grid+2*margin
	title := s.Name
	if title == "" {
		title = "graph"
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" class="treadle" role="img" width="%d" height="%d" viewBox="%d %d %d %d">`+"\n",
		w, h, -margin, -margin, w, h)
	fmt.Fprintf(&b, "<title>%s</title>\n<style>%s</style>\n", escape(title), svgStyle)
	b.WriteString(`<defs><marker id="treadle-head" viewBox="0 0 10 10" refX="9.5" refY="5" markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse" orient="auto"><path class="head" d="M0 0.8L10 5L0 9.2z"/></marker></defs>` + "\n")
	fmt.Fprintf(&b, `<rect class="ground" x="%d" y="%d" width="%d" height="%d"/>`+"\n", -margin, -margin, w, h)
	for _, l := range pic.frames {
		f := l.self
		x, y := (f.x-f.half)*grid, f.y*grid
		fmt.Fprintf(&b, `<g class="frame"><rect x="%d" y="%d" width="%d" height="%d" rx="8"/><text x="%d" y="%d">%s</text></g>`+"\n",
			x, y, 2*f.half*grid, f.h*grid, x+l.titleX*grid, y+18, escape(l.title))
	}
	for _, p := range pic.paths {
		e, class := pic.edges[p.edge], "edge"
		if e.Conditional {
			class = "edge conditional"
		}
		fmt.Fprintf(&b, `<path class="%s" data-from="%s" data-to="%s" d="%s" marker-end="url(#treadle-head)"/>`+"\n",
			class, escape(e.From), escape(e.To), curve(p.points))
	}
	for _, it := range pic.boxes {
		svgNode(&b, pic.nodes[it.node], it)
	}
	for _, p := range pic.paths {
		class := "label"
		if p.loop {
			class = "label beside"
		}
		for i, line := range p.text {
			fmt.Fprintf(&b, `<text class="%s" x="%d" y="%d">%s</text>`+"\n",
				class, p.mid.x*grid, (p.mid.y+3*i)*grid+baseline, escape(line))
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func svgNode(b *strings.Builder, n Node, it *item) {
	class, radius := "node", 7
	if n.terminal() {
		class, radius = "node terminal", it.h*grid/2
		if _, name := cutLast(n.ID); name == start {
			class = "node start"
		}
	}
	fmt.Fprintf(b, `<g class="%s" data-id="%s"><rect x="%d" y="%d" width="%d" height="%d" rx="%d"/>`,
		class, escape(n.ID), (it.x-it.half)*grid, it.y*grid, 2*it.half*grid, it.h*grid, radius)
	y := it.y*grid + (it.h-3*len(it.lines))*grid/2 + baseline
	for i, line := range it.lines {
		note := ""
		if i > 0 {
			note = ` class="note"`
		}
		fmt.Fprintf(b, `<text%s x="%d" y="%d">%s</text>`, note, it.x*grid, y+3*i*grid, escape(line))
	}
	b.WriteString("</g>\n")
}

// curve returns the path data of an edge with rounded corners.
func curve(points []point) string {
	const radius = grid
	var b strings.Builder
	for i, p := range points {
		x, y := p.x*grid, p.y*grid
		switch {
		case i == 0:
			fmt.Fprintf(&b, "M%d %d", x, y)
		case i == len(points)-1:
			fmt.Fprintf(&b, "L%d %d", x, y)
		default:
			// Half of a short stretch belongs to the corner at its other end.
			a, c := points[i-1], points[i+1]
			in := min(radius, (abs(p.x-a.x)+abs(p.y-a.y))*grid/2)
			out := min(radius, (abs(p.x-c.x)+abs(p.y-c.y))*grid/2)
			fmt.Fprintf(&b, "L%d %dQ%d %d %d %d",
				x+in*sign(a.x-p.x), y+in*sign(a.y-p.y), x, y,
				x+out*sign(c.x-p.x), y+out*sign(c.y-p.y))
		}
	}
	return b.String()
}

func abs(n int) int { return max(n, -n) }

// escape escapes s for XML text and attributes.
func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // writing to a strings.Builder never fails
	return b.String()
}
