package llm

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"time"

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
// an error for tools, an Output, images, or other media that it cannot send. It does
// not return an error for media in AI messages, which other providers' models may
// have written: it sends them in another place, or drops them.
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

	// These settings have the provider's defaults if they are zero.
	MaxTokens   int // of the response
	Temperature *float64
	TopP        *float64
	StopWords   []string // end the response before the first of them
	Seed        *int64

	// Reasoning is the reasoning effort: "none", "low", "medium", "high", or
	// another value that the provider supports.
	Reasoning string
	// PromptCache, if not 0, asks the provider to cache the prompt for that long;
	// see [CachePrompt].
	PromptCache time.Duration
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

// Info describes a model. Zero values mean unknown: package catalog has the
// published facts about the models of the larger providers, and the adapters fill
// in what it lists. To correct or complete them, use [WithInfo].
type Info struct {
	Provider string `json:"provider,omitempty"` // such as "openai"
	Model    string `json:"model,omitempty"`    // the provider's name for the model
	// NativeOutput reports whether the model supports [Request.Output].
	NativeOutput bool `json:"native_output,omitempty"`
	// NoTools is set if the model cannot call tools.
	NoTools bool `json:"no_tools,omitempty"`
	// NoToolChoice is set if the model rejects a tool choice that forces a call.
	NoToolChoice bool `json:"no_tool_choice,omitempty"`
	// NoTemperature is set if the model rejects a temperature.
	NoTemperature bool `json:"no_temperature,omitempty"`

	// Window is the maximum number of input tokens, and MaxOutput of output tokens.
	Window    int `json:"window,omitempty"`
	MaxOutput int `json:"max_output,omitempty"`
	// Inputs and Outputs list what the model reads and writes: "text", "image",
	// "audio", "video", "pdf".
	Inputs  []string `json:"inputs,omitempty"`
	Outputs []string `json:"outputs,omitempty"`
	// Reasoning reports whether the model can reason before it responds, and
	// Efforts lists the values that [Request].Reasoning can have.
	Reasoning bool     `json:"reasoning,omitempty"`
	Efforts   []string `json:"efforts,omitempty"`
	// Retired is the day on which the provider withdraws the model, such as
	// "2026-12-11".
	Retired string `json:"retired,omitempty"`
	// Price is the model's list price; nil if unknown.
	Price *Price `json:"price,omitempty"`
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

// Share returns the number of tokens in a share of the context window, such as 0.8.
// It returns an error if the share is not between 0 and 1, or if the window is
// unknown.
func (i Info) Share(share float64) (int, error) {
	switch {
	case !(share > 0 && share <= 1):
		return 0, fmt.Errorf("invalid share %v of the context window: want more than 0 and at most 1", share)
	case i.Window == 0:
		return 0, fmt.Errorf("unknown context window of %s: set a number of tokens, or set Window with llm.WithInfo", i)
	}
	return int(share * float64(i.Window)), nil
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

// WithInfo returns a model whose description is info, for a model that package
// catalog does not list or whose facts differ, such as a price by contract. Empty
// fields of info are taken from the model's own description. If info.NoTemperature is
// set, the model gets no temperature. WithInfo panics if model is nil.
func WithInfo(model Model, info Info) Model {
	need("WithInfo", model)
	return &described{model, info}
}

type described struct {
	model Model
	info  Info
}

// Describe implements [Describer].
func (d *described) Describe() Info { return d.info.Or(Describe(d.model)) }

// Unwrap returns the wrapped model; see [With].
func (d *described) Unwrap() Model { return d.model }

// Rewrap returns the same wrapper around another model.
func (d *described) Rewrap(m Model) Model { return &described{m, d.info} }

// Stream implements [Model].
func (d *described) Stream(ctx context.Context, req *Request) iter.Seq2[Chunk, error] {
	// Info does not describe a model that ModelName selects.
	if d.info.NoTemperature && req.Temperature != nil && req.Model == "" {
		own := *req
		own.Temperature = nil
		req = &own
	}
	return d.model.Stream(ctx, req)
}

// Or returns i with its empty fields set to those of other.
func (i Info) Or(other Info) Info {
	i.Provider = cmp.Or(i.Provider, other.Provider)
	i.Model = cmp.Or(i.Model, other.Model)
	i.NativeOutput = i.NativeOutput || other.NativeOutput
	i.NoTools = i.NoTools || other.NoTools
	i.NoToolChoice = i.NoToolChoice || other.NoToolChoice
	i.NoTemperature = i.NoTemperature || other.NoTemperature
	i.Window = cmp.Or(i.Window, other.Window)
	i.MaxOutput = cmp.Or(i.MaxOutput, other.MaxOutput)
	if i.Inputs == nil {
		i.Inputs = other.Inputs
	}
	if i.Outputs == nil {
		i.Outputs = other.Outputs
	}
	i.Reasoning = i.Reasoning || other.Reasoning
	if i.Efforts == nil {
		i.Efforts = other.Efforts
	}
	i.Retired = cmp.Or(i.Retired, other.Retired)
	i.Price = cmp.Or(i.Price, other.Price)
	return i
}
