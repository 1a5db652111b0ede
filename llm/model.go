package llm

import (
	"cmp"
	"context"
	"iter"

	"github.com/google/jsonschema-go/jsonschema"
)

// A Model answers requests. Implementations are safe for use by several
// goroutines at once. Callers do not call Stream themselves: [Generate],
// [Stream] and [Object] prepare the request and report to the run.
type Model interface {
	// Stream yields the answer piece by piece. An error is yielded last, with a
	// zero Chunk; an answer without an error is complete. Cancelling ctx or
	// leaving the loop ends the call and its connection to the provider before
	// Stream returns, and a cancelled call yields ctx's error (or its cause).
	//
	// The history in req keeps the rules of [Repair]. If req.NoStream is set,
	// the model asks its provider for the whole answer at once and yields it as
	// one Chunk. Errors of the provider are of type [*Error]. Stream must not
	// change req or keep it.
	Stream(ctx context.Context, req *Request) iter.Seq2[Chunk, error]
}

// Request is what a model is asked. The zero value of a setting leaves it to the
// provider. What a provider does not know it ignores, except where ignoring
// would change the meaning of the answer: tools, Output, images and other media
// that it cannot send are an error.
type Request struct {
	// Model overrides the model's own name, if set.
	Model    string
	Messages Messages
	// Tools are those that the model may call.
	Tools []*Tool
	// ToolChoice is "" or "auto" (the model decides), "none", "any" (it must
	// call one) or the name of the tool that it must call.
	ToolChoice string
	// SerialTools forbids several calls in one answer.
	SerialTools bool
	// Output asks for an answer that is JSON of a schema. It is set only for
	// models whose [Info] says NativeOutput.
	Output *Output

	// Objects is how [Object] asks for its value; models need not look at it.
	Objects ObjectMode

	MaxTokens   int
	Temperature *float64
	TopP        *float64
	StopWords   []string
	Seed        *int64
	// Reasoning is how much the model is to think before it answers: "none",
	// "low", "medium" or "high", or a provider's own word.
	Reasoning string
	// Settings are parameters of the provider's own, by the names of its API.
	// They are added to the body of the request and win over those above.
	Settings map[string]any

	// NoStream asks for the answer in one piece, and for no token events.
	NoStream bool
	// Tags and Metadata go with the call's events; models never see them.
	Tags     []string
	Metadata map[string]any
}

// The values of [Request.ToolChoice] that are not names of tools.
const (
	ToolChoiceAuto = "auto"
	ToolChoiceNone = "none"
	ToolChoiceAny  = "any"
)

// Output describes the JSON that an answer is to be.
type Output struct {
	Name        string // letters, digits, _ and -
	Description string
	Schema      *jsonschema.Schema
}

// Info describes a model.
type Info struct {
	Provider string // such as "openai"
	Model    string // the provider's name for it
	// NativeOutput: the model obeys [Request.Output].
	NativeOutput bool
	// NoTools: the model cannot call tools.
	NoTools bool
}

// String is the provider and the model, as [Open] reads them.
func (i Info) String() string {
	switch {
	case i.Model == "":
		return cmp.Or(i.Provider, "the model")
	case i.Provider == "":
		return i.Model
	}
	return i.Provider + ":" + i.Model
}

// A Describer is a Model that says what it is. Every provider's models do.
type Describer interface {
	Describe() Info
}

// Describe is the model's description of itself, or else that of the model that
// it stands around (see [With]), or a zero Info.
func Describe(m Model) Info {
	switch m := m.(type) {
	case Describer:
		return m.Describe()
	case wrapper:
		return Describe(m.Unwrap())
	}
	return Info{}
}

// An Embedder turns texts into vectors, which lie near each other where the
// texts mean similar things. A store takes one as it is.
type Embedder interface {
	// Embed returns one vector for each text, in their order.
	Embed(ctx context.Context, texts []string) ([][]float32, error)
	// Model names what makes the vectors: those of different models cannot be
	// compared.
	Model() string
	// Dimension is the length of the vectors.
	Dimension() int
}

// Option is a setting of a request. Any function of this type will do; the
// package brings those that are often needed.
type Option func(*Request)
