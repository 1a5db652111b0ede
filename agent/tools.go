package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/internal/observe"
	"github.com/treadle-go/treadle/internal/pregel"
	"github.com/treadle-go/treadle/llm"
)

// ToolOptions say how tools are called.
type ToolOptions struct {
	// OnToolError handles the error of a tool. It returns the text of the result for
	// the model, or an error, with which the run fails. Nil means [ReturnToModel].
	// It is not called for questions, cancellation and failures of the run itself,
	// such as those of its saver.
	OnToolError func(ctx context.Context, call ToolCall, err error) (string, error)
	// ToolConcurrency is how many calls of an answer may run at the same time; 0
	// means no bound.
	ToolConcurrency int
}

// ReturnToModel returns the error to the model as the result of the call. The result
// has the error's text, or that of its method ForModel() string if it has one.
func ReturnToModel(_ context.Context, _ ToolCall, err error) (string, error) {
	if bad, ok := errors.AsType[*llm.ArgumentsError](err); ok {
		return bad.Error(), nil // written for the model already
	}
	text := err.Error()
	if e, ok := errors.AsType[*llm.ToolError](err); ok && e.Stack != nil {
		text = fmt.Sprintf("tool %s: %v", e.Tool, e.Err) // where it panicked is not the model's business
	} else if told, ok := errors.AsType[interface {
		error
		ForModel() string
	}](err); ok {
		text = told.ForModel()
	}
	return fmt.Sprintf("Error: %s\n Please fix your mistakes.", text), nil
}

// RaiseToolErrors makes the run fail with the error of a tool. Only wrong arguments
// are returned to the model, which can correct them.
func RaiseToolErrors(ctx context.Context, call ToolCall, err error) (string, error) {
	if _, ok := errors.AsType[*llm.ArgumentsError](err); ok {
		return ReturnToModel(ctx, call, err)
	}
	return "", err
}

// ToolFailed is the custom event for a call whose error was returned to the model.
type ToolFailed struct {
	Tool   string `json:"tool"`
	CallID string `json:"tool_call_id"`
	Error  string `json:"error"`
}

// Tools returns a node that runs the calls of the last answer that have no result
// yet, for use in your own graph:
//
//	treadle.AddNode(b, "tools", agent.Tools[State](tools, nil))
//	treadle.AddBranch(b, "model", agent.ToolsCondition("tools", treadle.End), "tools", treadle.End)
//
// The calls run at the same time, and the results are in the order of the calls. A
// tool may return a [treadle.Command] or a value for [llm.ToolResult]. S is the
// graph's state, which the tools can read with [llm.StateFrom]. If a tool is
// invalid, the first run fails.
func Tools[S any](tools []*llm.Tool, o *ToolOptions) func(context.Context, S) ([]treadle.Command[any], error) {
	if o == nil {
		o = &ToolOptions{}
	}
	box, err := newToolbox(tools, o, nil)
	messages, noHistory := historyOf[S]()
	if err = errors.Join(err, noHistory); err != nil {
		return func(context.Context, S) ([]treadle.Command[any], error) { return nil, err }
	}
	return func(ctx context.Context, s S) ([]treadle.Command[any], error) {
		history := messages.of(s)
		if lastAI(history) < 0 {
			return nil, errors.New("agent: the tool node finds no AI message in the conversation")
		}
		return box.run(ctx, s, history)
	}
}

// ToolsCondition returns a branch that goes to the node tools if the last message
// has tool calls, and else to the node otherwise.
func ToolsCondition(tools, otherwise string) func(context.Context, llm.Chat) (treadle.Goto, error) {
	return func(_ context.Context, c llm.Chat) (treadle.Goto, error) {
		switch n := len(c.Messages); {
		case n == 0:
			return nil, errors.New("agent: ToolsCondition: the conversation is empty")
		case len(c.Messages[n-1].ToolCalls) > 0:
			return treadle.To(tools), nil
		}
		return treadle.To(otherwise), nil
	}
}

// toolbox runs calls.
type toolbox struct {
	*ToolOptions
	tools    map[string]*llm.Tool
	call     ToolFunc
	runnable bool // there is a tool that is ours to run, or a wrapper that may know one
}

func newToolbox(tools []*llm.Tool, o *ToolOptions, middleware []*Middleware) (*toolbox, error) {
	box := &toolbox{ToolOptions: o, tools: map[string]*llm.Tool{}}
	if o.ToolConcurrency < 0 {
		return nil, fmt.Errorf("agent: ToolConcurrency is %d: want at least 1, or 0 for no bound", o.ToolConcurrency)
	}
	for i, t := range tools {
		if t == nil {
			return nil, fmt.Errorf("agent: tool %d is nil", i)
		}
		if err := t.Check(); err != nil {
			return nil, fmt.Errorf("agent: %w", err)
		}
		if box.tools[t.Name] != nil {
			return nil, fmt.Errorf("agent: two tools are named %q", t.Name)
		}
		box.tools[t.Name] = t
		box.runnable = box.runnable || t.Run != nil
	}
	box.runnable = box.runnable || slices.ContainsFunc(middleware, func(m *Middleware) bool { return m != nil && m.WrapTool != nil })
	box.call = wrapTool(slices.DeleteFunc(slices.Clone(middleware), func(m *Middleware) bool { return m == nil }), box.invoke)
	return box, nil
}

// due are the calls to run: those of the last answer that have no result yet and
// are not the provider's.
func (b *toolbox) due(history llm.Messages) []llm.ToolCall {
	return slices.DeleteFunc(pending(history), func(c llm.ToolCall) bool { return b.providers(c.Name) })
}

// isDue reports whether there are calls to run.
func (b *toolbox) isDue(history llm.Messages) bool {
	i := lastAI(history)
	return i >= 0 && slices.ContainsFunc(history[i].ToolCalls, func(c llm.ToolCall) bool {
		return !b.providers(c.Name) && !answered(history[i+1:], c.ID)
	})
}

// providers reports whether a tool is one that the provider runs.
func (b *toolbox) providers(name string) bool {
	t := b.tools[name]
	return t != nil && t.Run == nil
}

// direct reports whether a result since the last answer is the agent's own.
func (b *toolbox) direct(history llm.Messages) bool {
	for _, m := range history[lastAI(history)+1:] {
		if t := b.tools[m.Name]; m.Role == llm.RoleTool && t != nil && t.ReturnDirect && m.Status != llm.StatusError {
			return true
		}
	}
	return false
}

// answered reports whether the calls of the last answer have results that the
// model is to see.
func (b *toolbox) answered(history llm.Messages) bool {
	n := len(history)
	return n > 0 && history[n-1].Role == llm.RoleTool && lastAI(history) >= 0 && !b.direct(history)
}

// run runs the calls that are due and returns what they say, in their order.
func (b *toolbox) run(ctx context.Context, state any, history llm.Messages) ([]treadle.Command[any], error) {
	ctx = llm.WithState(ctx, state)
	calls := b.due(history)
	results, err := b.runAll(ctx, calls)
	if err != nil {
		return nil, err
	}
	return combine(history, calls, results)
}

// runAll runs a single call here and several as tasks of their own, so that what
// has finished is kept while another one asks, fails or is killed.
func (b *toolbox) runAll(ctx context.Context, calls []llm.ToolCall) ([]result, error) {
	if len(calls) == 1 {
		r, err := b.one(ctx, calls[0])
		return []result{r}, err
	}
	var slots chan struct{}
	if b.ToolConcurrency > 0 {
		slots = make(chan struct{}, b.ToolConcurrency)
	}
	run := b.limited(slots)
	spec := pregel.CallSpec{Options: hidden, Kept: true, Fn: func(ctx context.Context, in any) (any, error) {
		r, err := run(ctx, in.(llm.ToolCall))
		return &r, err
	}}
	futures := make([]*pregel.Future, len(calls))
	for i, call := range calls {
		spec.Name, spec.In = call.Name, call
		futures[i] = pregel.StartCall(ctx, &spec)
	}
	results := make([]result, len(calls))
	var failed error
	for i, f := range futures {
		r, err := resultOf(f.Wait(ctx))
		// A failure counts more than a question, which can be asked again.
		if err != nil && (failed == nil || treadle.IsPause(failed) && !treadle.IsPause(err)) {
			failed = err
		}
		results[i] = r
	}
	return results, failed
}

// hidden keeps the results of calls out of the streams of updates: they are in the
// node's.
var hidden = &pregel.NodeSpec{Tags: []string{treadle.TagHidden}}

// resultOf returns the result of a call that was made now, or a recorded one.
func resultOf(made pregel.CallResult, err error) (result, error) {
	if err != nil {
		return result{}, err
	}
	if r, ok := made.Made.(*result); ok {
		return *r, nil
	}
	var r result
	if err := json.Unmarshal(made.Raw, &r); err != nil {
		return result{}, fmt.Errorf("agent: the recorded result %s of a tool is unreadable: %w", made.Raw, err)
	}
	return r, nil
}

// limited runs calls when there is a slot for them; nil is no limit.
func (b *toolbox) limited(slots chan struct{}) func(context.Context, llm.ToolCall) (result, error) {
	if slots == nil {
		return b.one
	}
	return func(ctx context.Context, call llm.ToolCall) (result, error) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
			return b.one(ctx, call)
		case <-ctx.Done():
			return result{}, context.Cause(ctx)
		}
	}
}

// one runs a call and reads its result.
func (b *toolbox) one(ctx context.Context, call llm.ToolCall) (result, error) {
	c := ToolCall{ToolCall: call, Tool: b.tools[call.Name]}
	v, err := b.call(ctx, c)
	if err == nil {
		return read(call, v)
	}
	if treadle.IsPause(err) || ctx.Err() != nil || pregel.IsFault(err) {
		return result{}, err
	}
	if failed := observe.Failed(ctx); failed != nil { // whatever the tool made of it
		return result{}, failed
	}
	answer := b.OnToolError
	if answer == nil {
		answer = ReturnToModel
	}
	text, failed := answer(ctx, c, err)
	if failed != nil {
		return result{}, failed
	}
	treadle.Emit(ctx, ToolFailed{call.Name, call.ID, err.Error()})
	return read(call, llm.Message{Content: text, Status: llm.StatusError})
}

// invoke is the innermost ToolFunc.
func (b *toolbox) invoke(ctx context.Context, c ToolCall) (any, error) {
	if c.Tool == nil {
		return b.unknown(c.Name), nil
	}
	return c.Tool.Call(ctx, c.ToolCall)
}

// unknown is the answer to a call of a tool that there is not.
func (b *toolbox) unknown(name string) llm.Message {
	return llm.Message{Status: llm.StatusError, Content: fmt.Sprintf("Error: %s is not a valid tool, try one of [%s].",
		name, strings.Join(slices.Sorted(maps.Keys(b.tools)), ", "))}
}

// result is what a call gave, as it is recorded: a message for the model, or a
// command whose update holds one.
type result struct {
	Message *llm.Message `json:"message,omitempty"`
	Command *command     `json:"command,omitempty"`
}

// command is a [treadle.Command] whose update is data.
type command struct {
	Update map[string]json.RawMessage `json:"update,omitempty"`
	Goto   treadle.Goto               `json:"goto,omitempty"`
	Parent bool                       `json:"parent,omitempty"`
}
