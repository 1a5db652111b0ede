package agent

import (
	"context"
	"slices"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/llm"
)

// Middleware customizes an agent. All fields except Name are optional.
//
// The four hooks are nodes of the agent's graph, named <Name>.before_agent and so
// on. Their writes are saved in checkpoints, and they may interrupt the run. Hooks
// before the agent and the model run in the order of the middleware; hooks after
// them run in reverse order.
//
// WrapModel is called for each model call, and WrapTool for each tool call. They
// call next to make the call. They may change the call, call next several times, or
// not call it at all. The first middleware is the outermost.
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

	// Tools are added to the agent's tools. They must include tools that WrapModel
	// adds only to some calls, because the names in gates and limits are checked
	// against this list when the agent is built.
	Tools []*llm.Tool

	err   error    // invalid options, reported when the agent is built
	names []string // the tools named in its options
	// response redacts the structured response, which no hook sees.
	response *redactor
	runs     bool // it sees only calls that the agent runs, not those that the provider runs
}

// A ModelFunc calls the model.
type ModelFunc func(ctx context.Context, call ModelCall) (llm.Message, error)

// ModelCall is a call to the model. WrapModel may change its fields, but not the
// elements of its slices.
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
	node  func(name string) treadle.AnyNode
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
		node:  func(name string) treadle.AnyNode { return treadle.NewNode(name, fn) },
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

// wrapModel wraps call in the middleware's WrapModel functions.
func wrapModel(all []*Middleware, call ModelFunc) ModelFunc {
	for _, m := range slices.Backward(all) {
		if wrap, next := m.WrapModel, call; wrap != nil {
			call = func(ctx context.Context, c ModelCall) (llm.Message, error) { return wrap(ctx, c, next) }
		}
	}
	return call
}

// wrapTool wraps call in the middleware's WrapTool functions.
func wrapTool(all []*Middleware, call ToolFunc) ToolFunc {
	for _, m := range slices.Backward(all) {
		if wrap, next := m.WrapTool, call; wrap != nil {
			call = func(ctx context.Context, c ToolCall) (any, error) { return wrap(ctx, c, next) }
		}
	}
	return call
}
