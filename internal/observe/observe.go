// Package observe lets models, tools, and retrievers report their calls to the run that
// makes them. They find an [Observer] in their context, where the engine puts it, so
// models do not depend on graphs and the engine does not depend on models.
//
// A [Tracer] in the context receives these calls too, as well as runs, nodes, retries,
// and store and memory operations, inside or outside a run. Package oteltreadle contains
// the only implementation.
package observe

import "context"

// Kind is the kind of an observed operation.
type Kind string

// Kinds of observed calls, named as in LangChain's events.
const (
	Model     Kind = "chat_model"
	Tool      Kind = "tool"
	Retriever Kind = "retriever"
)

// Call describes an observed call at its start.
type Call struct {
	Kind     Kind
	Name     string
	Input    any
	Tags     []string
	Metadata map[string]any
	NoStream bool // chunks are not reported

	ToolCall string // for a tool: the call's ID; streams add it to the metadata
	Provider string // for a model
	Detail   any    // a model's *llm.Request, or a tool's *llm.Tool
}

// A Span is a running observed call.
type Span interface {
	// Chunk reports a part of the result, such as a model's token.
	Chunk(v any)
	// End reports the result. It is called exactly once, last.
	End(output any, err error)
}

// An Observer receives reports of calls.
type Observer interface {
	// Begin reports the start of a call and returns the context to run it in.
	Begin(ctx context.Context, call Call) (context.Context, Span)
}

// Failing is an Observer that reports whether the run itself has failed, for example
// because of its saver, or whether the node that makes the call has been interrupted.
type Failing interface{ Failed() error }

// Failed returns the failure of the run that ctx belongs to, or the interrupt of the
// node. The node ends with this error even if its code handles the error, so a call must
// not be retried or sent to another model.
func Failed(ctx context.Context) error {
	if o, ok := ctx.Value(Key).(Failing); ok {
		return o.Failed()
	}
	return nil
}

// Threaded is an Observer that reports the run's thread.
type Threaded interface{ Thread() string }

// Thread returns the ID of the thread that ctx belongs to, or "".
func Thread(ctx context.Context) string {
	if o, ok := ctx.Value(Key).(Threaded); ok {
		return o.Thread()
	}
	return ""
}

// A Message is a message in a conversation. Messages returned by a node are streamed like
// a model's messages, once per ID.
type Message interface{ MessageID() string }

// A Namer is the reducer of a conversation that assigns IDs to messages without one. The
// engine assigns IDs to the messages that a node returns before it streams or saves them,
// so that streams, checkpoints, and the state agree on their IDs.
type Namer interface {
	// Named returns update with an ID for each message that lacks one. val and acc are
	// the arguments of Reduce. place distinguishes updates of the same value; it is empty
	// if there is only one update. The result depends only on the arguments, and update
	// is not modified.
	Named(val, acc, update any, place string) any
}

type key struct{}

// Key is the context key of the Observer. The engine's contexts implement Value for it.
var Key any = key{}

// Begin starts observing a call. If ctx has neither a tracer nor an observer, nothing is
// reported, and the span does nothing.
func Begin(ctx context.Context, call Call) (context.Context, Span) {
	if t := TracerOf(ctx); t != nil {
		return beginTraced(ctx, t, call)
	}
	return begin(ctx, call)
}

func begin(ctx context.Context, call Call) (context.Context, Span) {
	if o, ok := ctx.Value(Key).(Observer); ok {
		return o.Begin(ctx, call)
	}
	return ctx, nobody{}
}

type nobody struct{}

// Chunk does nothing.
func (nobody) Chunk(any) {}

// End does nothing.
func (nobody) End(any, error) {}
