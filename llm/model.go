package llm

import (
	"cmp"
	"context"
	"iter"

	"github.com/google/jsonschema-go/jsonschema"
)

// A Model answers requests. Implementations must be safe for concurrent use. To
// ask a model, call [Generate], [Stream] or [Object], not its method: these
// functions prepare the request and report the call to the run.
type Model interface {
	// Stream yields the answer in chunks. If the call fails, the last pair is a
	// zero Chunk and the error. When ctx is cancelled or the caller leaves the
	// loop, Stream ends the call and closes its connection before it returns. A
	// cancelled call yields ctx's error or its cause.
	//
	// The messages of req satisfy [Check]. If req.NoStream is set, the model asks
	// its provider for the whole answer at once and yields it as one Chunk.
	// Errors of the provider are of type [*Error]. Stream must not change req or
	// use it after it has returned.
	Stream(ctx context.Context, req *Request) iter.Seq2[Chunk, error]
}

// Request is a request to a model. The zero value of a setting means the
// provider's default. A model ignores settings that its provider does not have.
// But it returns an error for tools, an Output, images or other media that it
// cannot send.
type Request struct {
	// Model, if set, asks for another model of the same provider.
	Model    string
	Messages Messages
	// Tools are the tools that the model may call.
	Tools []*Tool
	// ToolChoice is "" or "auto" (the model decides), "none", "any" (it must
	// call one) or the name of the tool that it must call.
	ToolChoice string
	// SerialTools allows at most one tool call in an answer.
	SerialTools bool
	// Output asks for an answer that is JSON of a schema. It is set only for
	// models whose [Info] has NativeOutput.
	Output *Output

	// Objects is how [Object] asks for its value. Models ignore it.
	Objects ObjectMode

	MaxTokens   int
	Temperature *float64
	TopP        *float64
	StopWords   []string
	Seed        *int64
	// Reasoning is how much the model thinks before it answers: "none", "low",
	// "medium", "high", or another value that the provider knows.
	Reasoning string
	// Settings are further parameters, by their names in the provider's API. They
	// are added to the body of the request and replace those of the fields above.
	Settings map[string]any

	// NoStream asks for the whole answer at once, and for no token events.
	NoStream bool
	// Tags and Metadata are added to the call's events. They are not sent to the
	// provider.
	Tags     []string
	Metadata map[string]any
}

// The values of [Request.ToolChoice] that are not names of tools.
const (
	ToolChoiceAuto = "auto"
	ToolChoiceNone = "none"
	ToolChoiceAny  = "any"
)

// Output describes an answer that must be JSON. An *Output is an [Option], for
// models whose [Info] has NativeOutput. [Object] is simpler if the answer has a Go
// type.
type Output struct {
	Name        string // letters, digits, _ and -
	Description string
	Schema      *jsonschema.Schema
}

func (o *Output) set(r *Request) { r.Output = o }

// Info describes a model.
type Info struct {
	Provider string // such as "openai"
	Model    string // as the provider names it
	// NativeOutput is true if the model supports [Request.Output].
	NativeOutput bool
	// NoTools is true if the model cannot call tools.
	NoTools bool
}

// String returns the provider and the model, in the form that [Open] reads.
func (i Info) String() string {
	switch {
	case i.Model == "":
		return cmp.Or(i.Provider, "the model")
	case i.Provider == "":
		return i.Model
	}
	return i.Provider + ":" + i.Model
}

// A Describer is a [Model] that describes itself, as the models of all providers
// do.
type Describer interface {
	Describe() Info
}

// Describe returns the description of a model. For a wrapper that is not a
// [Describer] it is that of the model inside; see [With]. It is zero if there is
// none.
func Describe(m Model) Info {
	switch m := m.(type) {
	case Describer:
		return m.Describe()
	case wrapper:
		return Describe(m.Unwrap())
	}
	return Info{}
}

// An Embedder turns texts into vectors. The vectors of texts with a similar
// meaning are near each other. A store uses an Embedder for semantic search.
type Embedder interface {
	// Embed returns one vector for each text, in their order.
	Embed(ctx context.Context, texts []string) ([][]float32, error)
	// Model returns the name of the model. Vectors of different models cannot be
	// compared.
	Model() string
	// Dimension returns the length of the vectors.
	Dimension() int
}
