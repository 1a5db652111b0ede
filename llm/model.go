package llm

import (
	"cmp"
	"context"
	"iter"

	"github.com/google/jsonschema-go/jsonschema"
)

// A Model responds to requests. Implementations must be safe for concurrent use. To
// call a model, use [Generate], [Stream], or [Object] instead of its method: these
// functions prepare the request and report the call to the run.
type Model interface {
	// Stream yields the response in chunks. If the call fails, the last pair is a
	// zero Chunk and the error. When ctx is canceled or the caller leaves the loop,
	// Stream ends the call and closes its connection before it returns. A canceled
	// call yields ctx's error or its cause.
	//
	// The messages of req satisfy [Check]. If req.NoStream is set, the model
	// requests the whole response at once and yields it as one Chunk. Provider
	// errors have the type [*Error]. Stream must not change req or use it after it
	// has returned.
	Stream(ctx context.Context, req *Request) iter.Seq2[Chunk, error]
}

// Request is a request to a model. The zero value of a setting means the provider's
// default. A model ignores settings that its provider does not support, but returns
// an error for tools, an Output, images, or other media that it cannot send.
type Request struct {
	// Model, if set, selects another model of the same provider.
	Model    string
	Messages Messages
	// Tools lists the tools that the model may call.
	Tools []*Tool
	// ToolChoice is "" or "auto" (the model decides), "none", "any" (the model must
	// call a tool), or the name of the tool that the model must call.
	ToolChoice string
	// SerialTools allows at most one tool call in a response.
	SerialTools bool
	// Output requests a response that is JSON of a schema. It is set only for
	// models whose [Info] has NativeOutput set.
	Output *Output

	// Objects selects how [Object] requests its value. Models ignore it.
	Objects ObjectMode

	MaxTokens   int
	Temperature *float64
	TopP        *float64
	StopWords   []string
	Seed        *int64
	// Reasoning is the reasoning effort: "none", "low", "medium", "high", or
	// another value that the provider supports.
	Reasoning string
	// Settings contains further parameters by their names in the provider's API.
	// They are added to the request body and override the fields above.
	Settings map[string]any

	// NoStream requests the whole response at once, without token events.
	NoStream bool
	// Tags and Metadata are added to the call's events. They are not sent to the
	// provider.
	Tags     []string
	Metadata map[string]any
}

// Values of [Request.ToolChoice] other than tool names.
const (
	ToolChoiceAuto = "auto"
	ToolChoiceNone = "none"
	ToolChoiceAny  = "any"
)

// Output describes a response that must be JSON. An *Output is an [Option], for
// models whose [Info] has NativeOutput set. If the response has a Go type, [Object]
// is simpler.
type Output struct {
	Name        string // letters, digits, _, and -
	Description string
	Schema      *jsonschema.Schema
}

func (o *Output) set(r *Request) { r.Output = o }

// Info describes a model.
type Info struct {
	Provider string // such as "openai"
	Model    string // the provider's name for the model
	// NativeOutput reports whether the model supports [Request.Output].
	NativeOutput bool
	// NoTools is set if the model cannot call tools.
	NoTools bool
}

// String returns the provider and the model, in the form that [Open] accepts.
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
// [Describer], it returns the description of the wrapped model; see [With]. It
// returns the zero Info if there is no description.
func Describe(m Model) Info {
	switch m := m.(type) {
	case Describer:
		return m.Describe()
	case wrapper:
		return Describe(m.Unwrap())
	}
	return Info{}
}

// An Embedder converts texts to vectors. Texts with similar meanings have vectors
// that are close to each other. A store uses an Embedder for semantic search.
type Embedder interface {
	// Embed returns one vector for each text, in order.
	Embed(ctx context.Context, texts []string) ([][]float32, error)
	// Model returns the name of the model. Vectors of different models are not
	// comparable.
	Model() string
	// Dimension returns the length of the vectors.
	Dimension() int
}
