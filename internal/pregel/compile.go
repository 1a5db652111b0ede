package pregel

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// compiler is the state of a compilation.
type compiler struct {
	*Plan
	spec    *Spec
	written map[string]bool         // fields with a writer
	anyKey  bool                    // a node writes keys that are known only at run time
	reads   map[*channel]bool       // private channels with a reader
	views   map[reflect.Type]int    // index into Plan.views
	orphans map[reflect.Type]string // for each input type, a field that only Send can fill
}

// Compile checks spec and returns its plan, or all problems together.
func Compile(spec *Spec) (*Plan, error) {
	p := &Plan{name: spec.Name, spec: spec, byName: map[string]*node{}, former: map[string]*node{}}
	p.quoted, _ = json.Marshal(p.name) // encoding a string never fails
	p.schema = &Schema{
		graph:    spec.Name,
		words:    spec.Words,
		state:    spec.State,
		byName:   map[string]*channel{},
		byWire:   map[string]*channel{},
		former:   map[string]*channel{},
		rejected: map[string]bool{},
		errs:     slices.Clone(spec.Errs),
		workflow: spec.Workflow,
	}
	c := &compiler{
		Plan:    p,
		spec:    spec,
		written: map[string]bool{},
		reads:   map[*channel]bool{},
		views:   map[reflect.Type]int{},
		orphans: map[reflect.Type]string{},
	}
	c.stateChannels()
	c.addNodes()
	c.collectWritten()
	c.inputAndReads()
	c.outputs()
	c.wire()
	c.reachability()
	c.privateChannels()
	c.breakpoints()
	c.finish()
	if spec.Strict {
		for _, w := range p.warnings {
			p.schema.errs = append(p.schema.errs, w)
		}
	}
	if len(p.schema.errs) > 0 {
		return nil, errors.Join(p.schema.errs...)
	}
	for name, n := range p.former {
		id, quoted := n.id, n.quoted
		*n = *n.now
		n.id, n.quoted, n.former = id, quoted, name
	}
	for _, v := range p.views {
		v.index(len(p.schema.channels))
	}
	return p, nil
}

func (c *compiler) stateChannels() {
	s, t := c.schema, c.spec.State
	switch {
	case t == s.words.Update:
		s.dynamic = true
		for _, f := range c.spec.Fields {
			if f.Name == "" {
				s.fail("", "", "AddField: missing name")
				continue
			}
			if s.byWire[f.Name] != nil {
				s.fail("", f.Name, "added twice")
				continue
			}
			s.declare("", field{name: f.Name, path: f.Name, wire: f.Name, typ: f.Type}, false)
		}
	case t.Kind() == reflect.Struct && !reducesItself(t):
		fields, errs := fieldsOf(t)
		for _, e := range errs {
			s.fail("", "", "%s", e)
		}
		for _, f := range fields {
			s.declare("", f, false)
		}
	default:
		s.root = true
		upd, red, err := reducerOf(t)
		if err != nil {
			s.fail("", t.String(), "%v", err)
			upd = t
		}
		c := &channel{name: Root, wire: Root, typ: t, upd: upd}
		if err := c.reduceBy(red); err != nil {
			s.fail("", t.String(), "%v", err)
		}
		s.add(c)
	}
	if !s.dynamic && len(c.spec.Fields) > 0 {
		s.fail("", c.spec.Fields[0].Name, "AddField requires a graph created with New[treadle.Update]; this state is %s", t)
	}
	for _, r := range c.spec.Reducers {
		c.givenReducer(r)
	}
	for _, v := range c.spec.Initial {
		c.initial(v)
	}
}

func (c *compiler) givenReducer(r ReducerSpec) {
	s := c.schema
	ch := s.find(r.Field)
	switch {
	case ch == nil:
		s.fail("", r.Field, "Reduce: unknown field; the state has %s", strings.Join(s.wireNames(), ", "))
	case r.Reducer == nil:
		s.fail("", r.Field, "Reduce: nil function")
	case ch.typ != r.Type:
		s.fail("", r.Field, "Reduce: function reduces %s, but the field is %s", r.Type, ch.typ)
	case ch.reducer != nil:
		s.fail("", r.Field, "Reduce: %s already has a Reduce method", ch.typ)
	case ch.policy == ephemeral:
		s.fail("", r.Field, "ephemeral field cannot accumulate: it is cleared after every step")
	default:
		ch.upd = r.Update
		if err := ch.reduceBy(r.Reducer); err != nil {
			s.fail("", r.Field, "Reduce: %v", err)
		}
	}
}

func (c *compiler) initial(v any) {
	rv := reflect.ValueOf(v)
	s := c.schema
	give := func(ch *channel, val reflect.Value) {
		ch.initial, ch.hasInit = clipped(val).Interface(), true
	}
	switch {
	case s.dynamic:
		m := s.words.AsMap(v)
		for _, k := range slices.Sorted(maps.Keys(m)) {
			ch, val := s.byWire[k], m[k]
			switch {
			case ch == nil:
				s.fail("", k, "Initial: unknown field; the state has %s", strings.Join(s.wireNames(), ", "))
			case val == nil || !reflect.TypeOf(val).AssignableTo(ch.typ):
				s.fail("", k, "Initial: %T is not a %s", val, ch.typ)
			default:
				give(ch, reflect.ValueOf(val).Convert(ch.typ))
			}
		}
	case s.root:
		give(s.channels[0], rv)
	default:
		fields, _ := fieldsOf(rv.Type())
		for _, f := range fields {
			if val := rv.FieldByIndex(f.index); !val.IsZero() && s.byName[f.name] != nil {
				give(s.byName[f.name], val)
			}
		}
	}
}

// badName returns the reason that name is invalid for a node or a graph, or "".
func badName(name string) string {
	switch {
	case name == "":
		return "missing name"
	case name == Start || name == End || strings.HasPrefix(name, "__"):
		return "names starting with __ are reserved"
	case !utf8.ValidString(name):
		return "name must be valid UTF-8: it is part of JSON and of checkpoint keys"
	case strings.ContainsAny(name, "|:"):
		return "name must not contain | or :, which separate the parts of a namespace"
	}
	return ""
}

func (c *compiler) addNodes() {
	s := c.schema
	if d := c.spec.Defaults.Cache; d != nil && d.Key != nil {
		s.fail("", "", "Defaults: CacheBy applies to one input type: set it on the nodes, or use Cache")
	}
	for _, name := range c.spec.Defaults.Beyond() {
		if name != "OnError" {
			s.fail("", "", "Defaults: %s has no effect: set it on the nodes", name)
		}
	}
	for _, msg := range c.spec.Defaults.Errs {
		s.fail("", "", "Defaults: %s", msg)
	}
	if why := badName(c.name); why != "" {
		s.fail("", "", "invalid graph name: %s", why)
	}
	for i, ns := range c.spec.Nodes {
		if why := badName(ns.Name); why != "" {
			if ns.Name == "" {
				s.fail("", "", "node %d: %s", i+1, why)
			} else {
				s.fail(ns.Name, "", "%s", why)
			}
			continue
		}
		if c.byName[ns.Name] != nil {
			s.fail(ns.Name, "", "added twice")
			continue
		}
		for _, msg := range ns.Errs {
			s.fail(ns.Name, "", "%s", msg)
		}
		if ns.Call == nil && ns.Graph == nil && len(ns.Errs) == 0 {
			s.fail(ns.Name, "", "nil function")
		}
		if ns.Call != nil && ns.Graph == nil && ns.Keep != KeepTask {
			s.fail(ns.Name, "", "%s has no effect on a function: pass it to With on the graph that the function runs", ns.Beyond()[len(ns.Beyond())-1])
		}
		n := &node{NodeSpec: ns}
		n.now = n
		c.applyDefaults(n)
		c.byName[ns.Name] = n
		c.defined = append(c.defined, n)
	}
	c.addFormer()
	c.nodes = slices.AppendSeq(slices.Clone(c.defined), maps.Values(c.former))
	slices.SortFunc(c.nodes, func(a, b *node) int { return strings.Compare(a.savedName(), b.savedName()) })
	for i, n := range c.nodes {
		n.id = int32(i)
		n.quoted, _ = json.Marshal(n.savedName()) // encoding a string never fails
	}
	if len(c.spec.Nodes) == 0 {
		s.fail("", "", "no nodes: add one with AddNode")
	}
}

// addFormer adds a node for each previous name of a node. Compile makes it a copy of
// the renamed node at the end. No edge leads to it: only checkpoints schedule it.
func (c *compiler) addFormer() {
	for _, n := range c.defined {
		for _, name := range n.Was {
			switch why := badName(name); {
			case why != "":
				c.schema.fail(n.Name, "", "Was: %q: %s", name, why)
			case c.byName[name] != nil:
				c.schema.fail(n.Name, "", "Was: %q is a node of this graph: list only names that no node has", name)
			case c.former[name] != nil:
				c.schema.fail(n.Name, "", "Was: %q listed twice", name)
			default:
				c.former[name] = &node{NodeSpec: &NodeSpec{}, now: n, former: name}
			}
		}
	}
}

func (c *compiler) applyDefaults(n *node) {
	d := c.spec.Defaults
	own := *n.NodeSpec
	if own.Retry == nil {
		own.Retry = d.Retry
	}
	own.Timeout = Timeout{
		Run:           cmp.Or(own.Timeout.Run, d.Timeout.Run),
		Idle:          cmp.Or(own.Timeout.Idle, d.Timeout.Idle),
		HeartbeatOnly: own.Timeout.HeartbeatOnly || d.Timeout.HeartbeatOnly,
	}
	if own.Cache == nil && d.Cache != nil && d.Cache.Key == nil {
		own.Cache = d.Cache
	}
	if own.Handler == nil && d.Handler != nil {
		own.Handler = d.Handler
		n.wholeState = d.Handler.In == c.spec.State // the default handler may take the state instead of the node's input
	}
	if own.Timeout.HeartbeatOnly && own.Timeout.Idle == 0 {
		c.schema.fail(own.Name, "", "HeartbeatOnly has no effect without IdleTimeout")
	}
	if own.Timeout.Run < 0 || own.Timeout.Idle < 0 {
		c.schema.fail(own.Name, "", "timeout must be positive")
	}
	for i, r := range own.Retry {
		if r.Attempts < 0 || r.Initial < 0 || r.Max < 0 || r.Factor < 0 {
			c.schema.fail(own.Name, "", "retry policy %d: negative value", i+1)
		}
	}
	switch {
	case own.Cache == nil:
	case own.Graph != nil:
		n.fn = NewFunc(own.Graph)
	case own.Fn != nil:
		n.fn = NewFunc(own.Fn)
	}
	n.NodeSpec = &own
}

// structOf returns the struct type written by t, which may be a pointer, a Command,
// or a list of Commands. It returns nil if t writes no struct.
func (c *compiler) structOf(t reflect.Type) (st reflect.Type, dynamic bool) {
	if t == nil {
		return nil, false
	}
	if u, ok := c.spec.Words.Command(t); ok {
		t = u
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == c.spec.Words.Update {
		return nil, true
	}
	if _, over := c.spec.Words.Overwrite(t); over || t.Kind() != reflect.Struct {
		return nil, false
	}
	return t, false
}

// collectWritten records every field name that a node or the input writes. It runs
// before reads are resolved, because a field without a writer is not a channel.
func (c *compiler) collectWritten() {
	note := func(t reflect.Type) {
		st, dynamic := c.structOf(t)
		c.anyKey = c.anyKey || dynamic
		if st == nil || c.schema.root {
			return
		}
		fields, _ := fieldsOf(st)
		for _, f := range fields {
			c.written[f.name] = true
		}
	}
	for _, n := range c.defined {
		if n.Graph == nil && n.Handoff == nil {
			note(n.Out)
		}
		if n.Handler != nil {
			note(n.Handler.Out)
		}
	}
	if c.spec.In != c.spec.State {
		note(c.spec.In)
	}
}

// inputAndReads resolves the types read by the graph, its nodes, and its branches.
// It runs before the written types are resolved: a read type declares the value
// type of a private channel, but a written type only its update type.
func (c *compiler) inputAndReads() {
	s := c.schema
	for _, n := range c.defined {
		n.view = -1
		if n.Graph != nil {
			n.nest = c.nesting(n)
		} else if n.In != nil {
			n.view = c.viewOf(n.Name, n.In, n)
		}
		for _, t := range n.Reads {
			n.reads = append(n.reads, c.viewOf(n.Name, t, nil))
		}
		if h := n.Handler; h != nil && h.In != n.In && !n.wholeState {
			s.fail(n.Name, "", "error handler takes %s, but the node takes %s", h.In, n.In)
		} else if h != nil && h.Call == nil {
			s.fail(n.Name, "", "nil error handler")
		}
		if k := n.Cache; k != nil && k.In != nil && k.In != n.In {
			s.fail(n.Name, "", "cache key function takes %s, but the node takes %s", k.In, n.In)
		} else if k != nil && k.In != nil && k.Key == nil {
			s.fail(n.Name, "", "nil cache key function")
		}
	}
	if c.spec.In == c.spec.State {
		c.in = c.stateInput()
	} else {
		c.in = c.updateOf("", c.spec.In, true)
	}
	c.inChecks = validates(c.spec.In)
	if len(s.errs) == 0 {
		c.state = c.newView("", s.state, nil)
		c.validate = validates(s.state)
	}
}

func (c *compiler) finish() {
	s := c.schema
	for _, n := range c.nodes {
		n.hides = c.hidden(n.In)
		c.renamedInputs(n)
	}
	for _, ch := range s.channels {
		for _, old := range ch.was {
			if s.byWire[old] != nil {
				s.fail("", ch.wire, "was=%s: the state still has a field %s", old, old)
			} else if other := s.former[old]; other != nil {
				s.fail("", ch.wire, "was=%s: already a previous name of %s", old, other.wire)
			}
			s.former[old] = ch
		}
		if len(ch.was) > 0 {
			s.renamed = append(s.renamed, renamedField{ch.wire, ch.was})
		}
		if ch.policy == ephemeral {
			c.ephem = append(c.ephem, ch)
		}
		if !ch.private {
			c.public = append(c.public, ch)
		}
		if c.spec.Storable && ch.policy != untracked {
			if err := storable(ch.typ, ch.wire, map[reflect.Type]bool{}); err != nil {
				s.fail("", ch.wire, `%v: tag it treadle:"untracked" to keep it out of checkpoints`, err)
			}
		}
	}
}

// renamedInputs collects the previous names of the fields of n's input, which a saved
// Send may contain.
func (c *compiler) renamedInputs(n *node) {
	if n.In == nil || n.In.Kind() != reflect.Struct {
		return
	}
	fields, _ := fieldsOf(n.In)
	for _, f := range fields {
		_, was, err := readTag(f.tag)
		if err != nil && !c.schema.rejected[f.name] {
			c.schema.fail(n.Name, f.path, "%v", err)
			continue
		}
		for _, old := range was {
			if c.schema.lookup(f) == nil && slices.ContainsFunc(fields, func(f field) bool { return f.wire == old }) {
				c.schema.fail(n.Name, f.path, "was=%s: the input still has a field %s", old, old)
			}
		}
		if len(was) > 0 {
			n.renamed = append(n.renamed, renamedField{f.wire, was})
		}
	}
}

// hidden reports whether inputs of type t have untracked fields.
func (c *compiler) hidden(t reflect.Type) bool {
	if t == nil || t.Kind() != reflect.Struct || c.schema.root {
		return false
	}
	fields, _ := fieldsOf(t)
	return slices.ContainsFunc(fields, c.schema.hidden)
}
