package pregel

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/observe"
)

// Span is a lifecycle event: a graph, a node, a model or a tool starts,
// streams or ends.
type Span struct {
	Event    string // on_chain_start, on_chat_model_stream, …
	Name     string
	RunID    string
	Parents  []string // run ids, outermost first
	Tags     []string
	Metadata map[string]any
	Input    any
	Chunk    any
	Output   any
	Err      error
}

// span is something under way.
type span struct {
	kind, name, id string
	parents        []string
	tags           []string
	meta           map[string]any
	input          any
}

func newSpanID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return checkpoint.ID(b).String()
}

func (s *span) event(what string) *Span {
	return &Span{Event: "on_" + s.kind + "_" + what, Name: s.name, RunID: s.id, Parents: s.parents, Tags: s.tags, Metadata: s.meta}
}

// child is a span inside s.
func (s *span) child(kind, name string, tags []string, meta map[string]any) *span {
	c := &span{kind: kind, name: name, id: newSpanID(), tags: tags, meta: meta}
	if s != nil {
		c.parents = append(slices.Clip(s.parents), s.id)
	}
	return c
}

func (r *Run) emitGraphStart(in Input) {
	if r.modes&ModeEvents == 0 {
		return
	}
	var up *span
	if r.parent != nil {
		up = r.within.span
		if w, ok := r.ctx.Value(watchKey{}).(*watch); ok && w.scope == r.within {
			up = w.span // a tool runs the graph
		}
	}
	meta := r.set.Metadata
	if r.parent != nil {
		meta = r.parent.callMetadata(meta)
	}
	r.span = up.child("chain", r.plan.name, r.set.Tags, meta)
	if up == nil {
		r.span.id = r.id()
	}
	ev := r.span.event("start")
	switch {
	case in.JSON != nil:
		ev.Input = in.JSON
	case in.inherit != nil:
		rec := &Record{schema: r.plan.schema, root: r.plan.schema.root}
		for _, w := range in.inherit {
			rec.items = append(rec.items, write{ch: w.ch, val: w.val})
		}
		ev.Input = rec
	default:
		ev.Input = in.Value
	}
	r.span.input = ev.Input
	r.emit(ModeEvents, r.event(ev))
}

func (r *Run) emitGraphEnd(err error) {
	if r.span == nil {
		return
	}
	if Bubbles(err) {
		err = nil // no failure of this graph, but a message to the one around it
	}
	what := "end"
	if err != nil {
		what = "error"
	}
	ev := r.span.event(what)
	ev.Err = err
	ev.Output = r.plan.schema.record(r.slots, r.plan.output)
	if r.parent != nil { // the outermost has said it at its start
		ev.Input = r.span.input
	}
	r.emit(ModeEvents, r.event(ev))
}

func (t *Task) spanStart(sc *scope) {
	tags := append(slices.Concat(t.run.set.Tags, t.node.Tags), fmt.Sprintf("graph:step:%d", t.step))
	sc.span = t.run.span.child("chain", t.node.Name, tags, t.metadata())
	ev := sc.span.event("start")
	if t.packet != nil {
		ev.Input = t.packet.input
	} else {
		ev.Input = t.inputRecord()
	}
	sc.span.input = ev.Input
	t.run.emit(ModeEvents, t.event(ev))
}

func (t *Task) spanEnd(sc *scope, rec *Record, err error) {
	if sc.span == nil {
		return
	}
	if err != nil {
		what := "error"
		if Bubbles(err) {
			what, err = "end", nil
		}
		ev := sc.span.event(what)
		ev.Err, ev.Input = err, sc.span.input
		t.run.emit(ModeEvents, t.event(ev))
		return
	}
	t.spanWrites(sc.span, rec)
	ev := sc.span.event("stream")
	ev.Chunk = rec
	t.run.emit(ModeEvents, t.event(ev))
	ev = sc.span.event("end")
	ev.Output, ev.Input = rec, sc.span.input
	t.run.emit(ModeEvents, t.event(ev))
	if t.run.span == nil || t.run.parent != nil { // only the outermost graph is streamed
		return
	}
	up := t.run.span.event("stream")
	up.Chunk = map[string]any{t.node.Name: rec}
	t.run.emit(ModeEvents, t.run.event(up))
}

// spanWrites reports the writing of fields as a call of its own, named as
// LangGraph's event streams name it.
func (t *Task) spanWrites(up *span, rec *Record) {
	if t.run.modes&ModeWrites == 0 || rec.Len() == 0 {
		return
	}
	w := up.child("chain", "ChannelWrite<"+t.node.Name+","+strings.Join(rec.Names(), ",")+">", up.tags, up.meta)
	start, end := w.event("start"), w.event("end")
	start.Input, end.Input, end.Output = rec, rec, rec
	t.run.emit(ModeWrites, t.event(start))
	t.run.emit(ModeWrites, t.event(end))
}

// spanInput reports the input as a node of its own.
func (t *Task) spanInput() {
	if t.run.modes&ModeWrites == 0 {
		return
	}
	rec := &Record{schema: t.run.plan.schema, root: t.run.plan.schema.root, list: true, items: t.out.writes}
	w := t.run.span.child("chain", Start, t.run.set.Tags, t.run.set.Metadata)
	start, end := w.event("start"), w.event("end")
	start.Input, end.Input, end.Output = rec, rec, rec
	t.run.emit(ModeWrites, t.event(start))
	t.run.emit(ModeWrites, t.event(end))
}

// metadata describes the task to streams, in LangGraph's words.
func (t *Task) metadata() map[string]any {
	m := maps.Clone(merged(t.run.set.Metadata, t.node.Metadata))
	if m == nil {
		m = map[string]any{}
	}
	triggers := t.node.triggers
	path := []any{"__pregel_pull", t.node.Name}
	if t.packet != nil {
		triggers = []string{"__pregel_push"}
		path = []any{"__pregel_push", int(t.index), false}
	}
	m["langgraph_step"] = t.step
	m["langgraph_node"] = t.node.Name
	m["langgraph_triggers"] = triggers
	m["langgraph_path"] = path
	m["langgraph_checkpoint_ns"] = t.namespace()
	if t.run.ns() != "" {
		m["checkpoint_ns"] = outermost(t.run.ns())
	}
	if t.run.set.Thread != "" {
		m["thread_id"] = t.run.set.Thread
	}
	return m
}

// callMetadata is the metadata of what runs inside the task.
func (t *Task) callMetadata(own map[string]any) map[string]any {
	m := t.metadata()
	m["checkpoint_ns"] = outermost(t.namespace())
	return merged(m, own)
}

// outermost is the first part of a namespace: the task of the outermost graph.
func outermost(ns string) string {
	first, _, _ := strings.Cut(ns, "|")
	return first
}

// Begin implements [observe.Observer]: a model, tool or retriever called in
// this attempt reports through it.
func (s *scope) Begin(ctx context.Context, call observe.Call) (context.Context, observe.Span) {
	s.alive(false)
	t := s.task
	if t.run.modes&(ModeTokens|ModeEvents) == 0 && s.beat == nil {
		return ctx, silent{}
	}
	w := &watch{scope: s, call: call, at: t.origin()}
	w.info.Tags = slices.Concat(t.run.set.Tags, t.node.Tags, call.Tags)
	w.info.Metadata = t.callMetadata(call.Metadata)
	up := s.span
	if outer, ok := ctx.Value(watchKey{}).(*watch); ok {
		if outer.scope == s { // not of a task around this one
			up = outer.span
		}
		w.call.NoStream = w.call.NoStream || outer.call.NoStream
	}
	w.call.NoStream = w.call.NoStream || slices.Contains(w.info.Tags, TagNoStream)
	w.span = up.child(string(call.Kind), call.Name, w.info.Tags, w.info.Metadata)
	w.report("start", func(ev *Span) { ev.Input = call.Input })
	return context.WithValue(ctx, watchKey{}, w), w
}

// silent is the span of a call that nobody observes.
type silent struct{}

// Chunk does nothing.
func (silent) Chunk(any) {}

// End does nothing.
func (silent) End(any, error) {}

type watchKey struct{}

// watch is an observed call under way.
type watch struct {
	scope  *scope
	call   observe.Call
	info   Token
	at     *Origin
	span   *span
	chunks atomic.Bool // there were some
}

func (w *watch) report(what string, fill func(*Span)) {
	t := w.scope.task
	if t.run.modes&ModeEvents == 0 || w.scope.late() {
		return
	}
	ev := w.span.event(what)
	fill(ev)
	t.run.emit(ModeEvents, t.event(ev))
}

// Chunk implements [observe.Span].
func (w *watch) Chunk(v any) {
	w.scope.alive(false)
	if !w.chunks.Load() {
		w.chunks.Store(true)
	}
	w.token(v)
	w.report("stream", func(ev *Span) { ev.Chunk = v })
}

func (w *watch) token(v any) {
	t := w.scope.task
	if w.call.Kind != observe.Model || w.call.NoStream || t.run.modes&ModeTokens == 0 || w.scope.late() {
		return
	}
	if m, ok := v.(observe.Message); ok {
		t.run.root().seen(m.MessageID())
	}
	t.run.emit(ModeTokens, Event{At: w.at, Data: &w.info, Value: v})
}

// End implements [observe.Span]. A model that did not stream is one chunk.
func (w *watch) End(output any, err error) {
	w.scope.alive(false)
	if err == nil && !w.chunks.Load() && output != nil {
		w.token(output)
	}
	what := "end"
	if err != nil {
		what = "error"
	}
	w.report(what, func(ev *Span) { ev.Output, ev.Err, ev.Input = output, err, w.call.Input })
}

// root is the outermost run.
func (r *Run) root() *Run {
	for r.parent != nil {
		r = r.parent.run
	}
	return r
}

// messages remembers which messages a stream has shown or was given, so that
// each appears once.
type messages struct {
	mu  sync.Mutex
	ids map[string]bool
}

// seen notes an id and reports whether it was known. Messages without an id
// are always new.
func (r *Run) seen(id string) bool {
	if id == "" {
		return false
	}
	r.msgs.mu.Lock()
	defer r.msgs.mu.Unlock()
	known := r.msgs.ids[id]
	if !known {
		if r.msgs.ids == nil {
			r.msgs.ids = map[string]bool{}
		}
		r.msgs.ids[id] = true
	}
	return known
}

// seeInput marks the messages that a node was given as known.
func (r *Run) seeInput(t *Task) {
	root := r.root()
	eachMessage(t.input(), func(m observe.Message) { root.seen(m.MessageID()) })
}

// seeOutput streams the messages a node returned that were not streamed yet.
func (r *Run) seeOutput(t *Task) {
	root := r.root()
	show := func(m observe.Message) {
		if !root.seen(m.MessageID()) {
			r.emit(ModeTokens, Event{At: t.origin(), Value: m, Data: &Token{Tags: slices.Concat(r.set.Tags, t.node.Tags), Metadata: t.metadata()}})
		}
	}
	for i, w := range t.out.writes {
		switch {
		case r.plan.schema.workflow && w.ch.wire != End: // what it saves is no output
		case !nameless(w.val):
			eachMessage(w.val, show)
		case w.ch.reducer != nil:
			t.eachMerged(i, show)
		default:
			t.eachReturned(w.val, show)
		}
	}
}

// nameless reports whether there is a message without an id in a value.
func nameless(v any) (yes bool) {
	eachMessage(v, func(m observe.Message) { yes = yes || m.MessageID() == "" })
	return yes
}

// eachMerged finds the messages of the task's i-th write with the ids that they
// get when it is merged into its field: those that they have in the state, unless
// other tasks write it in the same step. A nested graph and the one around it find
// the same ids, so that a message is streamed once.
func (t *Task) eachMerged(i int, fn func(observe.Message)) {
	ch := t.out.writes[i].ch
	s := t.run.slots[ch.id]
	ver := s.ver + 1
	known := map[string]bool{}
	for k, w := range t.out.writes[:i+1] {
		if w.ch != ch {
			continue
		}
		if k == i {
			eachMessage(s.val, func(m observe.Message) { known[m.MessageID()] = true })
		}
		if s.fold(w, ver, 0, false) != nil {
			return // the commit will say so
		}
	}
	eachMessage(s.val, func(m observe.Message) {
		if !known[m.MessageID()] {
			fn(m)
		}
	})
}

// eachReturned finds the messages of a value that is not merged. Those without an
// id that the node was given are not its own.
func (t *Task) eachReturned(v any, fn func(observe.Message)) {
	var given []observe.Message
	note := func(m observe.Message) {
		if m.MessageID() == "" {
			given = append(given, m)
		}
	}
	in := t.input()
	if v := reflect.ValueOf(in); t.run.plan.schema.workflow && v.Kind() == reflect.Struct && v.NumField() > 0 {
		in = v.Field(0).Interface() // of a workflow, whose state holds it
	}
	eachMessage(in, note)
	eachMessage(v, func(m observe.Message) {
		if m.MessageID() != "" || !slices.ContainsFunc(given, func(g observe.Message) bool { return reflect.DeepEqual(g, m) }) {
			fn(m)
		}
	})
}

// eachMessage finds messages in a value: itself, the elements of a slice, the
// fields of a struct, one level deep.
func eachMessage(v any, fn func(observe.Message)) {
	if m, ok := v.(observe.Message); ok {
		fn(m)
		return
	}
	rv := reflect.ValueOf(v)
	switch rv.Kind() {
	case reflect.Slice:
		for i := range rv.Len() {
			m, ok := reflect.TypeAssert[observe.Message](rv.Index(i))
			if !ok {
				return
			}
			fn(m)
		}
	case reflect.Struct:
		fields, _ := fieldsOf(rv.Type())
		for _, f := range fields {
			if fv := rv.FieldByIndex(f.index); fv.Kind() != reflect.Struct {
				eachMessage(fv.Interface(), fn)
			} else if m, ok := reflect.TypeAssert[observe.Message](fv); ok {
				fn(m)
			}
		}
	}
}
