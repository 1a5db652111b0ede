package pregel

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
)

// nesting maps the fields that a subgraph shares with its parent graph.
type nesting struct {
	down []pair // fields that the subgraph reads
	up   []pair // fields that it passes back if it wrote them
}

type pair struct{ parent, child *channel }

// nesting checks a subgraph and maps its shared fields.
func (c *compiler) nesting(n *node) *nesting {
	s, child := c.schema, n.Graph
	m := &nesting{}
	match := func(cc *channel) *channel {
		var pc *channel
		switch {
		case s.root || child.schema.root:
			if s.root && child.schema.root {
				pc = s.channels[0]
			}
		case s.dynamic || child.schema.dynamic:
			pc = s.byWire[cc.wire]
		default:
			pc = s.byName[cc.name]
		}
		if pc == nil || pc.private {
			return nil
		}
		if pc.typ != cc.typ {
			s.fail(n.Name, cc.wire, "is %s here and %s in graph %q", pc.typ, cc.typ, child.name)
			return nil
		}
		return pc
	}
	for _, cc := range child.inputs() {
		if pc := match(cc); pc != nil {
			m.down = append(m.down, pair{pc, cc})
		}
	}
	for _, cc := range child.output {
		pc := match(cc)
		if pc == nil {
			continue
		}
		up := cc.typ // the type passed to the parent: the value's type, or the type of single updates
		if cc.accumulates() && pc.accumulates() {
			up = cc.upd
		}
		if up != pc.upd {
			s.fail(n.Name, cc.wire, "updates are %s here, but graph %q passes up %s: use the same reducer in both graphs", pc.upd, child.name, up)
			continue
		}
		m.up = append(m.up, pair{pc, cc})
	}
	if len(m.down) == 0 && len(m.up) == 0 {
		s.fail(n.Name, "", "graph %q shares no field with %q: call it in a node function that converts the fields", child.name, c.name)
	}
	if child.spec.Storable && !c.spec.Storable {
		c.warnings = append(c.warnings, &BuildError{Graph: c.name, Node: n.Name,
			Msg: fmt.Sprintf("graph %q has a saver, which a subgraph does not use, and %q has none: nothing is saved", child.name, c.name)})
	}
	for _, h := range child.handoffs() {
		if h.target != End && c.byName[h.target] == nil {
			s.fail(n.Name, "", "node %q of graph %q hands off to %q, which is not a node here", h.node, child.name, h.target)
		}
		if st, _ := c.structOf(h.out); st != nil && !s.root {
			_, errs := s.planUpdate(st, func(field) *channel { return nil })
			for _, e := range errs {
				s.fail(n.Name, e.field, "node %q of graph %q hands it off: %s", h.node, child.name, e.msg)
			}
		}
	}
	return m
}

// handoff declares that a node sends commands to the parent graph.
type handoff struct {
	node, target string
	out          reflect.Type
}

func (p *Plan) handoffs() []handoff {
	var all []handoff
	for _, n := range p.defined {
		for _, target := range n.Handoff {
			all = append(all, handoff{n.Name, target, n.Out})
		}
	}
	return all
}

// inputs returns the channels that an input can write.
func (p *Plan) inputs() []*channel {
	if p.in.kind == updateMap {
		return p.public
	}
	chans := make([]*channel, len(p.in.fields))
	for i, f := range p.in.fields {
		chans[i] = f.ch
	}
	return chans
}

// nestedRun is a subgraph run and its settings, in one allocation. It should not
// grow: the allocator's next size class makes a fan-out to small graphs 8% slower.
type nestedRun struct {
	run Run
	set Settings
}

// runNested runs the node's graph and returns its Run, which provides the writes to
// the parent's channels (writesForParent).
func (t *Task) runNested(sc *scope) (out any, failed error) {
	child, m := t.node.Graph, t.node.nest
	input := Input{}
	if t.packet != nil {
		input.Value = t.packet.input
	} else {
		input.inherit = make([]write, 0, len(m.down))
		for _, p := range m.down {
			if s := &t.run.slots[p.parent.id]; s.has {
				input.inherit = append(input.inherit, write{ch: p.child, val: s.val, over: true})
			}
		}
	}
	both := &nestedRun{set: Settings{StepLimit: child.spec.StepLimit, MaxConcurrency: child.spec.MaxConcurrency, Keep: t.node.Keep,
		Before: child.spec.Before, After: child.spec.After}}
	r := &both.run
	r.init(sc, child, &both.set, sc)
	r.startTrace(&input, sc)
	returned := false
	defer func() {
		if !returned { // the error names the node of the subgraph
			out, failed = nil, r.unreturned(recover())
			r.endPerThread()
			r.releaseSaver()
			r.endTrace(failed)
		}
	}()
	err := r.begin(input)
	r.journal.on = true
	if err == nil {
		err = r.drive()
	}
	r.endPerThread()
	r.releaseSaver()
	r.emitGraphEnd(err)
	r.endTrace(err)
	returned = true
	if up, ok := errors.AsType[*parentCommand](err); ok {
		up.above = m.addWrites(r.writesForParent(m, nil), up.wrote)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// addWrites adds uncommitted writes of the subgraph to the committed writes. A
// field without a reducer is written once.
func (m *nesting) addWrites(up, ws []write) []write {
	for _, w := range ws {
		i := slices.IndexFunc(m.up, func(p pair) bool { return p.child == w.ch })
		if i < 0 {
			continue
		}
		w.ch = m.up[i].parent
		if !w.ch.accumulates() {
			up = slices.DeleteFunc(up, func(u write) bool { return u.ch == w.ch })
		}
		up = append(up, w)
	}
	return up
}

// inherited returns the fields that a subgraph reads, as a pointer to a new value
// of its input type. It serves the node's error handler and cache; the subgraph
// itself reads the channels.
func (r *Run) inherited(n *node) any {
	child := n.Graph
	if child.in.kind == updateMap {
		m := make(map[string]any, len(n.nest.down))
		for _, p := range n.nest.down {
			if s := &r.slots[p.parent.id]; s.has {
				m[p.child.wire] = s.val
			}
		}
		return child.schema.words.FromMap(m)
	}
	ptr := reflect.New(n.In)
	for _, f := range child.in.fields {
		i := slices.IndexFunc(n.nest.down, func(p pair) bool { return p.child == f.ch })
		if i < 0 {
			continue
		}
		dst := (&viewField{index: f.index}).in(ptr.Elem())
		s := &r.slots[n.nest.down[i].parent.id]
		switch {
		case dst.Type() == f.ch.typ:
			set(dst, s)
		case f.optional && s.has && dst.Type().Elem() == f.ch.typ:
			dst.Set(reflect.New(f.ch.typ))
			set(dst.Elem(), s)
		}
	}
	return ptr.Interface()
}

// writesForParent appends the run's writes to ws, as writes to the parent's
// channels. For a field that accumulates, it passes on the subgraph's updates,
// without the inherited value.
func (r *Run) writesForParent(m *nesting, ws []write) []write {
	ws = slices.Grow(ws, max(len(m.up), len(r.journal.writes)))
	for _, p := range m.up {
		s := &r.slots[p.child.id]
		if !p.child.accumulates() || !p.parent.accumulates() {
			if s.has && r.journal.wrote.has(p.child) {
				ws = append(ws, write{ch: p.parent, val: s.val})
			}
			continue
		}
		// For the parent, all of this is one step, where an overwrite takes
		// precedence over other writes. The overwrite therefore includes what the
		// subgraph added after it.
		if slices.ContainsFunc(r.journal.writes, func(w write) bool { return w.ch == p.child && w.over }) {
			ws = append(ws, write{ch: p.parent, val: s.val, over: true})
			continue
		}
		for _, w := range r.journal.writes {
			if w.ch == p.child {
				ws = append(ws, write{ch: p.parent, val: w.val})
			}
		}
	}
	return ws
}

// checkSend checks that an input has the node's input type and returns it, decoded
// if it is JSON.
func (r *Run) checkSend(n *node, input any) (any, error) {
	want := n.In
	if input == nil {
		if want.Kind() == reflect.Interface || want.Kind() == reflect.Pointer {
			return reflect.Zero(want).Interface(), nil
		}
		return nil, &GotoError{Graph: r.plan.name, To: n.Name, Msg: fmt.Sprintf("Send without an input, but the node takes %s", want)}
	}
	if raw, ok := input.(json.RawMessage); ok && want != reflect.TypeFor[json.RawMessage]() {
		in, err := r.decodeInput(n, raw)
		if err != nil {
			return nil, &GotoError{Graph: r.plan.name, To: n.Name, Msg: fmt.Sprintf("Send of JSON, but the node takes %s: %v", want, err)}
		}
		return in, nil
	}
	got := reflect.TypeOf(input)
	if got == want || want.Kind() == reflect.Interface && got.Implements(want) {
		return input, nil
	}
	if got.AssignableTo(want) {
		return reflect.ValueOf(input).Convert(want).Interface(), nil
	}
	return nil, &GotoError{Graph: r.plan.name, To: n.Name, Msg: fmt.Sprintf("Send of %s, but the node takes %s", got, want)}
}
