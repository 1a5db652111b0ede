package agent

import (
	"context"
	"fmt"
	"strings"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/reduce"
)

// Limit bounds how often something is done; 0 means no bound, and at least one of
// the two is set. Run counts from the agent's last input, Thread over the whole
// thread.
type Limit struct {
	Run, Thread int
	// Over is what happens when the bound is reached.
	Over Over
}

// Over is what an agent does at a limit. The zero value is the limit's own
// default.
type Over string

// What an agent can do at a limit.
const (
	OverEnd  Over = "end"      // end with a message that says why
	OverSkip Over = "continue" // answer the calls that are too many with an error, and go on
	OverFail Over = "error"    // fail with a [*LimitError]
)

// LimitError says which limit is reached. The thread is as it was before the call
// that was not made, and can go on with a higher limit.
type LimitError struct {
	What   string // such as "model calls"
	Scope  string // "run" or "thread"
	Used   float64
	Budget float64
}

// Error names the limit.
func (e *LimitError) Error() string {
	return fmt.Sprintf("agent: the %s limit of %s is reached (%g of %g)", e.Scope, e.What, e.Used, e.Budget)
}

// reached is the first limit that is reached, or nil.
func (l Limit) reached(what string, run, thread int) *LimitError {
	switch {
	case l.Thread > 0 && thread >= l.Thread:
		return &LimitError{what, "thread", float64(thread), float64(l.Thread)}
	case l.Run > 0 && run >= l.Run:
		return &LimitError{what, "run", float64(run), float64(l.Run)}
	}
	return nil
}

// check reports what is wrong with a limit.
func (l Limit) check(allowed ...Over) error {
	return bounds(l.Over, allowed, map[string]float64{"Run": float64(l.Run), "Thread": float64(l.Thread)})
}

// stop is what a hook writes at a limit.
func stop(over Over, reached *LimitError, results ...llm.Message) (halted, error) {
	switch over {
	case OverFail:
		return halted{}, reached
	case OverEnd, "":
	default:
		return halted{}, fmt.Errorf("%w, and Over is %q: want %s or %s", reached, over, OverEnd, OverFail)
	}
	text := strings.TrimPrefix(reached.Error(), "agent: t")
	notice := llm.Assistant("T" + text + ".")
	return halted{Detour{JumpEnd}, append(results, notice)}, nil
}

// halted ends the agent, or, if it is zero, lets it go on.
type halted struct {
	Detour
	Messages llm.Messages
}

// LimitModelCalls bounds the calls of the model. By default the agent ends with
// a message that says so ([OverEnd]); the other choice is [OverFail].
func LimitModelCalls(l Limit) *Middleware {
	return &Middleware{
		Name:        "limit_model_calls",
		err:         l.check(OverEnd, OverFail),
		BeforeAgent: NewHook(func(context.Context, struct{}) (runCalls, error) { return runCalls{}, nil }),
		BeforeModel: NewHook(func(_ context.Context, c modelCalls) (halted, error) {
			if reached := l.reached("model calls", c.RunModelCalls, c.ThreadModelCalls); reached != nil {
				return stop(l.Over, reached)
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

// LimitToolCalls bounds the calls of a tool, or of all tools together if tool is
// "". The agent must have a tool of that name. By default the calls that are too many are answered with an error and the
// agent goes on ([OverSkip]).
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
		Name: name, err: l.check(OverSkip, OverEnd, OverFail), names: names, runs: true,
		BeforeAgent: NewHook(func(context.Context, struct{}) (runToolCalls, error) {
			return runToolCalls{reduce.Map[string, int]{t.key: 0}}, nil
		}),
		AfterModel: NewHook(t.check, JumpEnd),
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
}

type toolCallsRead struct {
	toolCalls
	Messages llm.Messages
}

type toolCallsWritten struct {
	halted
	toolCalls
}

// check lets through as many of the calls as the limits allow.
func (t toolLimit) check(_ context.Context, in toolCallsRead) (*toolCallsWritten, error) {
	run, thread := in.RunToolCalls[t.key], in.ThreadToolCalls[t.key]
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
	out := toolCallsWritten{toolCalls: toolCalls{runToolCalls{reduce.Map[string, int]{t.key: run}}, reduce.Map[string, int]{t.key: thread}}}
	switch {
	case reached == nil && len(due) == 0:
		return nil, nil
	case reached == nil:
	case t.Over == "" || t.Over == OverSkip:
		out.Messages = results
	default:
		// Nothing of this answer runs, so its calls do not count.
		var err error
		out.toolCalls = in.toolCalls
		out.halted, err = stop(t.Over, reached, t.refuseAll(due)...)
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
