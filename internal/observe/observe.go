// Package observe lets models, tools and retrievers report their calls to the run that
// makes them. They find an [Observer] in their context, which the engine puts there. So
// models do not depend on graphs, and the engine does not depend on models.
//
// A [Tracer] in the context receives these calls too, and with them the runs, nodes,
// retries, stores and memories, whether they are inside a run or not. Package
// oteltreadle has the only one.
package observe

import "context"

// Kind says what is being observed.
type Kind string

// The kinds of observed calls, named as LangChain's events name them.
const (
	Model     Kind = "chat_model"
	Tool      Kind = "tool"
	Retriever Kind = "retriever"
)

// Call describes an observed call as it starts.
type Call struct {
	Kind     Kind
	Name     string
	Input    any
	Tags     []string
	Metadata map[string]any
	NoStream bool // its chunks are not reported

	ToolCall string // of a tool: the id of the call; streams add it to the metadata
	Provider string // of a model
	Detail   any    // the *llm.Request of a model, the *llm.Tool of a tool
}

// A Span is a running call that is observed.
type Span interface {
	// Chunk reports a piece of the result, such as a token of a model.
	Chunk(v any)
	// End reports the result. It is called once, last.
	End(output any, err error)
}

// An Observer receives reports of calls.
type Observer interface {
	// Begin reports the start of a call and returns the context to run it in.
	Begin(ctx context.Context, call Call) (context.Context, Span)
}

// Failing is an Observer that reports whether the run itself has failed, for instance
// because of its saver, or whether the node that makes the call has paused.
type Failing interface{ Failed() error }

// Failed returns the failure of the run that ctx belongs to, or the pause of the node.
// The node ends with this error even if the node handles it, so a call must not be
// retried or sent to another model.
func Failed(ctx context.Context) error {
	if o, ok := ctx.Value(Key).(Failing); ok {
		return o.Failed()
	}
	return nil
}

// A Message is a message of a conversation. Messages that a node returns are streamed
// like those of a model, each id once.
type Message interface{ MessageID() string }

// A Namer is the reducer of a conversation that gives IDs to messages without one. The
// engine names the messages that a node returns before it shows or saves them, so that
// streams, checkpoints, and the state agree on their IDs.
type Namer interface {
	// Named returns update with an ID for each message without one. val and acc are the
	// arguments of Reduce. place distinguishes updates of the same value; it is empty if
	// there is one update. The result depends on the arguments alone, and update is not
	// changed.
	Named(val, acc, update any, place string) any
}

type key struct{}

// Key is the context key of the Observer. The engine's contexts implement Value for it.
var Key any = key{}

// Begin starts observing a call. Without an observer in ctx nothing is
// reported and the span does nothing.
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
