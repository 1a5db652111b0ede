package draw

import "slices"

// Expand returns the shape with its subgraphs expanded, depth levels deep; a negative depth expands
// all.
//
// A node "work" that runs a subgraph is replaced with the subgraph's nodes, renamed "work:child".
// The subgraph's start and end are dropped if exactly one plain edge touches them, because the edge
// of the parent graph then conveys the same; otherwise, they remain as "work:__start__" and
// "work:__end__". Edges into and out of "work" move to the first and the last of these nodes. A node
// without such a first or last node is not expanded.
//
// Edges of the parent graph keep their order and come before those of the subgraphs.
func (s Shape) Expand(depth int) Shape {
	return s.expand(depth, nil)
}

// expand implements Expand. path holds the subgraphs being expanded, because a shape
// that contains itself would otherwise never end.
func (s Shape) expand(depth int, path []*Shape) Shape {
	out := Shape{Name: s.Name, Edges: slices.Clone(s.Edges)}
	if depth == 0 {
		out.Nodes = slices.Clone(s.Nodes)
		return out
	}
	left, entered := map[string]bool{}, map[string]bool{}
	for _, e := range s.Edges {
		left[e.From], entered[e.To] = true, true
	}
	opened := map[string]opening{}
	var inner []Edge
	for _, n := range s.Nodes {
		o := opening{}
		if n.Graph != nil && !slices.Contains(path, n.Graph) {
			o = open(n.Graph.expand(depth-1, append(slices.Clip(path), n.Graph)))
		}
		if len(o.nodes) == 0 || (entered[n.ID] && o.first == "") || (left[n.ID] && o.last == "") {
			out.Nodes = append(out.Nodes, n)
			continue
		}
		prefix := n.ID + ":"
		opened[n.ID] = opening{first: prefix + o.first, last: prefix + o.last}
		for _, c := range o.nodes {
			c.Name = c.title()
			c.ID = prefix + c.ID
			out.Nodes = append(out.Nodes, c)
		}
		for _, e := range o.edges {
			e.From, e.To = prefix+e.From, prefix+e.To
			inner = append(inner, e)
		}
	}
	for i, e := range out.Edges {
		if o, ok := opened[e.From]; ok {
			out.Edges[i].From = o.last
		}
		if o, ok := opened[e.To]; ok {
			out.Edges[i].To = o.first
		}
	}
	out.Edges = append(out.Edges, inner...)
	return out
}

// opening replaces an expanded node: the subgraph without the ends that can be dropped,
// and the nodes where outer edges arrive and leave ("" if there is none).
type opening struct {
	nodes       []Node
	edges       []Edge
	first, last string
}

func open(sub Shape) opening {
	if len(sub.Nodes) < 2 {
		return opening{}
	}
	var outs, ins []Edge // of the start, of the end
	for _, e := range sub.Edges {
		if e.From == start {
			outs = append(outs, e)
		}
		if e.To == end {
			ins = append(ins, e)
		}
	}
	o := opening{}
	o.first, o.last = sub.ends()
	dropStart := len(outs) == 1 && plain(outs[0]) && outs[0].To != end
	dropEnd := len(ins) == 1 && plain(ins[0]) && ins[0].From != start
	if sub.has(start) {
		o.first = start
		if dropStart {
			o.first = outs[0].To
		}
	}
	if sub.has(end) {
		o.last = end
		if dropEnd {
			o.last = ins[0].From
		}
	}
	gone := func(id string) bool { return id == start && dropStart || id == end && dropEnd }
	for _, n := range sub.Nodes {
		if !gone(n.ID) {
			o.nodes = append(o.nodes, n)
		}
	}
	for _, e := range sub.Edges {
		if !gone(e.From) && !gone(e.To) {
			o.edges = append(o.edges, e)
		}
	}
	return o
}

// plain reports whether omitting e loses no information.
func plain(e Edge) bool { return !e.Conditional && e.Label == "" }

func (s Shape) has(id string) bool {
	return slices.ContainsFunc(s.Nodes, func(n Node) bool { return n.ID == id })
}

// ends returns the only node that no edge enters and the only node that no edge leaves,
// or "" if there are none or several.
func (s Shape) ends() (first, last string) {
	left, entered := map[string]bool{}, map[string]bool{}
	for _, e := range s.Edges {
		left[e.From], entered[e.To] = true, true
	}
	only := func(taken map[string]bool) string {
		found, n := "", 0
		for _, node := range s.Nodes {
			if !taken[node.ID] {
				found, n = node.ID, n+1
			}
		}
		if n != 1 {
			return ""
		}
		return found
	}
	return only(entered), only(left)
}
