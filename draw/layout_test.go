package draw

import (
	"math/rand/v2"
	"strings"
	"testing"
)

type rect struct{ x1, y1, x2, y2 int } // columns and rows, inclusive

func (a rect) meets(b rect) bool {
	return a.x1 <= b.x2 && b.x1 <= a.x2 && a.y1 <= b.y2 && b.y1 <= a.y2
}

func (a rect) holds(b rect) bool {
	return a.x1 < b.x1 && b.x2 < a.x2 && a.y1 < b.y1 && b.y2 < a.y2
}

func rectOf(it *item) rect {
	return rect{it.x - it.half + it.trim, it.y, it.x + it.half, it.y + it.h - 1}
}

func randomShapes() []Shape {
	r := rand.New(rand.NewPCG(7, 8))
	shapes := gallery()
	for range 300 {
		shapes = append(shapes, random(r, 1+r.IntN(16), r.IntN(36)))
	}
	return shapes
}

func TestBoxesDoNotOverlap(t *testing.T) {
	for _, m := range []*metrics{&cells, &squares} {
		for i, s := range randomShapes() {
			pic := lay(s, m)
			sheet := rect{-1, -1, pic.w + 1, pic.h}
			for j, a := range pic.boxes {
				if !sheet.holds(rectOf(a)) {
					t.Errorf("shape %d: %s lies outside", i, pic.nodes[a.node].ID)
				}
				for _, b := range pic.boxes[:j] {
					if rectOf(a).meets(rectOf(b)) {
						t.Errorf("shape %d: %s overlaps %s", i, pic.nodes[a.node].ID, pic.nodes[b.node].ID)
					}
				}
				for _, l := range pic.frames {
					inside := false
					for h := a.home; h.self != nil; h = h.self.home {
						inside = inside || h == l
					}
					frame := rectOf(l.self)
					if inside && !frame.holds(rectOf(a)) || !inside && frame.meets(rectOf(a)) {
						t.Errorf("shape %d: %s is on the wrong side of frame %s", i, pic.nodes[a.node].ID, l.title)
					}
				}
			}
		}
	}
}

// A reader follows an edge by its line. Therefore, a cell belongs to one edge,
// or two edges cross in it at a right angle; no line runs through a box or
// another edge's label; and each line starts and ends at its edge's boxes.
func TestEdgesNeverOverlap(t *testing.T) {
	type visit struct {
		edge       int
		horizontal bool
		corner     bool
	}
	for i, s := range randomShapes() {
		pic := lay(s, &cells)
		lines := map[point]visit{}
		for _, p := range pic.paths {
			points := p.cells()
			for k := range len(points) - 1 {
				a, b := points[k], points[k+1]
				if a.x != b.x && a.y != b.y {
					t.Fatalf("shape %d: edge %d is diagonal", i, p.edge)
				}
				dx, dy := sign(b.x-a.x), sign(b.y-a.y)
				for c := a; ; c.x, c.y = c.x+dx, c.y+dy {
					v := visit{p.edge, dy == 0, c == a && k > 0 || c == b} // the first cell continues into the box
					if o, ok := lines[c]; ok && o.edge != v.edge && (o.horizontal == v.horizontal || o.corner || v.corner) {
						t.Errorf("shape %d: edges %d and %d share %v\n%s", i, o.edge, v.edge, c, s.Text())
					}
					lines[c] = v
					if c == b {
						break
					}
				}
			}
			from, to := pic.box(s.Edges[p.edge].From), pic.box(s.Edges[p.edge].To)
			if !touches(from, points[0]) || !touches(to, points[len(points)-1]) {
				t.Errorf("shape %d: edge %d does not connect its nodes", i, p.edge)
			}
		}
		for _, it := range pic.boxes {
			r := rectOf(it)
			for y := r.y1; y <= r.y2; y++ {
				for x := r.x1; x <= r.x2; x++ {
					if v, ok := lines[point{x, y}]; ok {
						t.Errorf("shape %d: edge %d runs through %s", i, v.edge, pic.nodes[it.node].ID)
					}
				}
			}
		}
		for _, p := range pic.paths {
			for k, line := range p.text {
				x := p.mid.x + 1
				if !p.loop {
					x = p.mid.x - textWidth(line)/2
				}
				for c := range textWidth(line) {
					if v, ok := lines[point{x + c, p.mid.y + k}]; ok && v.edge != p.edge {
						t.Errorf("shape %d: edge %d runs through the label of %d", i, v.edge, p.edge)
					}
				}
			}
		}
	}
}

func (pic *picture) box(id string) *item {
	for _, it := range pic.boxes {
		if pic.nodes[it.node].ID == id {
			return it
		}
	}
	return nil
}

// touches reports whether c is next to the box, but not to a corner of it.
func touches(it *item, c point) bool {
	r := rectOf(it)
	beside := c.x == r.x2+1 && r.y1 < c.y && c.y < r.y2
	above := r.x1 < c.x && c.x < r.x2 && (c.y == r.y1-1 || c.y == r.y2+1)
	return beside || above
}

func TestTextShowsCompleteBoxes(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for range 200 {
		s := random(r, 1+r.IntN(16), r.IntN(36))
		pic := lay(s, &cells)
		rows := strings.Split(s.Text(), "\n")
		at := func(x, y int) string {
			if row := []rune(rows[y]); x < len(row) {
				return string(row[x])
			}
			return " "
		}
		for _, it := range pic.boxes {
			b := rectOf(it)
			if got := at(b.x1, b.y1) + at(b.x2, b.y1) + at(b.x1, b.y2) + at(b.x2, b.y2); got != "┌┐└┘" {
				t.Fatalf("corners of %s: got %q:\n%s", pic.nodes[it.node].ID, got, s.Text())
			}
			inner := ""
			for y := b.y1 + 1; y < b.y2; y++ {
				for x := b.x1 + 1; x < b.x2; x++ {
					inner += at(x, y)
				}
			}
			if got := strings.Join(strings.Fields(inner), " "); got != pic.nodes[it.node].title() {
				t.Fatalf("box of %s: got %q", pic.nodes[it.node].ID, got)
			}
		}
	}
}

func TestWideCharactersTakeTwoCells(t *testing.T) {
	text := Shape{Nodes: []Node{{ID: "検索"}, {ID: "e\u0301"}}}.Text()
	want := "" +
		"┌──────┐   ┌───┐\n" +
		"│ 検索 │   │ e\u0301 │\n" +
		"└──────┘   └───┘\n"
	if text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}
