package draw

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Mermaid returns the shape as a Mermaid flowchart with LangGraph's styles, as rendered
// by documentation pages and LangGraph's tools.
func (s Shape) Mermaid() string { return s.mermaid(true) }

// MermaidPlain is like [Shape.Mermaid], but returns only the edges, without front
// matter, node lines, and styles.
func (s Shape) MermaidPlain() string { return s.mermaid(false) }

func (s Shape) mermaid(styles bool) string {
	m := mermaid{styles: styles, titles: map[string]bool{}}
	m.first, m.last = s.ends()
	if styles {
		m.WriteString("---\nconfig:\n  flowchart:\n    curve: linear\n---\n")
	}
	m.WriteString("graph TD;\n")
	m.block(s.groups())
	if styles {
		m.WriteString("\tclassDef default fill:#f2f0ff,line-height:1.2\n" +
			"\tclassDef first fill-opacity:0\n" +
			"\tclassDef last fill:#bfb6fc\n")
	}
	return m.String()
}

// group is the content of one frame. A loop from a node to itself is also a group:
// Mermaid places it better after the other edges of its frame.
type group struct {
	prefix   string
	nodes    []Node
	edges    []Edge
	children []*group
	loop     bool
	rank     int // of its first edge; determines the order among siblings
}

// groups assigns nodes and edges to their frames.
func (s Shape) groups() *group {
	const unranked = int(^uint(0) >> 1)
	root := &group{rank: 0}
	frames := map[string]*group{"": root}
	var frame func(prefix string) *group
	frame = func(prefix string) *group {
		if g := frames[prefix]; g != nil {
			return g
		}
		outer, _ := cutLast(prefix)
		g := &group{prefix: prefix, rank: unranked}
		frames[prefix] = g
		o := frame(outer)
		o.children = append(o.children, g)
		return g
	}
	for _, n := range s.Nodes {
		outer, _ := cutLast(n.ID)
		g := frame(outer)
		g.nodes = append(g.nodes, n)
	}
	for i, e := range s.Edges {
		outer, _ := cutLast(e.From)
		if e.From == e.To {
			g := frame(outer)
			g.children = append(g.children, &group{edges: []Edge{e}, loop: true, rank: i})
			continue
		}
		g := frame(commonFrame(e.From, e.To))
		g.edges = append(g.edges, e)
		g.rank = min(g.rank, i)
	}
	var settle func(g *group) int
	settle = func(g *group) int {
		inside := unranked
		for _, c := range g.children {
			inside = min(inside, settle(c))
		}
		if g.rank == unranked {
			g.rank = inside
		}
		slices.SortStableFunc(g.children, func(a, b *group) int { return cmp.Compare(a.rank, b.rank) })
		return g.rank
	}
	settle(root)
	return root
}

// commonFrame returns the innermost frame that contains both nodes.
func commonFrame(a, b string) string {
	a, _ = cutLast(a)
	b, _ = cutLast(b)
	for a != b && a != "" && b != "" {
		if len(a) >= len(b) {
			a, _ = cutLast(a)
		} else {
			b, _ = cutLast(b)
		}
	}
	if a == b {
		return a
	}
	return ""
}

// mermaid is a diagram under construction.
type mermaid struct {
	strings.Builder
	styles      bool
	first, last string
	titles      map[string]bool // titles of the subgraphs so far: Mermaid merges equal ones
}

// block writes the content of g.
func (m *mermaid) block(g *group) {
	if m.styles {
		for _, n := range g.nodes {
			m.node(n)
		}
	}
	for _, e := range g.edges {
		m.edge(e)
	}
	for _, c := range g.children {
		switch {
		case c.loop:
			m.block(c)
		case m.styles || c.drawn():
			m.open(c.prefix)
			m.block(c)
			m.WriteString("\tend\n")
		}
	}
}

// drawn reports whether any part of g is visible without its nodes.
func (g *group) drawn() bool {
	return len(g.edges) > 0 || slices.ContainsFunc(g.children, (*group).drawn)
}

// open starts a subgraph. Its bare name suffices unless Mermaid cannot parse it or it
// has occurred before; then, the full prefix identifies it.
func (m *mermaid) open(prefix string) {
	_, title := cutLast(prefix)
	if title != "" && safeID(title) == title && !m.titles[title] {
		m.titles[title] = true
		fmt.Fprintf(m, "\tsubgraph %s\n", title)
		return
	}
	fmt.Fprintf(m, "\tsubgraph %s [%s]\n", safeID(prefix), cmp.Or(safeText(title), " "))
}

func (m *mermaid) node(n Node) {
	label := safeText(n.title())
	if wrapped(label) {
		label = "<p>" + label + "</p>" // otherwise, Markdown would remove the marks
	}
	if notes := n.notes(); len(notes) > 0 {
		for i := range notes {
			notes[i] = safeText(notes[i])
		}
		label += "<hr/><small><em>" + strings.Join(notes, "\n") + "</em></small>"
	}
	form := "\t%s(%s)\n"
	switch n.ID {
	case m.last:
		form = "\t%s([%s]):::last\n"
	case m.first:
		form = "\t%s([%s]):::first\n"
	}
	fmt.Fprintf(m, form, safeID(n.ID), cmp.Or(label, " "))
}

func wrapped(s string) bool {
	return s != "" && strings.ContainsRune("*_`", rune(s[0])) && s[len(s)-1] == s[0]
}

func (m *mermaid) edge(e Edge) {
	arrow := "-->"
	if e.Conditional {
		arrow = "-.->"
	}
	if words := strings.Fields(e.Label); len(words) > 0 {
		var lines []string
		for line := range slices.Chunk(words, 9) {
			lines = append(lines, safeText(strings.Join(line, " ")))
		}
		label := strings.Join(lines, "&nbsp<br>&nbsp")
		arrow = "-- &nbsp;" + label + "&nbsp; -->"
		if e.Conditional {
			label = strings.ReplaceAll(label, ".", "#46;") // a period would end a dotted arrow
			arrow = "-. &nbsp;" + label + "&nbsp; .->"
		}
	}
	fmt.Fprintf(m, "\t%s %s %s;\n", safeID(e.From), arrow, safeID(e.To))
}

// reserved lists words that Mermaid does not accept as an ID, alone or before a hyphen.
var reserved = []string{
	"end", "graph", "flowchart", "subgraph", "style", "linkStyle", "class", "classDef",
	"click", "href", "call", "default", "interpolate", "_self", "_blank", "_parent", "_top",
}

// safeID encodes an ID so that Mermaid reads it as one word: any character that is not
// a letter, digit, hyphen, or underscore is written as its code. Text that would be
// read as a keyword or an arrow is broken up in the same way.
func safeID(id string) string {
	var b strings.Builder
	word, _, _ := strings.Cut(id, "-")
	broken := slices.Contains(reserved, word)
	var last rune
	for i, r := range id {
		letter := r == '_' || r == '-' && last != '-' ||
			'0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if letter && (!broken || i > 0) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "\\%x", r)
		}
		last = r
	}
	return b.String()
}

// safeText encodes displayed text. Like LangGraph, it writes text verbatim, except for
// characters that would end the text or start a tag, which become Mermaid entities.
func safeText(s string) string {
	var b strings.Builder
	var last rune
	for i, r := range s {
		switch {
		case strings.ContainsRune("\"#()[]{}<>|&;\\", r), r == '-' && last == '-', strings.ContainsRune("-@", r) && i == 0:
			fmt.Fprintf(&b, "#%d;", r)
		case r < ' ':
			b.WriteByte(' ')
		default:
			b.WriteRune(r)
		}
		last = r
	}
	return b.String()
}
