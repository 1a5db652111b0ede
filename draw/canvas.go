package draw

import "strings"

// glyphs are the characters used in a diagram.
type glyphs struct {
	lines                    [16]rune // by the directions that meet in a cell
	dashH, dashV             rune
	up, down, left, right    rune // arrowheads
	outUp, outDown, outRight rune // where an edge leaves a box
	frame, crossed           rune // a frame's top, and an edge through it
	side                     rune // a frame's side
	box, pill, corners       [4]rune
}

// The directions in which a line leaves a cell.
const (
	goUp = 1 << iota
	goDown
	goLeft
	goRight
	dashH
	dashV
	frameH
)

var unicodeGlyphs = &glyphs{
	lines: [16]rune{
		' ', '│', '│', '│', '─', '┘', '┐', '┤',
		'─', '└', '┌', '├', '─', '┴', '┬', '┼',
	},
	dashH: '╌', dashV: '┆',
	up: '▲', down: '▼', left: '◀', right: '▶',
	outUp: '┴', outDown: '┬', outRight: '├',
	frame: '═', crossed: '╪', side: '║',
	box: [4]rune{'┌', '┐', '└', '┘'}, pill: [4]rune{'╭', '╮', '╰', '╯'},
	corners: [4]rune{'╔', '╗', '╚', '╝'},
}

var asciiGlyphs = &glyphs{
	lines: [16]rune{
		' ', '|', '|', '|', '-', '+', '+', '|',
		'-', '+', '+', '|', '-', '-', '-', '|',
	},
	dashH: '.', dashV: ':',
	up: '^', down: 'v', left: '<', right: '>',
	outUp: '+', outDown: '+', outRight: '+',
	frame: '=', crossed: '|', side: '#',
	box: [4]rune{'+', '+', '+', '+'}, pill: [4]rune{'(', ')', '(', ')'},
	corners: [4]rune{'#', '#', '#', '#'},
}

// wideTail marks the second cell of a wide character.
const wideTail = 0x7fffffff

// canvas is a grid of cells. A cell holds a character, or the negated set of directions
// of the lines through it.
type canvas struct {
	w, h  int
	cells []rune
	marks map[int]string // combining marks, by cell
	g     *glyphs
}

func newCanvas(w, h int, g *glyphs) *canvas {
	return &canvas{w: w, h: h, cells: make([]rune, w*h), marks: map[int]string{}, g: g}
}

func (c *canvas) set(x, y int, r rune) {
	if 0 <= x && x < c.w && 0 <= y && y < c.h {
		c.cells[y*c.w+x] = r
	}
}

// line adds directions to a cell, unless it holds a character.
func (c *canvas) line(x, y int, dirs rune, dashed bool) {
	if x < 0 || x >= c.w || y < 0 || y >= c.h || c.cells[y*c.w+x] > 0 {
		return
	}
	if dashed && dirs&(goUp|goDown) != 0 {
		dirs |= dashV
	}
	if dashed && dirs&(goLeft|goRight) != 0 {
		dirs |= dashH
	}
	c.cells[y*c.w+x] = -(-c.cells[y*c.w+x] | dirs)
}

// stroke draws a straight line between two cells.
func (c *canvas) stroke(a, b point, dashed bool) {
	dx, dy := sign(b.x-a.x), sign(b.y-a.y)
	ahead, behind := rune(goDown), rune(goUp)
	switch {
	case dy < 0:
		ahead, behind = goUp, goDown
	case dx > 0:
		ahead, behind = goRight, goLeft
	case dx < 0:
		ahead, behind = goLeft, goRight
	}
	for a != b {
		c.line(a.x, a.y, ahead, dashed)
		a.x, a.y = a.x+dx, a.y+dy
		c.line(a.x, a.y, behind, dashed)
	}
}

func sign(n int) int { return max(-1, min(1, n)) }

func (c *canvas) text(x, y int, s string) {
	for _, r := range s {
		w := runeWidth(r)
		if w == 0 {
			if x > 0 && y >= 0 && y < c.h && x <= c.w {
				c.marks[y*c.w+x-1] += string(r)
			}
			continue
		}
		c.set(x, y, r)
		if w == 2 {
			c.set(x+1, y, wideTail)
		}
		x += w
	}
}

// box draws a border filled with spaces.
func (c *canvas) box(x1, y1, x2, y2 int, pill bool) {
	corners := c.g.box
	if pill {
		corners = c.g.pill
	}
	for y := y1; y <= y2; y++ {
		for x := x1; x <= x2; x++ {
			r := ' '
			switch {
			case y == y1 || y == y2:
				r = c.g.lines[goLeft|goRight]
			case x == x1 || x == x2:
				r = c.g.lines[goUp|goDown]
			}
			c.set(x, y, r)
		}
	}
	c.corners(x1, y1, x2, y2, corners)
}

// frame draws only a border. Its top and bottom are lines that edges can cross.
func (c *canvas) frame(x1, y1, x2, y2 int) {
	for x := x1; x <= x2; x++ {
		c.set(x, y1, -frameH)
		c.set(x, y2, -frameH)
	}
	for y := y1; y <= y2; y++ {
		c.set(x1, y, c.g.side)
		c.set(x2, y, c.g.side)
	}
	c.corners(x1, y1, x2, y2, c.g.corners)
}

func (c *canvas) corners(x1, y1, x2, y2 int, r [4]rune) {
	c.set(x1, y1, r[0])
	c.set(x2, y1, r[1])
	c.set(x1, y2, r[2])
	c.set(x2, y2, r[3])
}

// glyph returns the character for a cell.
func (c *canvas) glyph(cell rune) rune {
	if cell >= 0 {
		return cell
	}
	set := -cell
	dirs := set & (goUp | goDown | goLeft | goRight)
	switch {
	case set&frameH != 0 && dirs != 0:
		return c.g.crossed
	case set&frameH != 0:
		return c.g.frame
	case set&dashV != 0 && dirs&(goLeft|goRight) == 0:
		return c.g.dashV
	case set&dashH != 0 && dirs&(goUp|goDown) == 0:
		return c.g.dashH
	}
	return c.g.lines[dirs]
}

// String returns the canvas as text, without trailing spaces.
func (c *canvas) String() string {
	var b, line strings.Builder
	for y := range c.h {
		line.Reset()
		for x := range c.w {
			switch cell := c.cells[y*c.w+x]; cell {
			case wideTail:
				continue
			case 0:
				line.WriteByte(' ')
			default:
				line.WriteRune(c.glyph(cell))
			}
			if len(c.marks) > 0 {
				line.WriteString(c.marks[y*c.w+x])
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " "))
		b.WriteByte('\n')
	}
	return b.String()
}
