package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/reduce"
)

// Limit limits a number of calls. Run counts since the agent's last input, Thread
// over the whole thread. 0 means no limit; at least one of the two must be set.
type Limit struct {
	Run, Thread int
	// OnLimit controls what the agent does when the limit is reached.
	OnLimit OnLimit
}

// OnLimit controls what an agent does when a limit is reached. The default depends
// on the limit.
type OnLimit string

// Values of OnLimit.
const (
	OnLimitEnd  OnLimit = "end"      // end with a message that names the limit
	OnLimitSkip OnLimit = "continue" // answer further calls with an error, and continue
	OnLimitFail OnLimit = "error"    // fail with a [*LimitError]
)

// LimitError reports the limit that was reached. The rejected call changed nothing,
// so the thread can be continued with a higher limit.
type LimitError struct {
	What   string // such as "model calls"
	Scope  string // "run" or "thread"
	Used   float64
	Budget float64
}

// Error returns a message that names the limit.
func (e *LimitError) Error() string {
	return fmt.Sprintf("agent: %s limit of %s reached (%g of %g)", e.Scope, e.What, e.Used, e.Budget)
}

// reached returns the first reached limit, or nil.
func (l Limit) reached(what string, run, thread int) *LimitError {
	switch {
	case l.Thread > 0 && thread >= l.Thread:
		return &LimitError{what, "thread", float64(thread), float64(l.Thread)}
	case l.Run > 0 && run >= l.Run:
		return &LimitError{what, "run", float64(run), float64(l.Run)}
	}
	return nil
}

// check reports invalid settings.
func (l Limit) check(allowed ...OnLimit) error {
	return bounds(l.OnLimit, allowed, map[string]float64{"Run": float64(l.Run), "Thread": float64(l.Thread)})
}

// stop returns what a hook writes when a limit is reached.
func stop(action OnLimit, reached *LimitError, results ...llm.Message) (halted, error) {
	switch action {
	case OnLimitFail:
		return halted{}, reached
	case OnLimitEnd, "":
	default:
		return halted{}, fmt.Errorf("%w, and OnLimit %q is invalid: want %s or %s", reached, action, OnLimitEnd, OnLimitFail)
	}
	notice := llm.Assistant(fmt.Sprintf("The %s limit of %s is reached (%g of %g).", reached.Scope, reached.What, reached.Used, reached.Budget))
	return halted{Detour{JumpEnd}, append(results, notice)}, nil
}

// halted ends the agent, or lets it continue if it is zero.
type halted struct {
	Detour
	Messages llm.Messages
}

// LimitModelCalls limits the number of model calls. OnLimit is [OnLimitEnd], the
// default, or [OnLimitFail].
func LimitModelCalls(l Limit) *Middleware {
	return &Middleware{
		Name:        "limit_model_calls",
		Check:       invalid(l.check(OnLimitEnd, OnLimitFail)),
		BeforeAgent: NewHook(func(context.Context, struct{}) (runCalls, error) { return runCalls{}, nil }),
		BeforeModel: NewHook(func(_ context.Context, c modelCalls) (halted, error) {
			if reached := l.reached("model calls", c.RunModelCalls, c.ThreadModelCalls); reached != nil {
				return stop(l.OnLimit, reached)
			}
			return halted{}, nil
		}, JumpEnd),
		AfterModel: NewHook(func(_ context.Context, c modelCalls) (modelCalls, error) {
			return modelCalls{runCalls{c.RunModelCalls + 1}, c.ThreadModelCalls + 1}, nil
		}),
	}
}

type runCalls struct {
	RunModelCalls int `json:"run_model_call_count"`
}

type modelCalls struct {
	runCalls
	ThreadModelCalls int `json:"thread_model_call_count"`
}

// LimitToolCalls limits the number of calls of a tool, or of all tools together if
// tool is "". The agent must have a tool of that name. OnLimit defaults to
// [OnLimitSkip].
//
// Calls that a tool makes with [Calls] count too. Above the limit, they get an error as
// their result, or fail the run with [OnLimitFail]. If a message calls such a tool several
// times, these calls share evenly what is left.
func LimitToolCalls(tool string, l Limit) *Middleware {
	t := toolLimit{tool: tool, Limit: l, key: tool, what: tool + " calls"}
	name := "limit_tool_calls"
	if tool == "" {
		t.key, t.what = "__all__", "tool calls"
	} else {
		name += "_" + tool
	}
	var names []string
	if tool != "" {
		names = []string{tool}
	}
	return &Middleware{
		Name: name,
		Check: func(s Setup) error {
			return errors.Join(l.check(OnLimitSkip, OnLimitEnd, OnLimitFail), s.RequireOwnTools(names...))
		},
		BeforeAgent: NewHook(func(_ context.Context, in toolCalls) (*toolCalls, error) {
			left, zero := t.nestedCount(in.NestedToolCalls)
			out := &toolCalls{runToolCalls: runToolCalls{reduce.Map[string, int]{t.key: 0}}}
			if left > 0 {
				out.ThreadToolCalls, out.NestedToolCalls = reduce.Map[string, int]{t.key: in.ThreadToolCalls[t.key] + left}, zero
			}
			return out, nil
		}),
		AfterModel:       NewHook(t.check, JumpEnd),
		WrapTool:         t.wrap,
		BeforeNestedCall: t.beforeNested,
		Fields:           NewFields[toolCallsRead](),
	}
}

type toolLimit struct {
	Limit
	tool, key, what string
}

type runToolCalls struct {
	RunToolCalls reduce.Map[string, int] `json:"run_tool_call_count"`
}

type toolCalls struct {
	runToolCalls
	ThreadToolCalls reduce.Map[string, int] `json:"thread_tool_call_count"`
	// NestedToolCalls are the nested calls that the other counts do not include yet, by
	// limit and place of the calling tool's call in its message.
	NestedToolCalls reduce.Map[string, int] `json:"nested_tool_call_count"`
}

type toolCallsRead struct {
	toolCalls
	Messages llm.Messages
}

type toolCallsWritten struct {
	halted
	toolCalls
}

// check admits as many of the calls as the limits allow.
func (t toolLimit) check(_ context.Context, in toolCallsRead) (*toolCallsWritten, error) {
	nested, zero := t.nestedCount(in.NestedToolCalls)
	run, thread := in.RunToolCalls[t.key]+nested, in.ThreadToolCalls[t.key]+nested
	var results llm.Messages
	var reached *LimitError
	due := pending(in.Messages)
	for _, call := range due {
		if t.tool != "" && call.Name != t.tool {
			continue
		}
		if over := t.reached(t.what, run, thread); over != nil {
			reached = over
			results = append(results, t.refuse(call))
			continue
		}
		run, thread = run+1, thread+1
	}
	counted := func(run, thread int) toolCalls {
		return toolCalls{runToolCalls{reduce.Map[string, int]{t.key: run}}, reduce.Map[string, int]{t.key: thread}, zero}
	}
	out := toolCallsWritten{toolCalls: counted(run, thread)}
	switch {
	case reached == nil && len(due) == 0 && nested == 0:
		return nil, nil
	case reached == nil:
	case t.OnLimit == "" || t.OnLimit == OnLimitSkip:
		out.Messages = results
	default:
		// No call of this message runs, so none counts.
		var err error
		out.toolCalls = counted(in.RunToolCalls[t.key]+nested, in.ThreadToolCalls[t.key]+nested)
		out.halted, err = stop(t.OnLimit, reached, t.refuseAll(due)...)
		return &out, err
	}
	return &out, nil
}

func (t toolLimit) refuse(call llm.ToolCall) llm.Message {
	text := fmt.Sprintf("Tool call limit exceeded. Do not call '%s' again.", call.Name)
	if t.tool == "" {
		text = "Tool call limit exceeded. Do not make additional tool calls."
	}
	return llm.ToolResult(call, llm.Message{Content: text, Status: llm.StatusError})
}

func (t toolLimit) refuseAll(calls []llm.ToolCall) llm.Messages {
	var out llm.Messages
	for _, call := range calls {
		if t.tool == "" || call.Name == t.tool {
			out = append(out, t.refuse(call))
		} else {
			out = append(out, llm.ToolResult(call, llm.Message{Content: "The call was not made: the agent has ended.", Status: llm.StatusError}))
		}
	}
	return out
}

// nestedCount returns the number of nested calls that are not counted yet, and the update that
// sets it to zero.
func (t toolLimit) nestedCount(in reduce.Map[string, int]) (n int, zero reduce.Map[string, int]) {
	for key, count := range in {
		if strings.HasPrefix(key, t.key+"/") && count > 0 {
			if zero == nil {
				zero = reduce.Map[string, int]{}
			}
			n, zero[key] = n+count, 0
		}
	}
	return n, zero
}

func (t toolLimit) counts(call llm.ToolCall) bool { return t.tool == "" || call.Name == t.tool }

// share returns the number of nested calls that a tool call may make, the place of the call in
// its message, and the limit that it then reaches.
func (t toolLimit) share(in toolCallsRead, parent llm.ToolCall) (n, place int, reached *LimitError) {
	run, thread := in.RunToolCalls[t.key], in.ThreadToolCalls[t.key]
	n = math.MaxInt
	if t.Run > 0 {
		n = max(0, t.Run-run)
	}
	if t.Thread > 0 {
		n = min(n, max(0, t.Thread-thread))
	}
	reached = t.reached(t.what, run+n, thread+n)
	var of int // calls of the same tool
	if i := lastAI(in.Messages); i >= 0 {
		for _, call := range in.Messages[i].ToolCalls {
			if call.ID == parent.ID {
				place = of
			}
			if call.Name == parent.Name {
				of++
			}
		}
	}
	if of > 1 {
		extra := 0
		if place < n%of {
			extra = 1
		}
		n = n/of + extra
	}
	return n, place, reached
}

// beforeNested refuses nested calls above the limit.
func (t toolLimit) beforeNested(ctx context.Context, call ToolCall) (ToolCall, *llm.Message, error) {
	about, ok := NestingFrom(ctx)
	if !ok || !t.counts(call.ToolCall) {
		return call, nil, nil
	}
	state, _ := FieldsFrom[toolCallsRead](ctx)
	n, _, reached := t.share(state, about.Parent)
	for _, earlier := range about.Earlier {
		if t.counts(earlier) {
			n--
		}
	}
	switch {
	case n > 0:
		return call, nil, nil
	case t.OnLimit == OnLimitFail && reached != nil:
		return call, nil, reached
	}
	m := t.refuse(call.ToolCall)
	return call, &m, nil
}

// wrap adds the number of the nested calls of a call to its result.
func (t toolLimit) wrap(ctx context.Context, call ToolCall, next ToolFunc) (any, error) {
	out, err := next(ctx, call)
	inner, _ := ctx.Value(nestKey{}).(*nest)
	if _, nested := NestingFrom(ctx); nested || inner == nil {
		return out, err
	}
	inner.mu.Lock()
	defer inner.mu.Unlock()
	made := 0
	for _, c := range inner.started {
		if t.counts(c) {
			made++
		}
	}
	if made > 0 {
		state, _ := FieldsFrom[toolCallsRead](ctx)
		n, place, _ := t.share(state, call.ToolCall)
		raw := fmt.Appendf(nil, `{%q:%d}`, t.key+"/"+strconv.Itoa(place), min(made, n))
		inner.updates = append(inner.updates, map[string]json.RawMessage{"nested_tool_call_count": raw})
	}
	return out, err
}
