package pregel

import (
	"fmt"
	"slices"
	"strings"
)

func (c *compiler) target(where, name string) (int32, bool) {
	if n := c.byName[name]; n != nil {
		return n.id, true
	}
	if name == "" {
		c.schema.fail("", "", "%s: target has no name", where)
	} else {
		c.schema.fail("", "", "%s: unknown node %q%s", where, name, c.suggest())
	}
	return 0, false
}

// suggest returns the list of the graph's nodes for an error message, or "" if
// there are too many.
func (p *Plan) suggest() string {
	if len(p.defined) == 0 || len(p.defined) > 12 {
		return ""
	}
	return "; the graph has " + strings.Join(p.NodeNames(), ", ")
}

func (c *compiler) from(where, name string) *wiring {
	if name == Start {
		return &c.start
	}
	if name == End {
		c.schema.fail("", "", "%s: nothing can follow %s", where, End)
		return nil
	}
	if id, ok := c.target(where, name); ok {
		return &c.nodes[id].wiring
	}
	return nil
}

func (c *compiler) wire() {
	s := c.schema
	seen := map[EdgeSpec]bool{}
	for _, e := range c.spec.Edges {
		where := fmt.Sprintf("edge %s → %s", e.From, e.To)
		w := c.from(where, e.From)
		if e.To == Start {
			s.fail("", "", "%s: %s cannot be a target", where, Start)
			continue
		}
		if seen[e] {
			s.fail("", "", "%s: added twice", where)
			continue
		}
		seen[e] = true
		if e.To == End {
			continue
		}
		if id, ok := c.target(where, e.To); ok && w != nil {
			w.edges = append(w.edges, id)
		}
	}
	for _, j := range c.spec.Joins {
		c.join(j)
	}
	for _, b := range c.spec.Branches {
		c.branch(b)
	}
	for _, n := range c.defined {
		for _, d := range n.Dests {
			if d.Node != End {
				c.target(fmt.Sprintf("destination of %q", n.Name), d.Node)
			}
		}
		n.triggers = append(n.triggers, "branch:to:"+n.Name)
		if len(n.edges) > 0 && n.out.hasGoto() && !n.Additive && len(n.Handoff) == 0 {
			c.warnings = append(c.warnings, &BuildError{Graph: c.name, Node: n.Name,
				Msg: "returns a goto and has a static edge, and both run: add treadle.Additive() if this is intended"})
		}
	}
	for _, j := range c.joins {
		if !j.toEnd {
			c.nodes[j.target].triggers = append(c.nodes[j.target].triggers, j.name)
		}
	}
	for _, n := range c.nodes {
		slices.Sort(n.triggers)
	}
}

func (c *compiler) join(j JoinSpec) {
	s := c.schema
	where := fmt.Sprintf("join %s → %s", strings.Join(j.From, "+"), j.To)
	if len(j.From) == 0 {
		s.fail("", "", "join → %s: no sources", j.To)
		return
	}
	if j.To == Start {
		s.fail("", "", "%s: %s cannot be a target", where, Start)
		return
	}
	out := &join{name: "join:" + strings.Join(j.From, "+") + ":" + j.To, toEnd: j.To == End}
	ok := true
	if !out.toEnd {
		out.target, ok = c.target(where, j.To)
	}
	seen := map[string]bool{}
	for _, name := range j.From {
		switch {
		case name == Start || name == End:
			s.fail("", "", "%s: %s cannot be a source of a join", where, name)
			ok = false
			continue
		case seen[name]:
			s.fail("", "", "%s: duplicate source %q", where, name)
			ok = false
			continue
		case name == j.To:
			s.fail("", "", "%s: %q would wait for itself", where, name)
			ok = false
		}
		seen[name] = true
		id, found := c.target(where, name)
		ok = ok && found
		if found {
			out.sources = append(out.sources, id)
		}
	}
	if !ok || out.toEnd {
		return // a join to End runs nothing
	}
	for bit, src := range out.sources {
		w := &c.nodes[src].wiring
		w.joins = append(w.joins, joinEnd{join: len(c.joins), bit: bit})
	}
	c.joins = append(c.joins, out)
}

func (c *compiler) branch(b *BranchSpec) {
	where := fmt.Sprintf("branch from %s", b.From)
	w := c.from(where, b.From)
	for _, d := range b.Dests {
		if d.Node == Start {
			c.schema.fail("", "", "%s: %s cannot be a target", where, Start)
		} else if d.Node != End {
			c.target(where, d.Node)
		}
	}
	view := c.viewOf(b.From, b.In, nil)
	if view >= 0 {
		c.branchReads(b, c.Plan.views[view])
	}
	if w != nil && view >= 0 {
		w.branches = append(w.branches, &branch{BranchSpec: b, view: view})
	}
}

// branchReads rejects fields that a branch reads but nothing writes.
func (c *compiler) branchReads(b *BranchSpec, v *viewPlan) {
	const msg = "read by a branch, but not in the state and never written: misspelled?"
	if orphan := c.orphans[b.In]; orphan != "" {
		c.schema.fail(b.From, orphan, msg)
	}
	for _, f := range v.fields {
		if f.ch.private && !c.written[f.ch.name] && !c.anyKey {
			c.schema.fail(b.From, b.In.String()+"."+f.ch.name, msg)
		}
	}
}

// reachability rejects unreachable nodes. It follows all declared edges and
// destinations; a node that may go anywhere reaches every node.
func (c *compiler) reachability() {
	s := c.schema
	if len(c.start.edges) == 0 && len(c.start.branches) == 0 {
		if len(c.nodes) > 0 {
			s.fail("", "", "no entry: add an edge or a branch from treadle.Start")
		}
		return
	}
	reached := make([]bool, len(c.nodes))
	byEdge := make([]bool, len(c.nodes))
	var queue []int32
	visit := func(id int32) {
		if !reached[id] {
			reached[id] = true
			queue = append(queue, id)
		}
	}
	anywhere := false
	all := func() {
		if anywhere {
			return
		}
		anywhere = true
		for i := range c.nodes {
			visit(int32(i))
		}
	}
	dests := func(ds []Destination) {
		for _, d := range ds {
			if n := c.byName[d.Node]; n != nil {
				visit(n.id)
			}
		}
	}
	follow := func(w *wiring) {
		for _, id := range w.edges {
			byEdge[id] = true
			visit(id)
		}
		for _, e := range w.joins {
			id := c.joins[e.join].target
			byEdge[id] = true
			visit(id)
		}
		for _, b := range w.branches {
			if len(b.Dests) == 0 {
				all()
			}
			dests(b.Dests)
		}
	}
	follow(&c.start)
	for len(queue) > 0 {
		n := c.nodes[queue[0]]
		queue = queue[1:]
		follow(&n.wiring)
		if n.Graph != nil {
			for _, h := range n.Graph.handoffs() {
				if t := c.byName[h.target]; t != nil {
					visit(t.id)
				}
			}
		}
		dests(n.Dests)
		if (n.out.hasGoto() || n.handler.hasGoto()) && len(n.Dests) == 0 && n.Handoff == nil || len(n.Uses) > 0 {
			all()
		}
	}
	for _, n := range c.defined {
		if !reached[n.id] {
			s.fail(n.Name, "", "unreachable: add an edge, a branch, or a destination")
		}
		if byEdge[n.id] && n.sendOnly != "" {
			if n.view < 0 {
				s.fail(n.Name, "", "takes %s, which only Send can supply, but an edge leads to it: take the state or a struct of its fields", n.sendOnly)
			} else {
				s.fail(n.Name, n.sendOnly, "not in the state and never written: misspelled?")
			}
		}
	}
}

// breakpoints rejects breakpoints at unknown nodes.
func (c *compiler) breakpoints() {
	for _, name := range slices.Concat(c.spec.Before, c.spec.After) {
		if name != "*" && c.byName[name] == nil {
			c.schema.fail("", "", "breakpoint: unknown node %q%s", name, c.suggest())
		}
	}
}

// privateChannels rejects private fields that are written but never read.
func (c *compiler) privateChannels() {
	for _, n := range c.defined {
		for _, o := range []*outPlan{n.out, n.handler} {
			if o == nil || o.update == nil {
				continue
			}
			for _, f := range o.update.fields {
				if f.ch != nil && f.ch.private && !c.reads[f.ch] {
					c.schema.fail(n.Name, f.ch.name, "not in the state and never read: misspelled?")
				}
			}
		}
	}
}
