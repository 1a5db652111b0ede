package pregel

import (
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
	p := &Plan{name: spec.Name, spec: spec, byName: map[string]*node{}}
	p.quoted, _ = json.Marshal(p.name) // encoding a string never fails
	p.schema = &Schema{graph: spec.Name, words: spec.Words, state: spec.State,
		byName: map[string]*channel{}, byWire: map[string]*channel{}, errs: slices.Clone(spec.Errs), workflow: spec.Workflow}
	c := &compiler{Plan: p, spec: spec, written: map[string]bool{}, reads: map[*channel]bool{},
		views: map[reflect.Type]int{}, orphans: map[reflect.Type]string{}}
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
				s.fail("", "", "AddField needs a name")
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
		s.fail("", c.spec.Fields[0].Name, "AddField is for graphs made with New[treadle.Update]; this state is %s", t)
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
		s.fail("", r.Field, "Reduce: the state has no such field; it has %s", strings.Join(s.wireNames(), ", "))
	case r.Reducer == nil:
		s.fail("", r.Field, "Reduce: the function is nil")
	case ch.typ != r.Type:
		s.fail("", r.Field, "Reduce: the function reduces %s, the field is %s", r.Type, ch.typ)
	case ch.reducer != nil:
		s.fail("", r.Field, "Reduce: %s has a Reduce method already", ch.typ)
	case ch.policy == ephemeral:
		s.fail("", r.Field, "an ephemeral field cannot accumulate: it is cleared after every step")
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
				s.fail("", k, "Initial: the state has no such field; it has %s", strings.Join(s.wireNames(), ", "))
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

// badName returns the reason that name is invalid as a node name, or "".
func badName(name string) string {
	switch {
	case name == "":
		return "a node needs a name"
	case name == Start || name == End || strings.HasPrefix(name, "__"):
		return "names that begin with __ are reserved"
	case !utf8.ValidString(name):
		return "a name must be UTF-8: it is part of JSON and of the keys of checkpoints"
	case strings.ContainsAny(name, "|:"):
		return "a name must not contain | or :, which separate the parts of a namespace"
	}
	return ""
}

func (c *compiler) addNodes() {
	s := c.schema
	if d := c.spec.Defaults.Cache; d != nil && d.Key != nil {
		s.fail("", "", "Defaults: CacheBy has a key for one input type: give it to the nodes themselves, or use Cache")
	}
	for _, msg := range c.spec.Defaults.Errs {
		s.fail("", "", "Defaults: %s", msg)
	}
	if why := badName(c.name); why != "" {
		s.fail("", "", "bad graph name: %s", strings.Replace(why, "a node", "a graph", 1))
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
			s.fail(ns.Name, "", "the function is nil")
		}
		n := &node{NodeSpec: ns}
		c.applyDefaults(n)
		c.byName[ns.Name] = n
		c.defined = append(c.defined, n)
	}
	c.nodes = slices.Clone(c.defined)
	slices.SortFunc(c.nodes, func(a, b *node) int { return strings.Compare(a.Name, b.Name) })
	for i, n := range c.nodes {
		n.id = int32(i)
		n.quoted, _ = json.Marshal(n.Name) // encoding a string never fails
	}
	if len(c.spec.Nodes) == 0 {
		s.fail("", "", "no nodes: add one with AddNode")
	}
}

func (c *compiler) applyDefaults(n *node) {
	d := c.spec.Defaults
	own := *n.NodeSpec
	if own.Retry == nil {
		own.Retry = d.Retry
	}
	if own.Timeout.isZero() {
		own.Timeout = d.Timeout
	}
	if own.Cache == nil && d.Cache != nil && d.Cache.Key == nil {
		own.Cache = d.Cache
	}
	if own.Handler == nil && d.Handler != nil {
		own.Handler = d.Handler
		n.wholeState = d.Handler.In == c.spec.State // the default handler may take the state instead of the node's input
	}
	if own.Timeout.Run < 0 || own.Timeout.Idle < 0 {
		c.schema.fail(own.Name, "", "a timeout must be positive")
	}
	for i, r := range own.Retry {
		if r.Attempts < 0 || r.Initial < 0 || r.Max < 0 || r.Factor < 0 {
			c.schema.fail(own.Name, "", "retry policy %d: negative values make no sense", i+1)
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
		if h := n.Handler; h != nil && h.In != n.In && !n.wholeState {
			s.fail(n.Name, "", "the error handler takes %s, the node takes %s", h.In, n.In)
		} else if h != nil && h.Call == nil {
			s.fail(n.Name, "", "the error handler is nil")
		}
		if k := n.Cache; k != nil && k.In != nil && k.In != n.In {
			s.fail(n.Name, "", "the cache key function takes %s, the node takes %s", k.In, n.In)
		} else if k != nil && k.In != nil && k.Key == nil {
			s.fail(n.Name, "", "the cache key function is nil")
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
	}
	for _, ch := range s.channels {
		if ch.policy == ephemeral {
			c.ephem = append(c.ephem, ch)
		}
		if !ch.private {
			c.public = append(c.public, ch)
		}
		if c.spec.Storable && ch.policy != untracked {
			if err := storable(ch.typ, ch.wire, map[reflect.Type]bool{}); err != nil {
				s.fail("", ch.wire, `%v; tag it treadle:"untracked" to keep it out of checkpoints`, err)
			}
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
