package pregel

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/treadle-go/treadle/internal/observe"
)

// Begin implements [observe.Observer]. Models, tools, and retrievers called in this
// attempt report through it.
func (s *scope) Begin(ctx context.Context, call observe.Call) (context.Context, observe.Span) {
	s.alive(false)
	t := s.task
	if t.run.modes&(ModeMessages|ModeEvents) == 0 && s.beat == nil {
		return ctx, unobserved{}
	}
	w := &observedCall{scope: s, call: call, at: t.origin()}
	w.info.Tags = slices.Concat(t.run.set.Tags, t.node.Tags, call.Tags)
	w.info.Metadata = t.callMetadata(call.Metadata)
	if call.ToolCall != "" {
		w.info.Metadata["tool_call_id"] = call.ToolCall
	}
	up := s.span
	if outer, ok := ctx.Value(observedKey{}).(*observedCall); ok {
		if outer.scope == s { // otherwise it belongs to a containing task
			up = outer.span
		}
		w.call.NoStream = w.call.NoStream || outer.call.NoStream
	}
	w.call.NoStream = w.call.NoStream || slices.Contains(w.info.Tags, TagNoStream)
	w.span = up.child(string(call.Kind), call.Name, w.info.Tags, w.info.Metadata)
	w.report("start", func(ev *Span) { ev.Input = call.Input })
	return context.WithValue(ctx, observedKey{}, w), w
}

// Thread implements [observe.Threaded].
func (s *scope) Thread() string { return s.task.run.set.Thread }

// unobserved is the span of a call without an observer.
type unobserved struct{}

// Chunk does nothing.
func (unobserved) Chunk(any) {}

// End does nothing.
func (unobserved) End(any, error) {}

type observedKey struct{}

// observedCall is a running call that streams observe.
type observedCall struct {
	scope  *scope
	call   observe.Call
	info   Token
	at     *Origin
	span   *span
	chunks atomic.Bool // it has streamed a chunk
}

func (w *observedCall) report(what string, fill func(*Span)) {
	t := w.scope.task
	if t.run.modes&ModeEvents == 0 || w.scope.late() {
		return
	}
	ev := w.span.event(what)
	fill(ev)
	t.run.emit(ModeEvents, t.event(ev))
}

// Chunk implements [observe.Span].
func (w *observedCall) Chunk(v any) {
	w.scope.alive(false)
	if !w.chunks.Load() {
		w.chunks.Store(true)
	}
	w.report("stream", func(ev *Span) { ev.Chunk = v }) // first, as in LangGraph
	w.token(v)
}

func (w *observedCall) token(v any) {
	t := w.scope.task
	if w.call.Kind != observe.Model || w.call.NoStream || t.run.modes&ModeMessages == 0 || w.scope.late() {
		return
	}
	if m, ok := v.(observe.Message); ok {
		t.run.shared.messages.seen(m.MessageID())
	}
	t.run.emit(ModeMessages, Event{At: w.at, Data: &w.info, Value: v})
}

// End implements [observe.Span]. The output of a model that did not stream is sent
// as one chunk.
func (w *observedCall) End(output any, err error) {
	w.scope.alive(false)
	what := "end"
	if err != nil {
		what = "error"
	}
	w.report(what, func(ev *Span) { ev.Output, ev.Err, ev.Input = output, err, w.call.Input })
	if err == nil && !w.chunks.Load() && output != nil {
		w.token(output)
	}
}
