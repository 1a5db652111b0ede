package spans

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/internal/observe"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/llm"
)

// Start returns a context that records the calls of a run, and a Run to end.
func (r *Recorder) Start(ctx context.Context, run *ledger.Run) (context.Context, *Run) {
	x := &Run{r: r, run: run, dirty: map[*span]struct{}{}, open: map[*span]struct{}{}}
	t := &tracer{Run: x, inner: observe.TracerOf(ctx), trace: hex.EncodeToString(run.ID[:])}
	outer := &observe.Tracer{Start: t.start, Inject: t.inject, Extract: t.extract}
	if t.inner != nil {
		outer.Fields, outer.IDs = t.inner.Fields, t.inner.IDs
	}
	return observe.WithTracer(ctx, outer), x
}

// tracer implements the functions of an [observe.Tracer]. It passes all operations on to the
// inner tracer, which may be nil.
type tracer struct {
	*Run
	inner *observe.Tracer
	trace string // the trace ID if the inner tracer has none
}

func (t *tracer) inject(ctx context.Context) map[string]string {
	if t.inner == nil {
		return nil
	}
	return t.inner.Inject(ctx)
}

func (t *tracer) extract(ctx context.Context, fields map[string]string) context.Context {
	if t.inner == nil {
		return ctx
	}
	return t.inner.Extract(ctx, fields)
}

// ids returns the IDs of the inner tracer's current span, or "".
func (t *tracer) ids(ctx context.Context) (trace, span string) {
	if t.inner == nil || t.inner.IDs == nil {
		return "", ""
	}
	return t.inner.IDs(ctx)
}

// place identifies the operations that contain a call.
type place struct {
	path   []ledger.SpanPlace
	parent *span // nil if no span contains the call
	// call is the span whose attempts a retry counts. It is nil in a node within that span.
	call *span
}

type placeKey struct{}

func placeOf(ctx context.Context) place {
	p, _ := ctx.Value(placeKey{}).(place)
	return p
}

// start implements Start of [observe.Tracer].
func (t *tracer) start(ctx context.Context, op *observe.Op) (context.Context, observe.Span) {
	up := placeOf(ctx)
	_, outer := t.ids(ctx)
	var inner observe.Span
	if t.inner != nil {
		ctx, inner = t.inner.Start(ctx, op)
	}
	switch op.Kind {
	case observe.Node, observe.Task:
		at := ledger.SpanPlace{Graph: op.Place.Graph, Node: op.Name, Step: op.Place.Step, Task: op.Place.TaskID}
		up.path, up.call = append(slices.Clip(up.path), at), nil
		ctx = context.WithValue(ctx, placeKey{}, up)
	case observe.Retry:
		if up.call != nil {
			up.call.retry(op)
			return ctx, &retrying{inner, up.call}
		}
	case observe.Model, observe.Tool, observe.Retriever:
		if !t.add() {
			break
		}
		s := t.open(ctx, op, up)
		s.identify(ctx, t, outer)
		s.inner = inner
		t.opened(s)
		up.parent, up.call = s, s
		t.changed(s)
		return context.WithValue(ctx, placeKey{}, up), s
	}
	if inner == nil {
		inner = nothing{}
	}
	return ctx, inner
}

// nothing is the span of an operation that is not recorded.
type nothing struct{}

// Chunk does nothing.
func (nothing) Chunk(any) {}

// End does nothing.
func (nothing) End(any, error) {}

// retrying is an attempt of a call after the first.
type retrying struct {
	inner observe.Span
	call  *span
}

// Chunk implements [observe.Span].
func (s *retrying) Chunk(v any) {
	if s.inner != nil {
		s.inner.Chunk(v)
	}
}

// End implements [observe.Span].
func (s *retrying) End(output any, err error) {
	if s.inner != nil {
		s.inner.End(output, err)
	}
	s.call.attempted(err)
}

// span implements [observe.Span].
type span struct {
	x     *Run
	inner observe.Span

	mu   sync.Mutex
	s    ledger.Span
	held int64 // size of the content
	done bool
}

// open returns the span of a call that starts.
func (t *tracer) open(ctx context.Context, op *observe.Op, up place) *span {
	now := time.Now().UTC().Truncate(time.Microsecond)
	s := &span{x: t.Run}
	s.s = ledger.Span{
		Kind: kinds[op.Kind], Name: op.Name, Status: ledger.SpanRunning, Provider: op.Call.Provider, ToolCall: op.Call.ToolCall,
		Thread: t.run.Thread, Run: t.run.ID, RunAttempt: t.run.Attempt, Path: append([]ledger.SpanPlace{}, up.path...), Started: now,
		Attempts: []ledger.SpanAttempt{{Attempt: 1, Started: now}}, Cut: []ledger.SpanCut{}, Attempt: 1,
	}
	if up.parent != nil {
		parent := up.parent.s.SpanID // does not change
		s.s.Parent = &parent
	}
	if info := treadle.InfoFrom(ctx); info.Node != "" {
		s.s.Graph = info.Graph
		s.s.Node = info.Node
		s.s.Step = info.Step
		s.s.Task = info.TaskID
		s.s.Attempt = info.Attempt
		s.s.Namespace = strings.Join(info.Namespace, "|")
		if info.CheckpointID != "" {
			s.s.Checkpoint = &info.CheckpointID
		}
	}
	if req, ok := op.Call.Detail.(*llm.Request); ok {
		s.s.Parameters = parameters(req, t.r.o.NoContent)
	}
	if !t.r.o.NoContent {
		s.s.HasContent = true
		s.s.Input = s.content("input", inputOf(op))
	}
	return s
}

var kinds = map[observe.Kind]string{observe.Model: "model", observe.Tool: "tool", observe.Retriever: "retriever"}

// identify sets the span's IDs, taken from the inner tracer's span if it started one.
func (s *span) identify(ctx context.Context, t *tracer, outer string) {
	trace, id := t.ids(ctx)
	if id == "" || id == outer {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		id = hex.EncodeToString(b[:])
	}
	if trace == "" {
		trace = t.trace
	}
	s.s.TraceID, s.s.SpanID = trace, id
}

// content encodes, redacts, and limits a value of the call. It returns nil if it is omitted.
func (s *span) content(name string, v any) json.RawMessage {
	raw, cut := encode(name, v, s.x.r.o.MaxSpan, s.x.r.o.Redact)
	if !s.x.admit(len(raw)) {
		s.s.Cut = append(s.s.Cut, ledger.SpanCut{Path: name, Bytes: len(raw)})
		return nil
	}
	s.held += int64(len(raw))
	s.s.Cut = append(s.s.Cut, cut...)
	return raw
}

// Chunk implements [observe.Span].
func (s *span) Chunk(v any) {
	if s.inner != nil {
		s.inner.Chunk(v)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.s.FirstChunk == nil {
		now := time.Now().UTC().Truncate(time.Microsecond)
		s.s.FirstChunk = &now
	}
}

// End implements [observe.Span].
func (s *span) End(output any, err error) {
	if s.inner != nil {
		s.inner.End(output, err)
	}
	s.end(output, err)
	s.x.closed(s)
	s.x.changed(s)
}

func (s *span) end(output any, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now().UTC().Truncate(time.Microsecond)
	s.s.Ended, s.done = &now, true
	s.s.Status = statusOf(err)
	s.endAttempt(now, err)
	if s.s.Status == ledger.SpanError || s.s.Status == ledger.SpanCanceled {
		class, message := s.x.r.o.Failure(err)
		s.s.Error = &ledger.Failure{Class: class, Message: s.text(message)}
	}
	if m, ok := output.(llm.Message); ok {
		s.s.Model, _ = m.Metadata["model_name"].(string)
		s.s.Finish = string(m.Stop)
		if m.Usage != nil {
			s.s.Usage, _ = json.Marshal(m.Usage) // a struct of numbers
		}
	}
	if output != nil && !s.x.r.o.NoContent {
		s.s.Output = s.content("output", output)
	}
}

// text redacts and limits the text of an error. It returns "" if content is not stored.
func (s *span) text(text string) string {
	if s.x.r.o.NoContent {
		return ""
	}
	if redact := s.x.r.o.Redact; redact != nil {
		text = redacted(redact, text)
	}
	if len(text) > maxError {
		text, _ = shortened(text, maxError)
	}
	return text
}

// maxError is the maximum size of an error message.
const maxError = 4 << 10

// retry adds an attempt.
func (s *span) retry(op *observe.Op) {
	s.mu.Lock()
	now := time.Now().UTC().Truncate(time.Microsecond)
	s.endAttempt(now.Add(-op.Wait).Truncate(time.Microsecond), op.Cause)
	s.s.Attempts = append(s.s.Attempts, ledger.SpanAttempt{Attempt: op.Attempt, Started: now, Wait: op.Wait.Milliseconds()})
	s.mu.Unlock()
	s.x.changed(s)
}

// attempted ends the last attempt.
func (s *span) attempted(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endAttempt(time.Now().UTC().Truncate(time.Microsecond), err)
}

// endAttempt ends the last attempt, unless it has ended.
func (s *span) endAttempt(at time.Time, err error) {
	a := &s.s.Attempts[len(s.s.Attempts)-1]
	if a.Ended != nil {
		return
	}
	a.Ended = &at
	if st := statusOf(err); st == ledger.SpanError || st == ledger.SpanCanceled {
		_, message := s.x.r.o.Failure(err)
		message = s.text(message)
		a.Error = &message
	}
}

// stored returns a copy to store.
func (s *span) stored() *ledger.Span {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.s
	c.Attempts, c.Cut = slices.Clone(s.s.Attempts), slices.Clone(s.s.Cut)
	return &c
}

// release returns the size of the content if the span is stored and will not be stored again,
// because it has ended or, if abandoned is set, its run has.
func (s *span) release(abandoned bool) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.done && !abandoned {
		return 0
	}
	held := s.held
	s.held = 0
	return held
}

// statusOf returns the status of a call that ended with err. A command to the parent graph and
// a drained run are not failures of the call.
func statusOf(err error) ledger.SpanStatus {
	_, asks := errors.AsType[*treadle.InterruptError](err)
	switch {
	case err == nil:
		return ledger.SpanSuccess
	case asks:
		return ledger.SpanInterrupted
	case errors.Is(err, treadle.ErrDrained), errors.Is(err, context.Canceled):
		return ledger.SpanCanceled
	case treadle.IsPause(err):
		return ledger.SpanSuccess
	}
	return ledger.SpanError
}
