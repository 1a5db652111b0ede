package agent

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/internal/observe"
	"github.com/treadle-go/treadle/llm"
)

// Middleware customizes an agent. All fields except Name are optional.
//
// The four hooks are nodes of the agent's graph, named <Name>.before_agent and so
// on. Their writes are saved in checkpoints, and they may interrupt the run. Hooks
// before the agent and the model run in the order of the middleware; hooks after
// them run in reverse order.
//
// WrapModel is called for each model call of the loop, and WrapTool for each tool
// call. They call next to make the call. They may change the call, call next several
// times, or not call it at all. The first middleware is the outermost. Traces show a
// tool call that is made again after a failure as a retry.
//
// A wrapper that handles the error of a call, for example by retrying the call, must
// return errors that [treadle.Propagate] returns.
type Middleware struct {
	// Name names the hooks' nodes: letters, digits, _ and -. If several middleware
	// of an agent have the same name, their nodes get a number: memory, memory_2.
	Name string

	BeforeAgent *Hook // once per run
	BeforeModel *Hook // before each model call
	AfterModel  *Hook // after each model call
	AfterAgent  *Hook // once per run, at the end

	WrapModel func(ctx context.Context, call ModelCall, next ModelFunc) (llm.Message, error)
	WrapTool  func(ctx context.Context, call ToolCall, next ToolFunc) (any, error)

	// BeforeNestedCall is called before each call that a tool makes with [Calls]. The
	// hooks do not see these calls, so middleware whose hooks decide about tool calls
	// must also decide about them here. BeforeNestedCall returns the call, with other
	// arguments if they are to be changed, or a message that becomes the result in place
	// of the call. It may interrupt the run; another error fails the run.
	BeforeNestedCall func(ctx context.Context, call ToolCall) (ToolCall, *llm.Message, error)

	// WrapResponse is called for the model call that creates the structured
	// response, if the agent has one. No hook and no other wrapper sees this call.
	WrapResponse func(ctx context.Context, call ModelCall, next ResponseFunc) (json.RawMessage, error)

	// Tools are added to the agent's tools. They must include tools that WrapModel
	// adds only to some calls, because Check compares names with this list.
	Tools []*llm.Tool

	// Fields, if not nil, declares fields of the thread's state that the wrappers and
	// tools read with [FieldsFrom]; see [NewFields].
	Fields *Fields

	// Check reports invalid options. It is called when the agent is built, which
	// fails with Check's error; the error is prefixed with the middleware's name.
	// If an option names a tool, Check calls [Setup.RequireTools] or
	// [Setup.RequireOwnTools], so that a misspelled name does not go unnoticed.
	Check func(s Setup) error
}

// Setup describes an agent that is being built; see [Middleware].Check.
type Setup struct {
	// Model is the agent's model. Middleware may replace it for a call.
	Model llm.Model
	// Tools lists all tools of the agent: those in [Options], those of middleware,
	// and those that the provider runs.
	Tools []*llm.Tool
}

// A ModelFunc calls the model.
type ModelFunc func(ctx context.Context, call ModelCall) (llm.Message, error)

// A ResponseFunc calls the model for the structured response, and returns the
// response as JSON. It offers no tools.
type ResponseFunc func(ctx context.Context, call ModelCall) (json.RawMessage, error)

// ModelCall is a call to the model. WrapModel and WrapResponse may change its
// fields, but not the elements of its slices.
type ModelCall struct {
	Model    llm.Model
	System   string       // the system prompt; empty means none
	Messages llm.Messages // without the system prompt
	Tools    []*llm.Tool
	Options  []llm.Option // further settings
}

// A ToolFunc calls a tool. It returns a value for [llm.ToolResult], or a
// [treadle.Command].
type ToolFunc func(ctx context.Context, call ToolCall) (any, error)

// ToolCall is a call to a tool. [llm.StateFrom] returns the agent's state from the
// call's context.
type ToolCall struct {
	llm.ToolCall
	Tool *llm.Tool // nil if the agent has no tool with this name
}

// A Hook is a function that runs as a node of the agent's graph. Create one with
// [NewHook].
type Hook struct {
	node  func(name string, model llm.Model) treadle.AnyNode
	jumps []Jump
}

// NewHook returns a hook that calls fn. As for a node, In is a struct of the fields
// that fn reads, and Out of the fields that it writes; see [treadle.AddNode].
// Fields that are not part of the agent's state are private to middleware. They are
// saved with the thread too, so their names must not clash with those of other
// middleware.
//
// jumps lists the places that the hook may jump to. If there are any, Out must
// embed [Detour].
func NewHook[In, Out any](fn func(context.Context, In) (Out, error), jumps ...Jump) *Hook {
	if fn == nil {
		return &Hook{jumps: jumps} // reported as an error when the agent is built
	}
	return &Hook{
		node: func(name string, model llm.Model) treadle.AnyNode {
			return treadle.NewNode(name, func(ctx context.Context, in In) (Out, error) { return fn(withModel(ctx, model), in) })
		},
		jumps: jumps,
	}
}

// Jump is the place where an agent continues after a hook. The zero Jump means no
// jump.
type Jump string

// Places that a hook can jump to.
const (
	JumpModel Jump = "model" // the hooks before the model, then the model
	JumpTools Jump = "tools" // the calls of the last AI message that have no result
	JumpEnd   Jump = "end"   // the hooks after the agent, then the end, without a structured response
)

// Detour is embedded in the Out type of a hook that may jump; see [NewHook].
type Detour struct {
	JumpTo Jump `json:"jump_to" treadle:"ephemeral"`
}

// jumping contains the fields read after a hook that may jump.
type jumping struct {
	Detour
	Messages llm.Messages
}

type modelKey struct{}

// ModelFrom returns the model of the agent that ctx belongs to: [Setup].Model, whatever model
// a call uses. It works in hooks, wrappers, and tools, and returns the model of the calling agent
// if several agents share a middleware. Outside an agent, ModelFrom returns nil.
func ModelFrom(ctx context.Context) llm.Model {
	m, _ := ctx.Value(modelKey{}).(llm.Model)
	return m
}

// withModel returns a context from which [ModelFrom] returns model.
func withModel(ctx context.Context, model llm.Model) context.Context {
	return context.WithValue(ctx, modelKey{}, model)
}

// wrapModel wraps call in the middleware's WrapModel functions.
func wrapModel(all []*Middleware, call ModelFunc) ModelFunc {
	for _, m := range slices.Backward(all) {
		if wrap, next := m.WrapModel, call; wrap != nil {
			call = func(ctx context.Context, c ModelCall) (llm.Message, error) { return wrap(ctx, c, next) }
		}
	}
	return call
}

// wrapResponse wraps call in the middleware's WrapResponse functions.
func wrapResponse(all []*Middleware, call ResponseFunc) ResponseFunc {
	for _, m := range slices.Backward(all) {
		if wrap, next := m.WrapResponse, call; wrap != nil {
			call = func(ctx context.Context, c ModelCall) (json.RawMessage, error) { return wrap(ctx, c, next) }
		}
	}
	return call
}

// wrapTool wraps call in the middleware's WrapTool functions.
func wrapTool(all []*Middleware, call ToolFunc) ToolFunc {
	for _, m := range slices.Backward(all) {
		if wrap, next := m.WrapTool, call; wrap != nil {
			call = func(ctx context.Context, c ToolCall) (any, error) { return wrap(ctx, c, traceRetries(ctx, next)) }
		}
	}
	return call
}

// traceRetries returns next for one call of a wrapper. If the wrapper calls it again
// after a failure, the tracer, if any, receives a retry.
func traceRetries(ctx context.Context, next ToolFunc) ToolFunc {
	if observe.TracerOf(ctx) == nil {
		return next
	}
	var mu sync.Mutex // a wrapper may make concurrent calls
	var attempts int
	var failure error // of the attempt that ended last
	var ended time.Time
	return func(ctx context.Context, c ToolCall) (any, error) {
		mu.Lock()
		attempts++
		attempt, cause, wait := attempts, failure, time.Since(ended)
		mu.Unlock()
		var span observe.Span
		if cause != nil {
			ctx, span = observe.Again(ctx, c.Name, attempt, cause, wait)
		}
		out, err := next(ctx, c)
		observe.Ended(span, err)
		mu.Lock()
		defer mu.Unlock()
		failure, ended = err, time.Now()
		return out, err
	}
}
