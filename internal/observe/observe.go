// Package observe is the door through which models, tools and retrievers tell
// the run they are called in what they do. They find an [Observer] in their
// context and know nothing of graphs; the engine puts one there and knows
// nothing of models.
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
	NoStream bool // its chunks are nobody's business
}

// A Span is an observed call under way.
type Span interface {
	// Chunk reports a piece of the result: a token of a model.
	Chunk(v any)
	// End reports the result. It is called once, last.
	End(output any, err error)
}

// An Observer is told of calls.
type Observer interface {
	// Begin reports the start of a call and returns the context to run it in.
	Begin(ctx context.Context, call Call) (context.Context, Span)
}

// Failing is an Observer that knows whether the run itself has failed, its saver
// for one.
type Failing interface{ Failed() error }

// Failed is why the run that ctx belongs to cannot go on. It ends with that error
// whatever is returned to it, so nothing is tried again and nobody else asked.
func Failed(ctx context.Context) error {
	if o, ok := ctx.Value(Key).(Failing); ok {
		return o.Failed()
	}
	return nil
}

// A Message is a piece of a conversation. Messages that a node returns are
// streamed like a model's own, each id once.
type Message interface{ MessageID() string }

type key struct{}

// Key is the context key under which an Observer is found. The engine's
// contexts answer it themselves.
var Key any = key{}

// Begin starts observing a call. Without an observer in ctx nothing is
// reported and the span does nothing.
func Begin(ctx context.Context, call Call) (context.Context, Span) {
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
