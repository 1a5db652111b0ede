package pregel

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/draw"
)

// Shape returns the graph's diagram. Unconditional edges are plain; edges that a
// branch or goto may choose are conditional. A node that may go anywhere has an
// edge to every node.
func (p *Plan) Shape() draw.Shape {
	d := &sketch{plan: p, seen: map[[2]string]bool{}}
	for _, e := range p.spec.Edges {
		d.edge(e.From, e.To, "", false)
	}
	for _, j := range p.spec.Joins {
		for _, from := range j.From {
			d.edge(from, j.To, "", false)
		}
	}
	for _, b := range p.spec.Branches {
		d.dashed(b.From, b.Dests)
	}
	for _, n := range p.defined {
		switch {
		case len(n.Dests) > 0:
			d.dashed(n.Name, n.Dests)
		case (n.out.hasGoto() || n.handler.hasGoto()) && n.Handoff == nil:
			d.dashed(n.Name, nil)
		}
		if n.Graph != nil {
			for _, h := range n.Graph.handoffs() {
				d.edge(n.Name, h.target, "", true)
			}
		}
	}
	d.closeEnds()
	return d.shape()
}

type sketch struct {
	plan  *Plan
	edges []draw.Edge
	seen  map[[2]string]bool
}

func (d *sketch) edge(from, to, label string, conditional bool) {
	if label == to {
		label = ""
	}
	d.edges = append(d.edges, draw.Edge{From: from, To: to, Label: label, Conditional: conditional})
}

// dashed draws the edges that a branch or goto may choose.
func (d *sketch) dashed(from string, dests []Destination) {
	for _, to := range dests {
		d.edge(from, to.Node, to.Label, true)
	}
	if len(dests) == 0 {
		for _, n := range d.plan.defined {
			d.edge(from, n.Name, "", true)
		}
		d.edge(from, End, "", true)
	}
}

// closeEnds draws an edge to End from each node without successors.
func (d *sketch) closeEnds() {
	leaves := map[string]bool{}
	for _, e := range d.edges {
		leaves[e.From] = true
	}
	for _, n := range d.plan.defined {
		if !leaves[n.Name] {
			d.edge(n.Name, End, "", false)
		}
	}
}

func (d *sketch) shape() draw.Shape {
	// LangGraph's order: by name, with plain edges to the end last.
	rank := func(e draw.Edge) int {
		if e.To == End && !e.Conditional && e.From != Start {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(d.edges, func(a, b draw.Edge) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To),
			compareBool(a.Conditional, b.Conditional), cmp.Compare(a.Label, b.Label))
	})
	s := draw.Shape{Name: d.plan.name, Nodes: []draw.Node{{ID: Start, Name: Start}}}
	end := false
	for _, e := range d.edges {
		end = end || e.To == End
		if key := [2]string{e.From, e.To}; !d.seen[key] {
			d.seen[key] = true
			s.Edges = append(s.Edges, e)
		}
	}
	for _, n := range d.plan.defined {
		s.Nodes = append(s.Nodes, d.plan.drawn(n))
	}
	if end {
		s.Nodes = append(s.Nodes, draw.Node{ID: End, Name: End})
	}
	return s
}

func (p *Plan) drawn(n *node) draw.Node {
	out := draw.Node{ID: n.Name, Name: n.Name, Metadata: maps.Clone(n.Metadata)}
	note := func(key string, value any) {
		if out.Metadata == nil {
			out.Metadata = map[string]any{}
		}
		out.Metadata[key] = value
	}
	if n.Defer {
		note("defer", true)
	}
	var stops []string
	for _, at := range []struct {
		when  string
		nodes []string
	}{{"before", p.spec.Before}, {"after", p.spec.After}} {
		if slices.Contains(at.nodes, n.Name) || slices.Contains(at.nodes, "*") {
			stops = append(stops, at.when)
		}
	}
	if stops != nil {
		note(draw.Interrupt, strings.Join(stops, ","))
	}
	if graphs := n.graphs(); len(graphs) > 0 {
		s := graphs[0].Shape()
		out.Graph = &s
	}
	return out
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
