package observe

import (
	"context"
	"time"
)

// Kinds of operations that only a [Tracer] receives.
const (
	Run    Kind = "run"    // a run of a graph
	Node   Kind = "node"   // all attempts of a node in a step
	Task   Kind = "task"   // a function that a node or workflow calls as a task
	Retry  Kind = "retry"  // an attempt after the first
	Store  Kind = "store"  // a store operation
	Embed  Kind = "embed"  // computing embeddings of texts
	Memory Kind = "memory" // an operation of package memory
)

// Op describes an operation at its start. Its Kind determines which fields are set.
type Op struct {
	Kind  Kind
	Name  string // the graph, node, task, model, or tool; or the store or memory operation
	Input any    // the input, if there is one
	Call  *Call  // for a Model, Tool, or Retriever
	Place Place  // for a Run, Node, or Task

	Attempt int           // for a Retry: 2 or more
	Cause   error         // for a Retry: the failure of the previous attempt
	Wait    time.Duration // for a Retry: the wait before it

	Count     int // for a Store: the number of operations; for an Embed: the number of texts
	Dimension int // for an Embed
}

// Place locates an operation within a run.
type Place struct {
	Graph     string
	Thread    string
	RunID     string
	TaskID    string
	Namespace string // of a subgraph
	Step      int
	Nested    bool // the run is inside a task of another run
}

// A Tracer receives the operations of a program, with the contexts that connect them. Its
// functions do not panic. It is a struct, because the methods of an interface would
// expose this package in the documentation of the implementing package.
type Tracer struct {
	// Start reports the start of an operation and returns the context to run it in.
	Start func(ctx context.Context, op *Op) (context.Context, Span)
	// Inject returns the fields that propagate the trace context of ctx to another
	// process.
	Inject func(ctx context.Context) map[string]string
	// Extract returns ctx with the trace context propagated by another process.
	Extract func(ctx context.Context, fields map[string]string) context.Context
	// IDs returns the trace ID and span ID of the current span of ctx, in hexadecimal, or "".
	// It may be nil.
	IDs func(ctx context.Context) (trace, span string)
	// Fields lists the names of the propagated fields.
	Fields []string
}

type tracerKey struct{}

// TracerKey is the context key of the [Tracer]. The engine's contexts implement Value
// for it.
var TracerKey any = tracerKey{}

// WithTracer returns a context whose operations are reported to t.
func WithTracer(ctx context.Context, t *Tracer) context.Context {
	return context.WithValue(ctx, TracerKey, t)
}

// TracerOf returns the tracer of ctx, or nil.
func TracerOf(ctx context.Context) *Tracer {
	t, _ := ctx.Value(TracerKey).(*Tracer)
	return t
}

// Join returns ctx with the trace context propagated by another process. get returns the
// named field of its message, or "".
func (t *Tracer) Join(ctx context.Context, get func(name string) string) context.Context {
	fields := map[string]string{}
	for _, name := range t.Fields {
		if v := get(name); v != "" {
			fields[name] = v
		}
	}
	return t.Extract(ctx, fields)
}

// Again starts an attempt after the first. Operations in the returned context belong to
// it. The span is nil if there is no tracer.
func Again(ctx context.Context, name string, attempt int, cause error, wait time.Duration) (context.Context, Span) {
	t := TracerOf(ctx)
	if t == nil {
		return ctx, nil
	}
	return t.Start(ctx, &Op{Kind: Retry, Name: name, Attempt: attempt, Cause: cause, Wait: wait})
}

// Ended ends a span returned by [Again], which may be nil.
func Ended(s Span, err error) {
	if s != nil {
		s.End(nil, err)
	}
}

// Hit is the output of an operation whose result was found in a cache.
type Hit struct{ Output any }

// Served contains a server's information about a run.
type Served struct {
	Waited  time.Duration // from the run's due time to its start
	Attempt int           // number of times the run was started
}

type servedKey struct{}

// WithServed returns a context for a run by a server.
func WithServed(ctx context.Context, s Served) context.Context {
	return context.WithValue(ctx, servedKey{}, s)
}

// ServedOf returns the server's information about the run of ctx.
func ServedOf(ctx context.Context) (Served, bool) {
	s, ok := ctx.Value(servedKey{}).(Served)
	return s, ok
}

// traced is a call observed by both a tracer and a run.
type traced struct{ run, trace Span }

// beginTraced is like Begin, but with a tracer. It is a separate function so that a call without a
// tracer does not allocate.
func beginTraced(ctx context.Context, t *Tracer, call Call) (context.Context, Span) {
	ctx, trace := t.Start(ctx, &Op{Kind: call.Kind, Name: call.Name, Input: call.Input, Call: &call})
	ctx, run := begin(ctx, call)
	return ctx, &traced{run, trace}
}

// Chunk implements [Span].
func (s *traced) Chunk(v any) {
	s.run.Chunk(v)
	s.trace.Chunk(v)
}

// End implements [Span].
func (s *traced) End(output any, err error) {
	s.run.End(output, err)
	s.trace.End(output, err)
}
