package observe

import (
	"context"
	"time"
)

// The kinds of operations that only a [Tracer] sees.
const (
	Run    Kind = "run"    // of a graph
	Node   Kind = "node"   // all attempts of a node in a step
	Task   Kind = "task"   // a function that a node or a workflow calls as a task
	Retry  Kind = "retry"  // an attempt after the first
	Store  Kind = "store"  // an operation of a store
	Embed  Kind = "embed"  // texts that are turned into vectors
	Memory Kind = "memory" // an operation of package memory
)

// Op describes an operation as it starts. Its Kind says which fields are set.
type Op struct {
	Kind  Kind
	Name  string // of the graph, node, task, model or tool; or what a store or a memory does
	Input any    // what it works on, if there is a value for it
	Call  *Call  // of a Model, Tool or Retriever
	Place Place  // of a Run, Node or Task

	Attempt int           // of a Retry: 2 is the first
	Cause   error         // of a Retry: the failure of the attempt before
	Wait    time.Duration // of a Retry: the wait before it

	Count     int // of a Store: how many operations it has; of an Embed: how many texts
	Dimension int // of an Embed
}

// Place says where in a run an operation is.
type Place struct {
	Graph     string
	Thread    string
	RunID     string
	TaskID    string
	Namespace string // of a nested graph
	Step      int
	Nested    bool // the run is inside a task of another one
}

// A Tracer receives the operations of a program, with the contexts that connect them.
// Its functions do not panic. It is a struct because the methods of an interface would
// show this package in the documentation of the package that has them.
type Tracer struct {
	// Start reports the start of an operation and returns the context to run it in.
	Start func(ctx context.Context, op *Op) (context.Context, Span)
	// Inject returns the fields that tell another process where ctx belongs.
	Inject func(ctx context.Context) map[string]string
	// Extract returns ctx as a part of what the fields of another process tell.
	Extract func(ctx context.Context, fields map[string]string) context.Context
	// Fields are the names of the fields.
	Fields []string
}

type tracerKey struct{}

// TracerKey is the context key of the [Tracer]. The engine's contexts implement Value
// for it.
var TracerKey any = tracerKey{}

// WithTracer returns a context whose operations t receives.
func WithTracer(ctx context.Context, t *Tracer) context.Context {
	return context.WithValue(ctx, TracerKey, t)
}

// TracerOf returns the tracer of ctx, or nil.
func TracerOf(ctx context.Context) *Tracer {
	t, _ := ctx.Value(TracerKey).(*Tracer)
	return t
}

// Join returns ctx as a part of what another process tells. get returns a field of its
// message by its name, or "".
func (t *Tracer) Join(ctx context.Context, get func(name string) string) context.Context {
	fields := map[string]string{}
	for _, name := range t.Fields {
		if v := get(name); v != "" {
			fields[name] = v
		}
	}
	return t.Extract(ctx, fields)
}

// Again starts an attempt after the first: what is done in the returned context
// belongs to it. The span is nil if nobody traces it.
func Again(ctx context.Context, name string, attempt int, cause error, wait time.Duration) (context.Context, Span) {
	t := TracerOf(ctx)
	if t == nil {
		return ctx, nil
	}
	return t.Start(ctx, &Op{Kind: Retry, Name: name, Attempt: attempt, Cause: cause, Wait: wait})
}

// Ended ends a span of [Again], which may be nil.
func Ended(s Span, err error) {
	if s != nil {
		s.End(nil, err)
	}
}

// Hit is the output of an operation that was found in a cache.
type Hit struct{ Output any }

// Served is what a server knows about a run.
type Served struct {
	Waited  time.Duration // from the time that it was due to its start
	Attempt int           // how often it was begun
}

type servedKey struct{}

// WithServed returns a context for a run of a server.
func WithServed(ctx context.Context, s Served) context.Context {
	return context.WithValue(ctx, servedKey{}, s)
}

// ServedOf returns what a server knows about the run of ctx.
func ServedOf(ctx context.Context) (Served, bool) {
	s, ok := ctx.Value(servedKey{}).(Served)
	return s, ok
}

// traced is a call that a tracer and a run observe.
type traced struct{ run, trace Span }

// beginTraced is Begin with a tracer. It is apart so that a call without one needs no
// memory.
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
