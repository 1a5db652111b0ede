package agent

import (
	"context"
	"slices"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/llm"
)

// Middleware changes what an agent does. All fields but Name are optional.
//
// The four hooks are nodes of the agent's graph, named <Name>.before_agent and so
// on. Their writes are checkpointed, and they may ask questions. Hooks before the
// agent and the model run in the order of the middleware, hooks after them in
// reverse.
//
// WrapModel is called for each call of the model, WrapTool for each call of a tool.
// They call next to make the call. They may change the call, call next several
// times, or not call it. The first middleware is the outermost.
type Middleware struct {
	// Name names the nodes of the hooks: letters, digits, _ and -. If several middleware
	// of an agent have the same name, their nodes get a number: memory, memory_2.
	Name string

	BeforeAgent *Hook // once per run
	BeforeModel *Hook // before each call of the model
	AfterModel  *Hook // after each call of the model
	AfterAgent  *Hook // once per run, when it has ended

	WrapModel func(ctx context.Context, call ModelCall, next ModelFunc) (llm.Message, error)
	WrapTool  func(ctx context.Context, call ToolCall, next ToolFunc) (any, error)

	// Tools are added to those of the agent. They must include tools that WrapModel
	// adds to some calls only: the names in gates and limits are checked against
	// this list when the agent is made.
	Tools []*llm.Tool

	err   error    // a mistake in its options, which the agent's maker is told
	names []string // the tools that its options name
	// response looks through the structured answer, which no hook sees.
	response *redactor
	runs     bool // it sees only calls that the agent runs, not those that the provider does
}

// A ModelFunc calls the model.
type ModelFunc func(ctx context.Context, call ModelCall) (llm.Message, error)

// ModelCall is a call of the model. WrapModel may change its fields, but not the
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

// ToolCall is a call of a tool. [llm.StateFrom] returns the agent's state from its
// context.
type ToolCall struct {
	llm.ToolCall
	Tool *llm.Tool // nil if the agent has no tool of this name
}

// A Hook is a function that runs as a node of the agent's graph. Make it with
// [NewHook].
type Hook struct {
	node  func(name string) treadle.AnyNode
	jumps []Jump
}

// NewHook makes a hook from a function. As for a node, In is a struct of the fields
// that it reads and Out of those that it writes; see [treadle.AddNode]. Fields that
// the agent's state does not have are private to middleware. They are stored on the
// thread too, so their names must not clash with those of other middleware.
//
// jumps are the places that the hook may jump to. Out must then embed [Detour].
func NewHook[In, Out any](fn func(context.Context, In) (Out, error), jumps ...Jump) *Hook {
	if fn == nil {
		return &Hook{jumps: jumps} // an error of the agent that is made with it
	}
	return &Hook{
		node:  func(name string) treadle.AnyNode { return treadle.NewNode(name, fn) },
		jumps: jumps,
	}
}

// Jump says where an agent goes after a hook. The zero Jump means no jump.
type Jump string

// The places that a hook can jump to.
const (
	JumpModel Jump = "model" // the hooks before the model, then the model
	JumpTools Jump = "tools" // the calls of the last answer that have no result
	JumpEnd   Jump = "end"   // the hooks after the agent, then the end, without a structured answer
)

// Detour is embedded in the Out type of a hook that may jump; see [NewHook].
type Detour struct {
	JumpTo Jump `json:"jump_to" treadle:"ephemeral"`
}

// jumping is what is read after a hook that may jump.
type jumping struct {
	Detour
	Messages llm.Messages
}

// wrapModel puts the middleware around the model.
func wrapModel(all []*Middleware, call ModelFunc) ModelFunc {
	for _, m := range slices.Backward(all) {
		if wrap, next := m.WrapModel, call; wrap != nil {
			call = func(ctx context.Context, c ModelCall) (llm.Message, error) { return wrap(ctx, c, next) }
		}
	}
	return call
}

// wrapTool puts the middleware around the tools.
func wrapTool(all []*Middleware, call ToolFunc) ToolFunc {
	for _, m := range slices.Backward(all) {
		if wrap, next := m.WrapTool, call; wrap != nil {
			call = func(ctx context.Context, c ToolCall) (any, error) { return wrap(ctx, c, next) }
		}
	}
	return call
}
