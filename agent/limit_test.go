package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/catalog"
	"github.com/treadle-go/treadle/llm/llmtest"
)

var echo = llm.NewTool("echo", "Says it again.", func(_ context.Context, in struct {
	Text string `json:"text"`
}) (string, error) {
	return in.Text, nil
})

func say(text string) llm.ToolCall {
	return llmtest.ToolCall("echo", map[string]string{"text": text})
}

func with(m ...*agent.Middleware) *agent.Options {
	return &agent.Options{Tools: []*llm.Tool{echo, getWeather}, Middleware: m, Graph: memory()}
}

func TestModelCallLimitEndsRun(t *testing.T) {
	model := llmtest.Scripted(t, llmtest.Ask(say("a")), llmtest.Ask(say("b")), llmtest.Say("Hello again."))
	thread := made(t, model, with(agent.LimitModelCalls(agent.Limit{Run: 2}))).Thread("1")
	out, err := thread.Run(t.Context(), agent.Ask("go"))
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, out.Messages, "human: go", `ai:  [echo {"text":"a"}]`, "tool: a", `ai:  [echo {"text":"b"}]`, "tool: b",
		"ai: The run limit of model calls is reached (2 of 2).")
	if out, err = thread.Run(t.Context(), agent.Ask("hi")); err != nil || agent.Answer(out) != "Hello again." {
		t.Errorf("the next run = %q, %v", agent.Answer(out), err)
	}
}

func TestThreadModelCallLimitSpansRuns(t *testing.T) {
	model := llmtest.Scripted(t, llmtest.Say("one"), llmtest.Say("two"))
	saver := memory()
	again := func() error { // as after a restart
		o := with(agent.LimitModelCalls(agent.Limit{Thread: 2, OnLimit: agent.OnLimitFail}))
		o.Graph = saver
		_, err := made(t, model, o).Thread("1").Run(t.Context(), agent.Ask("hi"))
		return err
	}
	for range 2 {
		if err := again(); err != nil {
			t.Fatal(err)
		}
	}
	err := again()
	limit, ok := errors.AsType[*agent.LimitError](err)
	if d := cmp.Diff(&agent.LimitError{What: "model calls", Scope: "thread", Used: 2, Budget: 2}, limit); !ok || d != "" {
		t.Errorf("err = %v (-want +got):\n%s", err, d)
	}
}

func TestToolCallLimitRejectsExcessCalls(t *testing.T) {
	model := llmtest.Scripted(t,
		llmtest.Ask(say("a"), llmtest.ToolCall("get_weather", city{"Rome"}), say("b"), say("c")),
		llmtest.Ask(say("d")), llmtest.Say("done"), llmtest.Ask(say("e")), llmtest.Say("done"))
	thread := made(t, model, with(agent.LimitToolCalls("echo", agent.Limit{Run: 2, Thread: 3}))).Thread("1")
	out, err := thread.Run(t.Context(), agent.Ask("go"))
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, out.Messages, "human: go",
		`ai:  [echo {"text":"a"}] [get_weather {"location":"Rome"}] [echo {"text":"b"}] [echo {"text":"c"}]`,
		"tool: Tool call limit exceeded. Do not call 'echo' again. (error)", "tool: a", "tool: It's rainy!", "tool: b",
		`ai:  [echo {"text":"d"}]`, "tool: Tool call limit exceeded. Do not call 'echo' again. (error)",
		"ai: done")
	// The run's count starts over, the thread's does not.
	out, err = thread.Run(t.Context(), agent.Ask("more"))
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, out.Messages[9:], "human: more", `ai:  [echo {"text":"e"}]`, "tool: e", "ai: done")
}

func TestToolCallLimitEndsOrFails(t *testing.T) {
	turns := []llmtest.Turn{llmtest.Ask(say("a")), llmtest.Ask(say("b"), llmtest.ToolCall("get_weather", city{"Rome"}))}
	thread := made(t, llmtest.Scripted(t, turns...), with(agent.LimitToolCalls("echo", agent.Limit{Run: 1, OnLimit: agent.OnLimitEnd}))).Thread("1")
	out, err := thread.Run(t.Context(), agent.Ask("go"))
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, out.Messages[3:], `ai:  [echo {"text":"b"}] [get_weather {"location":"Rome"}]`,
		"tool: Tool call limit exceeded. Do not call 'echo' again. (error)",
		"tool: The call was not made: the agent has ended. (error)",
		"ai: The run limit of echo calls is reached (1 of 1).")

	thread = made(t, llmtest.Scripted(t, turns...), with(agent.LimitToolCalls("", agent.Limit{Run: 2, OnLimit: agent.OnLimitFail}))).Thread("1")
	_, err = thread.Run(t.Context(), agent.Ask("go"))
	if limit, ok := errors.AsType[*agent.LimitError](err); !ok || limit.What != "tool calls" {
		t.Errorf("err = %v", err)
	}
}

func TestToolCallLimitsCountSeparately(t *testing.T) {
	model := llmtest.Scripted(t, llmtest.Ask(say("a"), say("b"), llmtest.ToolCall("get_weather", city{"Rome"})), llmtest.Say("done"))
	a := made(t, model, with(agent.LimitToolCalls("", agent.Limit{Run: 2}), agent.LimitToolCalls("echo", agent.Limit{Run: 1})))
	out, err := a.Run(t.Context(), agent.Ask("go"))
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, out.Messages[2:], "tool: Tool call limit exceeded. Do not call 'echo' again. (error)", "tool: a", "tool: It's rainy!", "ai: done")
}

// usage returns a turn with its token usage.
func usage(turn llmtest.Turn, in, out int) llmtest.Turn {
	turn.Message.Usage = &llm.Usage{Input: in, Output: out, Total: in + out}
	return turn
}

func TestBudgetRejectsCallAfterItIsSpent(t *testing.T) {
	price := func(m llm.Message) float64 { return float64(m.Usage.Input)*0.001 + float64(m.Usage.Output)*0.002 }
	for name, tt := range map[string]struct {
		budget *agent.BudgetOptions
		want   string
	}{
		"tokens of the run":    {&agent.BudgetOptions{RunTokens: 250}, "The run limit of tokens is reached (300 of 250)."},
		"tokens of the thread": {&agent.BudgetOptions{ThreadTokens: 300}, "The thread limit of tokens is reached (300 of 300)."},
		"cost of the run":      {&agent.BudgetOptions{RunCost: 0.3, Cost: price}, "The run limit of cost is reached (0.4 of 0.3)."},
		"cost of the thread":   {&agent.BudgetOptions{ThreadCost: 0.4, Cost: price}, "The thread limit of cost is reached (0.4 of 0.4)."},
	} {
		model := llmtest.Scripted(t, usage(llmtest.Ask(say("a")), 100, 50), usage(llmtest.Ask(say("b")), 100, 50))
		out, err := made(t, model, with(agent.Budget(tt.budget))).Run(t.Context(), agent.Ask("go"))
		if err != nil || agent.Answer(out) != tt.want {
			t.Errorf("%s: answer = %q, %v", name, agent.Answer(out), err)
		}
	}
}

func TestBudgetFailsForUnknownCost(t *testing.T) {
	named := usage(llmtest.Say("one"), 100, 50)
	named.Message.Metadata = map[string]any{"model_name": "unheard-of"}
	model := llmtest.Scripted(t, named)
	budget := agent.Budget(&agent.BudgetOptions{RunCost: 1, Cost: catalog.Default().Cost})
	_, err := made(t, model, with(budget)).Run(t.Context(), agent.Ask("go"))
	if err == nil || !strings.Contains(err.Error(), `unknown cost of a response from model "unheard-of"`) {
		t.Errorf("a model without a price: %v", err)
	}
}

// The order of the middleware does not matter, although the jump of Moderate skips
// the hooks of the middleware before it.
func TestBudgetCountsFlaggedResponses(t *testing.T) {
	flag := func(_ context.Context, m llm.Message) (bool, error) { return strings.Contains(m.Text(), "bad"), nil }
	budget := func() *agent.Middleware {
		return agent.Budget(&agent.BudgetOptions{RunTokens: 200, ThreadTokens: 300, OnLimit: agent.OnLimitFail})
	}
	for name, o := range map[string]*agent.Options{
		"budget first": with(budget(), agent.Moderate(flag, nil)),
		"budget last":  with(agent.Moderate(flag, nil), budget()),
	} {
		model := llmtest.Scripted(t, usage(llmtest.Say("bad"), 100, 50), usage(llmtest.Say("fine"), 100, 50))
		thread := made(t, model, o).Thread("1")
		for _, input := range []string{"go", "bad", "go"} { // the second does not reach the model
			if _, err := thread.Run(t.Context(), agent.Ask(input)); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		_, err := thread.Run(t.Context(), agent.Ask("go"))
		if limit, ok := errors.AsType[*agent.LimitError](err); !ok || limit.Scope != "thread" || limit.Used != 300 {
			t.Errorf("%s: err = %v, want the thread limit at 300", name, err)
		}
	}
}

func TestOnlyRunBudgetResets(t *testing.T) {
	model := llmtest.Scripted(t, usage(llmtest.Say("one"), 100, 50), usage(llmtest.Say("two"), 100, 50))
	thread := made(t, model, with(agent.Budget(&agent.BudgetOptions{RunTokens: 150, ThreadTokens: 300, OnLimit: agent.OnLimitFail}))).Thread("1")
	for range 2 {
		if _, err := thread.Run(t.Context(), agent.Ask("go")); err != nil {
			t.Fatal(err)
		}
	}
	_, err := thread.Run(t.Context(), agent.Ask("go"))
	if limit, ok := errors.AsType[*agent.LimitError](err); !ok || limit.Scope != "thread" {
		t.Errorf("err = %v", err)
	}
}

// A thread stopped by a limit continues with a higher limit.
func TestThreadContinuesWithHigherLimit(t *testing.T) {
	saver := checkpoint.NewMemory()
	limited := func(calls int, turns ...llmtest.Turn) *treadle.Thread[agent.State, agent.State] {
		o := with(agent.LimitModelCalls(agent.Limit{Run: calls, OnLimit: agent.OnLimitFail}))
		o.Graph = treadle.Options{Saver: saver}
		return made(t, llmtest.Scripted(t, turns...), o).Thread("1")
	}
	_, err := limited(1, llmtest.Ask(say("a"))).Run(t.Context(), agent.Ask("go"))
	if limit, ok := errors.AsType[*agent.LimitError](err); !ok || limit.What != "model calls" {
		t.Fatalf("err = %v", err)
	}
	out, err := limited(2, llmtest.Say("done")).Continue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, out.Messages, "human: go", `ai:  [echo {"text":"a"}]`, "tool: a", "ai: done")
}

// An invalid limit is rejected, not treated as no limit.
func TestInvalidLimitsAreRejected(t *testing.T) {
	for want, m := range map[string]*agent.Middleware{
		"budget: cost limit requires BudgetOptions.Cost":                                   agent.Budget(&agent.BudgetOptions{ThreadCost: 1}),
		"budget: no limit: set RunCost or RunTokens or ThreadCost or ThreadTokens":         agent.Budget(&agent.BudgetOptions{}),
		"budget: invalid RunTokens -1: want more than 0, or 0 for no limit":                agent.Budget(&agent.BudgetOptions{RunTokens: -1, ThreadTokens: 5}),
		`limit_model_calls: invalid OnLimit "continue": want one of ["end" "error"]`:       agent.LimitModelCalls(agent.Limit{Run: 1, OnLimit: agent.OnLimitSkip}),
		"limit_model_calls: no limit: set Run or Thread":                                   agent.LimitModelCalls(agent.Limit{}),
		"limit_model_calls: invalid Thread -3: want more than 0, or 0 for no limit":        agent.LimitModelCalls(agent.Limit{Run: 1, Thread: -3}),
		`limit_tool_calls: invalid OnLimit "stop": want one of ["continue" "end" "error"]`: agent.LimitToolCalls("", agent.Limit{Run: 1, OnLimit: "stop"}),
		"limit_tool_calls_echo: invalid Run -1: want more than 0, or 0 for no limit":       agent.LimitToolCalls("echo", agent.Limit{Run: -1}),
		"clear_results: invalid Tokens -1: want 1 or more, or 0 for 100,000":               agent.ClearResults(&agent.ClearOptions{Tokens: -1}),
		"select_tools: invalid Max -1: want 1 or more, or 0 for no limit":                  agent.SelectTools(llmtest.NewScript(), &agent.SelectOptions{Max: -1}),
		"summarize: invalid Tokens -5: want 0 or more":                                     agent.Summarize(llmtest.NewScript(), &agent.SummarizeOptions{Tokens: -5}),
		"retry_tools: invalid RetryPolicy.Attempts -1: want 0 or more":                     agent.RetryTools(&treadle.RetryPolicy{Attempts: -1}),
		"retry_model: invalid RetryPolicy.Attempts -1: want 0 or more":                     agent.RetryModel(&treadle.RetryPolicy{Attempts: -1}),
	} {
		if _, err := agent.New(llmtest.NewScript(), with(m)); err == nil || err.Error() != "agent: middleware "+want {
			t.Errorf("err = %v, want %s", err, want)
		}
	}
}

func TestStructuredResponseIsNotCounted(t *testing.T) {
	type report struct {
		Sky string `json:"sky"`
	}
	filled := func() llmtest.Turn { return usage(llmtest.Ask(llmtest.ToolCall("report", `{"sky":"grey"}`)), 900, 90) }
	model := llmtest.Scripted(t, usage(llmtest.Say("one"), 10, 1), filled(), usage(llmtest.Say("two"), 10, 1), filled())
	o := with(agent.Budget(&agent.BudgetOptions{ThreadTokens: 20, OnLimit: agent.OnLimitFail}))
	o.Response = agent.NewResponse[report]("", nil)
	thread := made(t, model, o).Thread("1")
	for range 2 {
		if _, err := thread.Run(t.Context(), agent.Ask("go")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := thread.Run(t.Context(), agent.Ask("go")); err == nil || !strings.Contains(err.Error(), "22 of 20") {
		t.Errorf("err = %v", err)
	}
}

func ExampleLimitModelCalls() {
	model := llmtest.NewScript(llmtest.Ask(say("once")), llmtest.Ask(say("twice")))
	a, err := agent.New(model, &agent.Options{
		Tools:      []*llm.Tool{echo},
		Middleware: []*agent.Middleware{agent.LimitModelCalls(agent.Limit{Run: 2})},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := a.Run(context.Background(), agent.Ask("Say it forever."))
	fmt.Println(agent.Answer(out), err)
	// Output:
	// The run limit of model calls is reached (2 of 2). <nil>
}

func ExampleLimitToolCalls() {
	model := llmtest.NewScript(llmtest.Ask(say("once"), say("twice")), llmtest.Say("Once is enough."))
	a, err := agent.New(model, &agent.Options{
		Tools:      []*llm.Tool{echo},
		Middleware: []*agent.Middleware{agent.LimitToolCalls("echo", agent.Limit{Run: 1})},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := a.Run(context.Background(), agent.Ask("Say it twice."))
	for _, line := range lines(out.Messages) {
		fmt.Println(line)
	}
	fmt.Println(err)
	// Output:
	// human: Say it twice.
	// ai:  [echo {"text":"once"}] [echo {"text":"twice"}]
	// tool: Tool call limit exceeded. Do not call 'echo' again. (error)
	// tool: once
	// ai: Once is enough.
	// <nil>
}

func ExampleBudget() {
	model := llmtest.NewScript(usage(llmtest.Ask(say("hello")), 900, 100))
	dollars := func(m llm.Message) float64 {
		return (float64(m.Usage.Input)*3 + float64(m.Usage.Output)*15) / 1e6
	}
	a, err := agent.New(model, &agent.Options{
		Tools:      []*llm.Tool{echo},
		Middleware: []*agent.Middleware{agent.Budget(&agent.BudgetOptions{RunCost: 0.004, Cost: dollars, OnLimit: agent.OnLimitFail})},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = a.Run(context.Background(), agent.Ask("Be cheap."))
	limit, _ := errors.AsType[*agent.LimitError](err)
	fmt.Println(limit)
	// Output:
	// agent: run limit of cost reached (0.0042 of 0.004)
}

func TestNilOptionsMeanDefaults(t *testing.T) {
	made(t, llmtest.Scripted(t), with(agent.ClearResults(nil), agent.Redact(nil), agent.SelectTools(llmtest.NewScript(), nil), agent.RetryTools(nil)))
	for want, m := range map[string]*agent.Middleware{
		"budget: no limit": agent.Budget(nil),
		"summarize: no limit: set Tokens, Share, or Messages": agent.Summarize(llmtest.NewScript(), nil),
	} {
		if _, err := agent.New(llmtest.NewScript(), with(m)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("err = %v, want %s", err, want)
		}
	}
}
