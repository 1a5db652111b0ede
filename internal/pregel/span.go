package pregel

import (
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/treadletype"
)

// Span is a lifecycle event: a graph, node, model, or tool starts, streams, or
// ends.
type Span struct {
	Event    string // on_chain_start, on_chat_model_stream, …
	Name     string
	RunID    string
	Parents  []string // run IDs, outermost first
	Tags     []string
	Metadata map[string]any
	Input    any
	Chunk    any
	Output   any
	Err      error
}

// span is a running graph, node, model, or tool.
type span struct {
	kind, name, id string
	parents        []string
	tags           []string
	meta           map[string]any
	input          any
}

// randomID returns a random UUID.
func randomID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return checkpoint.ID(b).String()
}

func (s *span) event(what string) *Span {
	return &Span{Event: "on_" + s.kind + "_" + what, Name: s.name, RunID: s.id, Parents: s.parents, Tags: s.tags, Metadata: s.meta}
}

// child returns a span inside s.
func (s *span) child(kind, name string, tags []string, meta map[string]any) *span {
	c := &span{kind: kind, name: name, id: randomID(), tags: tags, meta: meta}
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
	if r.parent() != nil {
		up = r.within().span
		if w, ok := r.ctx.Value(observedKey{}).(*observedCall); ok && w.scope == r.within() {
			up = w.span // a tool runs the graph
		}
	}
	meta := r.set.Metadata
	if r.parent() != nil {
		meta = r.parent().callMetadata(meta)
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
	if treadletype.IsPause(err) || aborted(r.ctx, err) {
		err = nil // not a failure of this graph
	}
	what := "end"
	if err != nil {
		what = "error"
	}
	ev := r.span.event(what)
	ev.Err = err
	ev.Output = r.plan.schema.record(r.slots, r.plan.output)
	if r.parent() != nil { // the top-level run reported it at its start
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
		if treadletype.IsPause(err) || t.aborted {
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
	if t.run.span == nil || t.run.parent() != nil { // only the top-level graph is streamed
		return
	}
	up := t.run.span.event("stream")
	up.Chunk = map[string]*Record{t.node.Name: rec}
	t.run.emit(ModeEvents, t.run.event(up))
}

// spanWrites reports the writing of fields as a separate call, named as in
// LangGraph's event streams.
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

// spanInput reports the input as a node.
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

// metadata returns the task's metadata for streams, with LangGraph's keys.
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

// callMetadata returns the metadata of calls inside the task.
func (t *Task) callMetadata(own map[string]any) map[string]any {
	m := t.metadata()
	m["checkpoint_ns"] = outermost(t.namespace())
	return merged(m, own)
}

// outermost returns the first part of a namespace: the task of the top-level graph.
func outermost(ns string) string {
	first, _, _ := strings.Cut(ns, "|")
	return first
}

// root returns the top-level run.
func (r *Run) root() *Run {
	for r.parent() != nil {
		r = r.parent().run
	}
	return r
}
