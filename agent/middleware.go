package agent

import (
	"context"
	"slices"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/llm"
)

// Middleware changes what an agent does. A field that is nil changes nothing.
//
// The four hooks are nodes of the agent's graph, named <Name>.before_agent and so
// on: what they write is checkpointed, and they may ask questions. Before-hooks
// run in the order of the middleware, after-hooks in reverse. The two wrappers run
// around each call of the model and of a tool, the first middleware outermost;
// they may change the call, call next several times, or not at all.
type Middleware struct {
	// Name tells the middleware of an agent apart: letters, digits, _ and -.
	Name string

	BeforeAgent *Hook // once per run
	BeforeModel *Hook // before each call of the model
	AfterModel  *Hook // after each call of the model
	AfterAgent  *Hook // once per run, when it has ended

	WrapModel func(ctx context.Context, call ModelCall, next ModelFunc) (llm.Message, error)
	WrapTool  func(ctx context.Context, call ToolCall, next ToolFunc) (any, error)

	// Tools are added to those of the agent. A tool that middleware offers in some
	// calls only stands here too: what names tools (gates, limits) is checked
	// against the agent's tools when the agent is made.
	Tools []*llm.Tool

	err   error    // a mistake in its options, which the agent's maker is told
	names []string // the tools that its options name
	// response looks through the structured answer, which no hook sees.
	response *redactor
	runs     bool // it sees only calls that the agent runs, not those that the provider does
}

// A ModelFunc calls the model.
type ModelFunc func(ctx context.Context, call ModelCall) (llm.Message, error)

// ModelCall is a call of the model that is about to be made. It is a value: change
// the copy, but not what its slices hold.
type ModelCall struct {
	Model    llm.Model
	System   string       // in front of the messages, if not empty
	Messages llm.Messages // without the system prompt
	Tools    []*llm.Tool
	Options  []llm.Option // further settings
}

// A ToolFunc calls a tool. What it returns is what [llm.ToolResult] takes or a
// [treadle.Command].
type ToolFunc func(ctx context.Context, call ToolCall) (any, error)

// ToolCall is a call of a tool that is about to be made. The context has the
// agent's state ([llm.StateFrom]).
type ToolCall struct {
	llm.ToolCall
	Tool *llm.Tool // nil if the agent has no tool of this name
}

// A Hook is a function that runs as a node of the agent's graph. Make one with
// [NewHook].
type Hook struct {
	node  func(name string) treadle.AnyNode
	jumps []Jump
}

// NewHook makes a hook of a function with the types of a node: In is a struct of
// the fields that it reads and Out of those that it writes, see
// [treadle.AddNode]. Fields that the agent's state does not have are the
// middleware's own: they are kept on the thread, too, so name them well.
//
// With jumps, Out embeds [Detour], which sends the agent elsewhere instead of
// going on.
func NewHook[In, Out any](fn func(context.Context, In) (Out, error), jumps ...Jump) *Hook {
	if fn == nil {
		return &Hook{jumps: jumps} // an error of the agent that is made with it
	}
	return &Hook{
		node:  func(name string) treadle.AnyNode { return treadle.NewNode(name, fn) },
		jumps: jumps,
	}
}

// Jump says where an agent goes after a hook; the zero Jump goes on.
type Jump string

// The places that a hook can jump to.
const (
	JumpModel Jump = "model" // to the model, with the hooks before it
	JumpTools Jump = "tools" // to the calls of the last answer that have no result
	JumpEnd   Jump = "end"   // to the end, with the hooks after the agent and without a structured answer
)

// Detour is embedded in what a hook writes that may jump.
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
