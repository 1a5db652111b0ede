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
	"github.com/treadle-go/treadle/internal/near"
	"github.com/treadle-go/treadle/internal/pregel"
	"github.com/treadle-go/treadle/llm"
)

// ToolOptions configures tool calls.
type ToolOptions struct {
	// OnToolError handles a tool's error. It returns the text of the result for the
	// model, or an error that fails the run. Nil means [ReturnToModel]. It is not
	// called for interrupts, cancellation, or failures of the run itself, such as
	// those of its saver.
	OnToolError func(ctx context.Context, call ToolCall, err error) (string, error)
	// ToolConcurrency is the maximum number of calls of a message that run at the
	// same time; 0 means no limit.
	ToolConcurrency int
}

// ReturnToModel returns the error to the model as the result of the call. The
// result contains the error's text, or the text returned by the error's method
// ForModel() string, if it has one. The stack of a panic goes to the graph's Logger.
func ReturnToModel(_ context.Context, _ ToolCall, err error) (string, error) {
	if bad, ok := errors.AsType[*llm.ArgumentsError](err); ok {
		return bad.Error(), nil // already written for the model
	}
	text := err.Error()
	if e, ok := errors.AsType[*llm.ToolError](err); ok && e.Stack != nil {
		text = fmt.Sprintf("tool %s: %v", e.Tool, e.Err) // the model does not need the stack trace
	} else if told, ok := errors.AsType[interface {
		error
		ForModel() string
	}](err); ok {
		text = told.ForModel()
	}
	return fmt.Sprintf("Error: %s\n Please fix your mistakes.", text), nil
}

// RaiseToolErrors fails the run with the tool's error. Only invalid arguments are
// returned to the model, which can correct them.
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

// Tools returns a node that runs the calls of the last AI message that have no
// result yet, for use in your own graph:
//
//	treadle.AddNode(b, "tools", agent.Tools[State](tools, nil))
//	treadle.AddBranch(b, "model", agent.ToolsCondition("tools", treadle.End), "tools", treadle.End)
//
// The calls run concurrently, and the results are in the order of the calls. A tool
// may return a [treadle.Command] or a value for [llm.ToolResult]. S is the graph's
// state, which tools can read with [llm.StateFrom]. If a tool is invalid, the first
// run fails.
func Tools[S any](tools []*llm.Tool, opts *ToolOptions) func(context.Context, S) ([]treadle.Command[any], error) {
	if opts == nil {
		opts = &ToolOptions{}
	}
	box, err := newToolbox(tools, opts, nil)
	messages, noHistory := historyOf[S]()
	if err = errors.Join(err, noHistory); err != nil {
		return func(context.Context, S) ([]treadle.Command[any], error) { return nil, err }
	}
	return func(ctx context.Context, s S) ([]treadle.Command[any], error) {
		history := messages.of(s)
		if lastAI(history) < 0 {
			return nil, errors.New("agent: tool node: conversation has no AI message")
		}
		return box.run(ctx, s, history)
	}
}

// ToolsCondition returns a branch to the node tools if the last message has tool
// calls, and to the node otherwise if it has none.
func ToolsCondition(tools, otherwise string) func(context.Context, llm.Chat) (treadle.Goto, error) {
	return func(_ context.Context, c llm.Chat) (treadle.Goto, error) {
		switch n := len(c.Messages); {
		case n == 0:
			return nil, errors.New("agent: ToolsCondition: empty conversation")
		case len(c.Messages[n-1].ToolCalls) > 0:
			return treadle.To(tools), nil
		}
		return treadle.To(otherwise), nil
	}
}

// toolbox runs tool calls.
type toolbox struct {
	*ToolOptions
	tools    map[string]*llm.Tool
	call     ToolFunc
	runnable bool // see the function runnable

	beforeNested []beforeNestedCall
}

type beforeNestedCall = func(context.Context, ToolCall) (ToolCall, *llm.Message, error)

func newToolbox(tools []*llm.Tool, opts *ToolOptions, middleware []*Middleware) (*toolbox, error) {
	box := &toolbox{ToolOptions: opts, tools: map[string]*llm.Tool{}}
	if opts.ToolConcurrency < 0 {
		return nil, fmt.Errorf("agent: invalid ToolConcurrency %d: want 1 or more, or 0 for no limit", opts.ToolConcurrency)
	}
	for i, t := range tools {
		if t == nil {
			return nil, fmt.Errorf("agent: nil tool at index %d", i)
		}
		if err := t.Check(); err != nil {
			return nil, fmt.Errorf("agent: %w", err)
		}
		if box.tools[t.Name] != nil {
			return nil, fmt.Errorf("agent: duplicate tool name %q", t.Name)
		}
		box.tools[t.Name] = t
	}
	box.runnable = runnable(tools, middleware)
	for _, m := range middleware {
		if m != nil && m.BeforeNestedCall != nil {
			box.beforeNested = append(box.beforeNested, m.BeforeNestedCall)
		}
	}
	box.call = wrapTool(slices.DeleteFunc(slices.Clone(middleware), func(m *Middleware) bool { return m == nil }), box.invoke)
	return box, nil
}

// runnable reports whether the agent runs at least one tool itself, or a wrapper may
// handle calls.
func runnable(tools []*llm.Tool, middleware []*Middleware) bool {
	return slices.ContainsFunc(tools, func(t *llm.Tool) bool { return t.Run != nil }) ||
		slices.ContainsFunc(middleware, func(m *Middleware) bool { return m != nil && m.WrapTool != nil })
}

// due returns the calls to run: those of the last AI message that have no result
// yet and that the provider does not run.
func (b *toolbox) due(history llm.Messages) []llm.ToolCall {
	return slices.DeleteFunc(pending(history), func(c llm.ToolCall) bool { return b.providers(c.Name) })
}

// isDue reports whether any calls remain to run.
func (b *toolbox) isDue(history llm.Messages) bool {
	i := lastAI(history)
	return i >= 0 && slices.ContainsFunc(history[i].ToolCalls, func(c llm.ToolCall) bool {
		return !b.providers(c.Name) && !answered(history[i+1:], c.ID)
	})
}

// providers reports whether the provider runs the tool.
func (b *toolbox) providers(name string) bool {
	t := b.tools[name]
	return t != nil && t.Run == nil
}

// direct reports whether a result after the last AI message ends the agent, because
// its tool has ReturnDirect set.
func (b *toolbox) direct(history llm.Messages) bool {
	for _, m := range history[lastAI(history)+1:] {
		if t := b.tools[m.Name]; m.Role == llm.RoleTool && t != nil && t.ReturnDirect && m.Status != llm.StatusError {
			return true
		}
	}
	return false
}

// answered reports whether the calls of the last AI message have results that the
// model has not seen yet.
func (b *toolbox) answered(history llm.Messages) bool {
	n := len(history)
	return n > 0 && history[n-1].Role == llm.RoleTool && lastAI(history) >= 0 && !b.direct(history)
}

// run runs the calls that are due and returns their results as commands, in order.
func (b *toolbox) run(ctx context.Context, state any, history llm.Messages) ([]treadle.Command[any], error) {
	ctx = llm.WithState(ctx, state)
	if _, ok := NestingFrom(ctx); ok { // of the agent that this agent works for
		ctx = context.WithValue(ctx, nestingKey{}, (*Nesting)(nil))
	}
	calls := b.due(history)
	results, err := b.runAll(ctx, calls)
	if err != nil {
		return nil, err
	}
	return combine(history, calls, results)
}

// runAll runs a single call directly and several calls as separate tasks, so that
// the results of finished calls are kept while another call interrupts, fails, or
// is killed.
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
		// A failure takes precedence over an interrupt, which can be raised again.
		if err != nil && (failed == nil || treadle.IsPause(failed) && !treadle.IsPause(err)) {
			failed = err
		}
		results[i] = r
	}
	return results, failed
}

// hidden excludes the results of calls from update streams, because the node's
// update already contains them.
var hidden = &pregel.NodeSpec{Tags: []string{treadle.TagHidden}}

// resultOf returns the result of a new or recorded call.
func resultOf(made pregel.CallResult, err error) (result, error) {
	if err != nil {
		return result{}, err
	}
	if r, ok := made.Made.(*result); ok {
		return *r, nil
	}
	var r result
	if err := json.Unmarshal(made.Raw, &r); err != nil {
		return result{}, fmt.Errorf("agent: decode recorded tool result %s: %w", made.Raw, err)
	}
	return r, nil
}

// limited returns a function that runs a call once a slot is free; nil means no
// limit.
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

// one runs a call and returns its result.
func (b *toolbox) one(ctx context.Context, call llm.ToolCall) (result, error) {
	inner := &nest{box: b}
	_, r, err := b.through(context.WithValue(ctx, nestKey{}, inner), ToolCall{ToolCall: call, Tool: b.tools[call.Name]})
	inner.end()
	if err == nil && len(inner.started) > 0 {
		err = inner.extend(ctx, call, &r)
	}
	return r, err
}

// through makes a call through the wrappers. It returns the value that they return and
// the result made of it.
func (b *toolbox) through(ctx context.Context, c ToolCall) (any, result, error) {
	call := c.ToolCall
	v, err := b.call(ctx, c)
	if err == nil {
		r, err := read(ctx, call, v)
		return v, r, err
	}
	if final := treadle.Propagate(ctx, err); final != nil {
		return nil, result{}, final
	}
	answer := b.OnToolError
	if answer == nil {
		answer = ReturnToModel
	}
	text, failed := answer(ctx, c, err)
	if failed != nil {
		return nil, result{}, failed
	}
	if e, ok := errors.AsType[*llm.ToolError](err); ok && e.Stack != nil {
		treadle.LoggerFrom(ctx).ErrorContext(ctx, "tool panicked", "tool", e.Tool, "call", e.CallID, "error", err, "stack", string(e.Stack))
	}
	treadle.Emit(ctx, ToolFailed{call.Name, call.ID, err.Error()})
	m := llm.Message{Content: text, Status: llm.StatusError}
	r, err := read(ctx, call, m)
	return m, r, err
}

// invoke runs the tool. It is the innermost ToolFunc.
func (b *toolbox) invoke(ctx context.Context, c ToolCall) (any, error) {
	if c.Tool == nil {
		return b.unknown(c.Name), nil
	}
	return c.Tool.Call(ctx, c.ToolCall)
}

// maxListed is the maximum number of tools that a message lists by name.
const maxListed = 50

// unknown returns the result of a call to an unknown tool.
func (b *toolbox) unknown(name string) llm.Message {
	text := fmt.Sprintf("Error: %s is not a valid tool", name)
	names := slices.Sorted(maps.Keys(b.tools))
	if len(names) <= maxListed {
		text += fmt.Sprintf(", try one of [%s].", strings.Join(names, ", "))
	} else if hint := near.Hint(shorten(name, 100), names); hint != "" {
		text += hint
	} else {
		text += "."
	}
	return llm.Message{Status: llm.StatusError, Content: text}
}

// result is the result of a call as recorded: a message for the model, or a command
// whose update contains one.
type result struct {
	Message *llm.Message `json:"message,omitempty"`
	Command *command     `json:"command,omitempty"`
	// Nested lists the updates of nested calls, in the order in which the calls ended.
	Nested []map[string]json.RawMessage `json:"nested,omitempty"`
}

// command is a [treadle.Command] that can be recorded as JSON.
type command struct {
	Update written      `json:"update,omitempty"`
	Goto   treadle.Goto `json:"goto,omitempty"`
	Parent bool         `json:"parent,omitempty"`
}
