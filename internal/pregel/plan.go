package pregel

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/treadle-go/treadle/internal/grow"
)

// Plan is a compiled graph. It is immutable and may run many times at once.
type Plan struct {
	name     string
	spec     *Spec
	schema   *Schema
	nodes    []*node // by name: a node's id is its rank, so id order is commit order
	defined  []*node // as the user added them
	byName   map[string]*node
	views    []*viewPlan
	joins    []*join
	start    wiring // what follows the input
	in       *updatePlan
	out      *viewPlan
	state    *viewPlan // the whole state, for Validate
	validate bool
	inChecks bool // the input type has Validate
	ephem    []*channel
	output   []*channel // what the output holds
	public   []*channel // what streams show: the state without private channels
	warnings []*Problem

	updates sync.Map // reflect.Type → *updatePlan, for updates that arrive at run time
	heads   heads
}

// node is a compiled NodeSpec.
type node struct {
	*NodeSpec
	id       int32
	view     int // into Plan.views; -1: only Send supplies the input
	sendOnly string
	hides    bool // In has untracked fields
	out      *outPlan
	handler  *outPlan
	// wholeState: the handler is the graph's default and takes the state.
	wholeState bool
	nest       *nesting
	triggers   []string
	quoted     []byte // the name as JSON
	wiring
}

// wiring is what happens after a node.
type wiring struct {
	edges    []int32
	joins    []joinEnd
	branches []*branch
}

type joinEnd struct{ join, bit int }

// join is a barrier: its target runs when all its sources have.
type join struct {
	name    string
	sources []int32
	target  int32
	toEnd   bool
}

type branch struct {
	*BranchSpec
	view int
}

// viewPlan says how to fill a struct from the channels.
type viewPlan struct {
	typ    reflect.Type
	kind   viewKind
	fields []viewField
}

type viewKind uint8

const (
	viewStruct viewKind = iota
	viewRoot            // the value of the one channel
	viewMap             // a dynamic state: a map of what there is
)

type viewField struct {
	index []int
	ch    *channel
}

// updatePlan says how to take an update apart.
type updatePlan struct {
	typ    reflect.Type
	kind   updateKind
	fields []writeField
	ctl    []int // the field of type Goto, if any
	// nonZero: a zero field is not written, and a field whose updates have
	// another type replaces the value. Inputs of the state's own type.
	nonZero bool
}

type updateKind uint8

const (
	updateStruct updateKind = iota
	updateMap
	updateRoot     // the update of the one channel
	updateRootOver // an Overwrite of the one channel
)

type writeField struct {
	index    []int
	ch       *channel
	optional bool // a pointer; nil writes nothing
	over     bool // an Overwrite
	replaces bool // holds the value where updates have another type
}

// outPlan says what a node's result means.
type outPlan struct {
	kind    outKind
	pointer bool // *U: nil writes nothing
	update  *updatePlan
}

type outKind uint8

const (
	outUpdate outKind = iota
	outGoto
	outCommand
)

// Name is the graph's name.
func (p *Plan) Name() string { return p.name }

// Warnings are findings that do not stop a graph from running.
func (p *Plan) Warnings() []string {
	var out []string
	for _, w := range p.warnings {
		out = append(out, w.Error())
	}
	return out
}

// compiler carries what Compile collects.
type compiler struct {
	*Plan
	spec    *Spec
	written map[string]bool         // names that something writes
	anyKey  bool                    // something writes keys that only show at run time
	reads   map[*channel]bool       // private channels that something reads
	views   map[reflect.Type]int    // into Plan.views
	orphans map[reflect.Type]string // per input type, a field that only Send can fill
}

// Compile checks spec and returns its plan, or every problem at once.
func Compile(spec *Spec) (*Plan, error) {
	p := &Plan{name: spec.Name, spec: spec, byName: map[string]*node{}}
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
		s.add(&channel{name: Root, wire: Root, typ: t, upd: upd, reducer: red})
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
		ch.upd, ch.reducer = r.Update, r.Reducer
		ch.appender, _ = ch.reducer.(grow.Appender)
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

// badName says why name cannot be a node's, or "".
func badName(name string) string {
	switch {
	case name == "":
		return "a node needs a name"
	case name == Start || name == End || strings.HasPrefix(name, "__"):
		return "names that begin with __ are reserved"
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
		if ns.Call == nil && ns.Graph == nil {
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
		n.quoted, _ = json.Marshal(n.Name) // a string always has JSON
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
		n.wholeState = d.Handler.In == c.spec.State // a default one may be given the state instead of the node's input
	}
	if own.Timeout.Run < 0 || own.Timeout.Idle < 0 {
		c.schema.fail(own.Name, "", "a timeout must be positive")
	}
	for i, r := range own.Retry {
		if r.Attempts < 0 || r.Initial < 0 || r.Max < 0 || r.Factor < 0 {
			c.schema.fail(own.Name, "", "retry policy %d: negative values make no sense", i+1)
		}
	}
	n.NodeSpec = &own
}

// structOf returns the struct type inside t's pointer, Command or list of
// Commands, or nil if what t writes is not a struct.
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

// collectWritten notes every field name that some node or the input writes,
// before reads are resolved: a field nobody writes is not a channel.
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

// inputAndReads resolves what the graph, its nodes and its branches read.
// Reading types come before writing types, because they name a private
// channel's value type; a writing type names its update type only.
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

// viewOf returns the index of the view for t. For a node, fields that nobody
// writes are noted: such a node runs by Send only.
func (c *compiler) viewOf(who string, t reflect.Type, n *node) int {
	if i, ok := c.views[t]; ok {
		if n != nil {
			n.sendOnly = c.orphans[t]
		}
		return i
	}
	v := c.newView(who, t, n)
	if v == nil {
		return -1
	}
	c.views[t] = len(c.Plan.views)
	c.Plan.views = append(c.Plan.views, v)
	return c.views[t]
}

// newView plans how to fill a t, or returns nil if only Send can.
func (c *compiler) newView(who string, t reflect.Type, n *node) *viewPlan {
	s := c.schema
	v := &viewPlan{typ: t}
	switch {
	case t == s.words.Update:
		v.kind = viewMap
		return v
	case s.root && t == s.channels[0].typ:
		v.kind = viewRoot
		v.fields = []viewField{{ch: s.channels[0]}}
		return v
	case t.Kind() != reflect.Struct || s.root && t.NumField() > 0:
		if n != nil {
			n.sendOnly = t.String()
			return nil
		}
		s.fail(who, "", "%s cannot be read from a state of type %s", t, s.state)
		return nil
	}
	fields, errs := fieldsOf(t)
	if t == s.state {
		errs = nil // stateChannels has reported them
	}
	for _, e := range errs {
		s.fail(who, "", "%s", e)
	}
	for _, f := range fields {
		ch := s.lookup(f)
		if ch == nil && t == s.state {
			continue
		}
		if ch == nil && n != nil && !c.written[f.name] && !c.anyKey {
			if n.sendOnly == "" {
				n.sendOnly, c.orphans[t] = f.path, f.path
			}
			continue
		}
		if ch == nil {
			if ch = s.declare(who, f, true); ch == nil {
				continue
			}
		}
		if ch.typ != f.typ {
			s.fail(who, f.path, "is %s here and %s in the state", f.typ, ch.typ)
			continue
		}
		s.checkTag(who, f, ch)
		c.reads[ch] = true
		v.fields = append(v.fields, viewField{index: f.index, ch: ch})
	}
	return v
}

// stateInput plans an input of the state's own type.
func (c *compiler) stateInput() *updatePlan {
	s := c.schema
	u := &updatePlan{typ: s.state, nonZero: true}
	switch {
	case s.dynamic:
		u.kind = updateMap
	case s.root:
		u.kind = updateRoot
		ch := s.channels[0]
		u.fields = []writeField{{ch: ch, replaces: ch.upd != ch.typ}}
	default:
		fields, _ := fieldsOf(s.state)
		for _, f := range fields {
			if ch := s.byName[f.name]; ch != nil {
				u.fields = append(u.fields, writeField{index: f.index, ch: ch, replaces: ch.upd != ch.typ})
			}
		}
	}
	return u
}

// updateOf plans how to take an update of type t apart. With declare, unknown
// fields become private channels; otherwise they are errors.
func (c *compiler) updateOf(who string, t reflect.Type, declare bool) *updatePlan {
	u, errs := c.schema.planUpdate(t, func(f field) *channel {
		if !declare {
			return nil
		}
		return c.schema.declare(who, stripUpdate(c.schema, f), true)
	})
	for _, e := range errs {
		c.schema.fail(who, e.field, "%s", e.msg)
	}
	return u
}

// stripUpdate turns the field of an update into that of a channel.
func stripUpdate(s *Schema, f field) field {
	if f.typ.Kind() == reflect.Pointer {
		f.typ = f.typ.Elem()
	}
	if e, ok := s.words.Overwrite(f.typ); ok {
		f.typ = e
	}
	return f
}

type planError struct{ field, msg string }

// planUpdate takes type t apart; unknown is asked for a channel that s lacks.
func (s *Schema) planUpdate(t reflect.Type, unknown func(field) *channel) (*updatePlan, []planError) {
	u := &updatePlan{typ: t}
	if t == s.words.Update {
		u.kind = updateMap
		return u, nil
	}
	if s.root {
		ch := s.channels[0]
		if elem, over := s.words.Overwrite(t); over && elem == ch.typ {
			u.kind = updateRootOver
			return u, nil
		}
		if t == ch.upd || t == ch.typ {
			u.kind = updateRoot
			u.fields = []writeField{{ch: ch, replaces: t != ch.upd}}
			return u, nil
		}
		if t.Kind() == reflect.Struct && t.NumField() == 0 {
			return u, nil
		}
		return nil, []planError{{"", fmt.Sprintf("%s is not an update of the state %s: want %s", t, ch.typ, ch.upd)}}
	}
	if t.Kind() != reflect.Struct {
		return nil, []planError{{"", fmt.Sprintf("%s is not an update: want a struct of the fields that are written, or treadle.Update", t)}}
	}
	fields, msgs := fieldsOf(t)
	if t == s.state {
		msgs = nil // stateChannels has reported them
	}
	var errs []planError
	for _, m := range msgs {
		errs = append(errs, planError{"", m})
	}
	for _, f := range fields {
		if f.typ == s.words.Goto {
			if u.ctl != nil {
				errs = append(errs, planError{f.path, "a second field of type Goto"})
			}
			u.ctl = f.index
			continue
		}
		ch := s.lookup(f)
		if ch == nil && t == s.state {
			continue
		}
		if ch == nil {
			if ch = unknown(f); ch == nil {
				errs = append(errs, planError{f.path, fmt.Sprintf("the state has no such field; it has %s", strings.Join(s.wireNames(), ", "))})
				continue
			}
		}
		w := writeField{index: f.index, ch: ch}
		got := f.typ
		if got != ch.upd && got.Kind() == reflect.Pointer {
			w.optional, got = true, got.Elem()
		}
		if elem, over := s.words.Overwrite(got); over {
			w.over = true
			if elem != ch.typ {
				errs = append(errs, planError{f.path, fmt.Sprintf("overwrites with %s, the field is %s", elem, ch.typ)})
			}
		} else if got != ch.upd {
			errs = append(errs, planError{f.path, fmt.Sprintf("is %s, updates of this field are %s", f.typ, ch.upd)})
		}
		if f.tag.Get("json") != "" && f.wire != ch.wire {
			errs = append(errs, planError{f.path, fmt.Sprintf("JSON name %q differs from %q, which the state gives it; leave the tag out", f.wire, ch.wire)})
		}
		u.fields = append(u.fields, w)
	}
	return u, errs
}

func (c *compiler) outputs() {
	s := c.schema
	for _, n := range c.defined {
		if n.Call != nil {
			n.out = c.outOf(n, n.Out)
		}
		if n.Handler != nil {
			n.handler = c.outOf(n, n.Handler.Out)
		}
	}
	c.out = c.newView("", c.spec.Out, nil)
	if c.out != nil {
		switch c.out.kind {
		case viewMap:
			c.output = slices.DeleteFunc(slices.Clone(s.channels), func(ch *channel) bool { return ch.private })
		default:
			for _, f := range c.out.fields {
				c.output = append(c.output, f.ch)
				if f.ch.private && !c.written[f.ch.name] && !c.anyKey {
					s.fail("", c.spec.Out.String()+"."+f.ch.name, "the output has a field that nothing writes")
				}
			}
		}
	}
	for _, b := range c.spec.Branches {
		if b.Call == nil {
			s.fail(b.From, "", "the branch function is nil")
		}
	}
}

func (c *compiler) outOf(n *node, t reflect.Type) *outPlan {
	s := c.schema
	o := &outPlan{}
	if t == s.words.Goto {
		o.kind = outGoto
		return o
	}
	if u, ok := s.words.Command(t); ok {
		o.kind, t = outCommand, u
		if n.Handoff != nil {
			return o // checked against the parent, when there is one
		}
	}
	if t.Kind() == reflect.Pointer && !(s.root && (t == s.channels[0].upd || t == s.channels[0].typ)) {
		o.pointer, t = true, t.Elem()
	}
	if t.Kind() == reflect.Interface {
		s.fail(n.Name, "", "returns the interface %s: return a struct of the fields it writes, so that they can be checked", t)
		return nil
	}
	if t == s.state && !s.root && !s.dynamic {
		for _, ch := range s.channels {
			if ch.accumulates() && !ch.private {
				s.fail(n.Name, "", "returns the whole state, but %s accumulates and would be added to itself: return a struct of just the fields it writes", ch.wire)
				return nil
			}
		}
	}
	o.update = c.updateOf(n.Name, t, true)
	if o.update == nil {
		return nil
	}
	return o
}

// hasGoto reports whether results of o may carry control.
func (o *outPlan) hasGoto() bool {
	return o != nil && (o.kind != outUpdate || o.update.ctl != nil)
}

func (c *compiler) target(where, name string) (int32, bool) {
	if n := c.byName[name]; n != nil {
		return n.id, true
	}
	if name == "" {
		c.schema.fail("", "", "%s: the target has no name", where)
	} else {
		c.schema.fail("", "", "%s: there is no node %q%s", where, name, c.suggest())
	}
	return 0, false
}

// suggest names the nodes there are, if they are few.
func (p *Plan) suggest() string {
	if len(p.nodes) == 0 || len(p.nodes) > 12 {
		return ""
	}
	names := make([]string, len(p.nodes))
	for i, n := range p.nodes {
		names[i] = n.Name
	}
	return "; there are " + strings.Join(names, ", ")
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
			c.warnings = append(c.warnings, &Problem{Graph: c.name, Node: n.Name,
				Msg: "returns a goto and has a static edge: both run; mark it treadle.Additive() if that is meant"})
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
		s.fail("", "", "join → %s: a join needs sources", j.To)
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
			s.fail("", "", "%s: source %q named twice", where, name)
			ok = false
			continue
		case name == j.To:
			s.fail("", "", "%s: %q would wait for itself", where, name)
			ok = false
		}
		seen[name] = true
		id, found := c.target(where, name)
		if ok = ok && found; found {
			out.sources = append(out.sources, id)
		}
	}
	if !ok || out.toEnd {
		return // a join into End has nothing to run
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

// branchReads rejects what a branch reads and nothing writes.
func (c *compiler) branchReads(b *BranchSpec, v *viewPlan) {
	const msg = "the branch reads it, but it is not in the state and nothing writes it: a misspelt name?"
	if orphan := c.orphans[b.In]; orphan != "" {
		c.schema.fail(b.From, orphan, msg)
	}
	for _, f := range v.fields {
		if f.ch.private && !c.written[f.ch.name] && !c.anyKey {
			c.schema.fail(b.From, b.In.String()+"."+f.ch.name, msg)
		}
	}
}

// reachability follows everything that is declared; control that may go
// anywhere reaches every node.
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
			if id := c.joins[e.join].target; true {
				byEdge[id] = true
				visit(id)
			}
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
			s.fail(n.Name, "", "nothing leads to it: add an edge, a branch or a destination")
		}
		if byEdge[n.id] && n.sendOnly != "" {
			if n.view < 0 {
				s.fail(n.Name, "", "takes %s, which only Send can supply, but an edge leads to it: take the state or a struct of its fields", n.sendOnly)
			} else {
				s.fail(n.Name, n.sendOnly, "is not in the state and nothing writes it: a misspelt name?")
			}
		}
	}
}

// breakpoints rejects those at nodes that are not there.
func (c *compiler) breakpoints() {
	for _, name := range slices.Concat(c.spec.Before, c.spec.After) {
		if name != "*" && c.byName[name] == nil {
			c.schema.fail("", "", "breakpoint: there is no node %q%s", name, c.suggest())
		}
	}
}

// privateChannels rejects a private field that is written and never read.
func (c *compiler) privateChannels() {
	for _, n := range c.defined {
		for _, o := range []*outPlan{n.out, n.handler} {
			if o == nil || o.update == nil {
				continue
			}
			for _, f := range o.update.fields {
				if f.ch != nil && f.ch.private && !c.reads[f.ch] {
					c.schema.fail(n.Name, f.ch.name, "is not in the state and nothing reads it: a misspelt name?")
				}
			}
		}
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

// hidden reports whether inputs of type t hold untracked fields.
func (c *compiler) hidden(t reflect.Type) bool {
	if t == nil || t.Kind() != reflect.Struct || c.schema.root {
		return false
	}
	fields, _ := fieldsOf(t)
	return slices.ContainsFunc(fields, c.schema.hidden)
}

// NodeNames are the names of all nodes, sorted.
func (p *Plan) NodeNames() []string { return slices.Sorted(maps.Keys(p.byName)) }

// ContextType is the declared type of the run-scoped value, or nil.
func (p *Plan) ContextType() reflect.Type { return p.spec.Context }

// FieldSpecs are the fields of the input, the state and the output.
func (p *Plan) FieldSpecs() (in, state, out []FieldSpec) {
	specs := func(chans []*channel, update bool) (fs []FieldSpec) {
		for _, c := range chans {
			f := FieldSpec{c.wire, c.typ}
			if update {
				f.Type = c.upd
			}
			fs = append(fs, f)
		}
		return fs
	}
	return specs(p.inputs(), true), specs(p.public, false), specs(p.output, false)
}

// Keys resolves names of fields to JSON names.
func (p *Plan) Keys(names []string) ([]string, error) {
	var keys []string
	for _, n := range names {
		c := p.schema.find(n)
		if c == nil {
			return nil, fmt.Errorf("graph %q: output key %q: there is no such field; there are %s", p.name, n, strings.Join(p.schema.wireNames(), ", "))
		}
		keys = append(keys, c.wire)
	}
	return keys, nil
}

// Subgraphs yields the graphs that nodes are or use, depth first, by path.
func (p *Plan) Subgraphs() iter.Seq2[string, *Plan] {
	return func(yield func(string, *Plan) bool) { p.subgraphs("", yield) }
}

func (p *Plan) subgraphs(prefix string, yield func(string, *Plan) bool) bool {
	for _, n := range p.defined {
		for _, g := range n.graphs() {
			if !yield(prefix+n.Name, g) || !g.subgraphs(prefix+n.Name+"/", yield) {
				return false
			}
		}
	}
	return true
}

// graphs are the graphs that run in a node.
func (n *node) graphs() []*Plan {
	if n.Graph != nil {
		return []*Plan{n.Graph}
	}
	return n.Uses
}

// readContext checks the run-scoped value against its declared type and
// decodes it if it came as JSON.
func (p *Plan) readContext(set *Settings) error {
	raw, isJSON := set.Context.(json.RawMessage)
	want := p.spec.Context
	switch {
	case set.Context == nil || want == nil && !isJSON:
		return nil
	case want == nil:
		return fmt.Errorf("graph %q: context: it came as JSON and the graph declares no type for it: use treadle.ContextType", p.name)
	case isJSON:
		val, err := decodeAs(want, raw)
		if err != nil {
			return fmt.Errorf("graph %q: context: want %s: %w", p.name, want, err)
		}
		set.Context = val
	case !reflect.TypeOf(set.Context).AssignableTo(want):
		return fmt.Errorf("graph %q: context: is %T, the graph wants %s", p.name, set.Context, want)
	}
	if err := validate(set.Context); err != nil {
		return &ValidationError{Graph: p.name, What: "the context", Err: err}
	}
	return nil
}

// updateFor plans an update that arrives at run time; unknown fields are errors.
func (p *Plan) updateFor(t reflect.Type) (*updatePlan, error) {
	if u, ok := p.updates.Load(t); ok {
		return u.(*updatePlan), nil
	}
	u, errs := p.schema.planUpdate(t, func(field) *channel { return nil })
	if len(errs) > 0 {
		return nil, &UpdateError{Graph: p.name, Field: errs[0].field, Msg: errs[0].msg}
	}
	p.updates.Store(t, u)
	return u, nil
}
