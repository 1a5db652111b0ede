package draw

import "strings"

// maxFrames limits the nesting depth of frames in a layout. IDs are data: an ID with a
// thousand colons must not become a diagram with a thousand frames.
const maxFrames = 12

// metrics are the sizes used by one renderer, in its own units: cells for Text, squares
// of a grid for SVG. Columns are points of a lattice, so a box of half width h spans
// the columns x-h to x+h, inclusive.
type metrics struct {
	box       func(lines []string) (half, trim int) // half the width of a box
	room      func(text string) int                 // width of a label
	line      int                                   // height of a line of text
	padY      int                                   // box height beyond its text
	gapBox    int                                   // between two boxes of a layer
	gapBend   int                                   // between a passing edge and its neighbor
	port      int                                   // between two edges on one side of a box
	portTight int                                   // the same for boxes with many edges
	lane      int                                   // between two parallel horizontal lines
	lead      int                                   // between a box and the first lane
	tip       int                                   // room for an arrowhead
	minGap    int                                   // minimum distance between two layers of boxes
	minLabel  int                                   // minimum distance between boxes and the labels below
	loop      int                                   // width of an edge from a node to itself
	framePad  int                                   // between a frame's sides and its content
	frameTop  int                                   // the same above, with the title
	frameEnd  int                                   // the same below
	titleGap  int                                   // around a frame's title
	shelf     int                                   // width after which loose parts start a new row
}

type kind uint8

const (
	nodeItem  kind = iota // a node's box
	frameItem             // an expanded subgraph
	labelItem             // an edge's label, on the edge
	bendItem              // an edge passing a layer
	portItem              // where an edge crosses the border of its frame
)

// item is anything with a position: x is its center column, y its top. Both are
// relative to the level that contains it until the layout is finished.
type item struct {
	kind        kind
	node        int // nodeItem: its index in the scene
	frame       *level
	home        *level
	lines       []string // text of a node or label
	loops       []int    // nodeItem: edges to itself
	x, y, h     int
	half        int // half width of its box
	trim        int // number of columns the box is shorter on the left: 1 for an even number of cells
	left, right int // columns needed on either side of x

	ins, outs  []*link // links from above, to below
	layer, pos int
	up, down   []*seg
	fx         float64 // x while columns are being chosen
}

// link is the part of an edge on one level, drawn downward from upper to lower. flip
// means that the edge itself runs upward.
type link struct {
	edge         int
	upper, lower *item
	flip         bool
	role         role
	exits        []*item // between: items inside the frame the edge leaves, inner first
	enters       []*item // between: items inside the frame the edge enters, inner first
	lines        []string
	label        *item
	segs         []*seg
}

// role identifies the part of its edge that a link is.
type role uint8

const (
	leaving  role = iota // from the source out of a frame
	between              // on the level that contains both ends
	arriving             // into a frame to the target
)

// level is the inside of a frame, or the whole diagram.
type level struct {
	title  string
	depth  int
	self   *item // the frame as seen from outside; nil for the whole diagram
	items  []*item
	links  []*link
	ports  map[int]*item // by edge
	w, h   int           // extent of the content
	titleX int           // from the frame's left side
}

// scene is a shape prepared for layout.
type scene struct {
	m      *metrics
	nodes  []Node
	edges  []Edge
	boxes  []*item // of the nodes
	levels []*level
}

// newScene groups the nodes of s into levels and the edges into links. It adds nodes
// that only edges mention, and a repeated ID counts once: a diagram of a broken graph
// helps to fix it.
func newScene(s Shape, m *metrics) *scene {
	sc := &scene{m: m, edges: s.Edges, levels: []*level{{ports: map[int]*item{}}}}
	frames := map[string]*level{"": sc.levels[0]}
	at := map[string]*item{}
	add := func(n Node) *item {
		if it := at[n.ID]; it != nil {
			return it
		}
		it := &item{kind: nodeItem, node: len(sc.nodes), home: sc.frame(frames, n.ID)}
		at[n.ID] = it
		sc.nodes = append(sc.nodes, n)
		sc.boxes = append(sc.boxes, it)
		it.home.items = append(it.home.items, it)
		return it
	}
	for _, n := range s.Nodes {
		add(n)
	}
	for i, e := range s.Edges {
		u, v := add(Node{ID: e.From}), add(Node{ID: e.To})
		if u == v {
			u.loops = append(u.loops, i)
			continue
		}
		l := &link{edge: i, role: between, lines: wrap(e.Label)}
		for u.home != v.home {
			if u.home.depth >= v.home.depth {
				l.exits = append(l.exits, u)
				u = u.home.self
			} else {
				l.enters = append(l.enters, v)
				v = v.home.self
			}
		}
		l.upper, l.lower = u, v
		u.home.links = append(u.home.links, l)
	}
	return sc
}

// frame returns the level that contains the node with the given ID, creating it if
// necessary.
func (sc *scene) frame(frames map[string]*level, id string) *level {
	outer := sc.levels[0]
	rest, prefix := id, ""
	for outer.depth < maxFrames {
		name, tail, nested := strings.Cut(rest, ":")
		if !nested {
			break
		}
		prefix, rest = prefix+name+":", tail
		if frames[prefix] == nil {
			it := &item{kind: frameItem, home: outer}
			it.frame = &level{title: name, depth: outer.depth + 1, self: it, ports: map[int]*item{}}
			frames[prefix] = it.frame
			outer.items = append(outer.items, it)
			sc.levels = append(sc.levels, it.frame)
		}
		outer = frames[prefix]
	}
	return outer
}

// orient turns every link so that it runs downward, and adds the links of edges that
// cross a frame: through its top if the edge comes from above, and through its bottom
// otherwise.
func (sc *scene) orient() {
	var crossing []*link
	for _, l := range sc.levels {
		l.breakCycles()
		for _, k := range l.links {
			if len(k.exits)+len(k.enters) > 0 {
				crossing = append(crossing, k)
			}
		}
	}
	for _, k := range crossing {
		for _, it := range k.exits {
			it.home.cross(k, it, leaving, !k.flip)
		}
		for _, it := range k.enters {
			it.home.cross(k, it, arriving, k.flip)
		}
	}
	for _, l := range sc.levels {
		for _, k := range l.links {
			k.upper.outs = append(k.upper.outs, k)
			k.lower.ins = append(k.lower.ins, k)
		}
	}
}

// cross links it to the border of its frame.
func (l *level) cross(whole *link, it *item, r role, bottom bool) {
	p := &item{kind: portItem, home: l}
	l.ports[whole.edge] = p
	l.items = append(l.items, p)
	k := &link{edge: whole.edge, role: r, flip: whole.flip, upper: p, lower: it}
	if bottom {
		k.upper, k.lower = it, p
	}
	l.links = append(l.links, k)
}

// breakCycles reverses the links that close a cycle. It walks from the items without
// incoming links, then in definition order, so that items defined first end up above.
func (l *level) breakCycles() {
	out := map[*item][]*link{}
	entered := map[*item]bool{}
	for _, k := range l.links {
		out[k.upper] = append(out[k.upper], k)
		entered[k.lower] = true
	}
	const open, done = 1, 2
	state := map[*item]int{}
	var stack []*item // explicit, so that a long chain does not recurse deeply
	next := map[*item]int{}
	walk := func(root *item) {
		if state[root] != 0 {
			return
		}
		stack = append(stack[:0], root)
		state[root] = open
		for len(stack) > 0 {
			it := stack[len(stack)-1]
			if next[it] == len(out[it]) {
				state[it] = done
				stack = stack[:len(stack)-1]
				continue
			}
			k := out[it][next[it]]
			next[it]++
			switch to := k.lower; state[to] {
			case open:
				k.flip = true
			case 0:
				state[to] = open
				stack = append(stack, to)
			}
		}
	}
	for _, it := range l.items {
		if !entered[it] {
			walk(it)
		}
	}
	for _, it := range l.items {
		walk(it)
	}
	for _, k := range l.links {
		if k.flip {
			k.upper, k.lower = k.lower, k.upper
		}
	}
}
