package agent_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/internal/observe"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// busy is a transient error.
type busy struct{}

func (busy) Error() string   { return "busy" }
func (busy) Temporary() bool { return true }

// flaky returns a tool that fails with err for its first n calls.
func flaky(calls *int, n int, err error) *llm.Tool {
	return llm.NewTool("flaky", "Works now and then.", func(context.Context, struct{}) (string, error) {
		if *calls++; *calls < n {
			return "", err
		}
		return fmt.Sprint("worked at call ", *calls), nil
	})
}

func TestRetryToolsBacksOff(t *testing.T) {
	for name, tt := range map[string]struct {
		err    error
		policy treadle.RetryPolicy
		only   []string
		want   string
		calls  int
		took   time.Duration
	}{
		"passes":        {busy{}, treadle.RetryPolicy{NoJitter: true}, nil, "tool: worked at call 3", 3, 1500 * time.Millisecond},
		"too often":     {busy{}, treadle.RetryPolicy{NoJitter: true, Attempts: 2}, nil, "tool: Error: tool flaky: busy\n Please fix your mistakes. (error)", 2, 500 * time.Millisecond},
		"does not pass": {errors.New("broken"), treadle.RetryPolicy{}, nil, "tool: Error: tool flaky: broken\n Please fix your mistakes. (error)", 1, 0},
		"chosen":        {errors.New("broken"), treadle.RetryPolicy{NoJitter: true, Initial: time.Second, Factor: 3, On: func(error) bool { return true }}, nil, "tool: worked at call 3", 3, 4 * time.Second},
		"another tool":  {busy{}, treadle.RetryPolicy{}, []string{"other"}, "tool: Error: tool flaky: busy\n Please fix your mistakes. (error)", 1, 0},
		"asked to wait": {&llm.Error{Provider: "x", Status: 429, RetryAfter: 7 * time.Second}, treadle.RetryPolicy{NoJitter: true}, []string{"flaky"}, "tool: worked at call 3", 3, 14 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			model := llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("flaky", "{}")), llmtest.Say("done"))
			a := made(t, model, &agent.Options{Tools: []*llm.Tool{flaky(&calls, 3, tt.err), llm.NewTool("other", "", func(context.Context, struct{}) (string, error) { return "", nil })}, Middleware: []*agent.Middleware{agent.RetryTools(&tt.policy, tt.only...)}})
			start := time.Now()
			out, err := a.Run(t.Context(), agent.Ask("go"))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if got := lines(out.Messages)[2]; got != tt.want {
				t.Errorf("%s: result = %q", name, got)
			}
			if calls != tt.calls || time.Since(start) != tt.took {
				t.Errorf("%s: %d calls in %v", name, calls, time.Since(start))
			}
		})
	}
}

func TestRetryToolsIgnoresInterrupts(t *testing.T) {
	calls := 0
	ask := llm.NewTool("ask", "", func(ctx context.Context, _ struct{}) (string, error) {
		calls++
		return treadle.Interrupt[string](ctx, "sure?")
	})
	model := llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("ask", "{}")), llmtest.Say("done"))
	thread := made(t, model, &agent.Options{Tools: []*llm.Tool{ask}, Graph: memory(),
		Middleware: []*agent.Middleware{agent.RetryTools(&treadle.RetryPolicy{On: func(error) bool { return true }})}}).Thread("1")
	_, err := thread.Run(t.Context(), agent.Ask("go"))
	asked(t, err)
	if _, err := thread.Resume(t.Context(), "yes"); err != nil || calls != 2 {
		t.Errorf("%d calls, %v", calls, err)
	}
}

func TestRetryToolsEndsWhenRunIsCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		model := llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("flaky", "{}")))
		a := made(t, model, &agent.Options{Tools: []*llm.Tool{flaky(&calls, 3, busy{})},
			Middleware: []*agent.Middleware{agent.RetryTools(&treadle.RetryPolicy{Initial: time.Hour})}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := a.Run(ctx, agent.Ask("go")); !errors.Is(err, context.DeadlineExceeded) || calls != 1 {
			t.Errorf("%d calls, err = %v", calls, err)
		}
	})
}

func TestRetryModelUntilResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		overloaded := &llm.Error{Provider: "first", Status: 529}
		model := llmtest.Scripted(t, llmtest.Fail(overloaded), llmtest.Ask(say("hi")), llmtest.Fail(overloaded), llmtest.Say("done"))
		out, err := made(t, model, with(agent.RetryModel(nil))).Run(t.Context(), agent.Ask("go"))
		if err != nil {
			t.Fatal(err)
		}
		wantLines(t, out.Messages, "human: go", `ai:  [echo {"text":"hi"}]`, "tool: hi", "ai: done")
	})
}

// A model that does not come back is the run's error, not an answer.
func TestRetryModelFailsRunAfterAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		overloaded := &llm.Error{Provider: "first", Status: 529}
		model := llmtest.Scripted(t, llmtest.Fail(overloaded), llmtest.Fail(overloaded), llmtest.Fail(overloaded))
		out, err := made(t, model, with(agent.RetryModel(nil))).Run(t.Context(), agent.Ask("go"))
		if !errors.Is(err, overloaded) {
			t.Errorf("err = %v", err)
		}
		wantLines(t, out.Messages, "human: go")
	})
}

// Retries wrap the fallback: each model is tried in turn, and then all of them again.
func TestFallbackUsesNextModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := &llm.Error{Provider: "x", Status: 503}
		first := llmtest.Scripted(t, llmtest.Fail(down), llmtest.Fail(down))
		second := llmtest.Scripted(t, llmtest.Fail(down), llmtest.Say("second here", llmtest.Offered("echo", "get_weather")))
		out, err := made(t, first, with(agent.Fallback(second), agent.RetryModel(nil))).Run(t.Context(), agent.Ask("go"))
		if err != nil || agent.Answer(out) != "second here" {
			t.Errorf("answer = %q, %v", agent.Answer(out), err)
		}
	})
}

func ExampleFallback() {
	model := llmtest.NewScript(llmtest.Fail(&llm.Error{Provider: "first", Status: 500}))
	spare := llmtest.NewScript(llmtest.Say("The spare one answers."))
	a, err := agent.New(model, &agent.Options{Middleware: []*agent.Middleware{agent.Fallback(spare)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := a.Run(context.Background(), agent.Ask("Hello?"))
	fmt.Println(agent.Answer(out), err)
	// Output:
	// The spare one answers. <nil>
}

func ExampleRetryModel() {
	model := llmtest.NewScript(llmtest.Fail(&llm.Error{Provider: "busy", Status: 429}), llmtest.Say("At your service."))
	a, err := agent.New(model, &agent.Options{Middleware: []*agent.Middleware{agent.RetryModel(&treadle.RetryPolicy{Initial: time.Millisecond, NoJitter: true})}})
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := a.Run(context.Background(), agent.Ask("Hello?"))
	fmt.Println(agent.Answer(out), err)
	// Output:
	// At your service. <nil>
}

func ExampleRetryTools() {
	calls := 0
	model := llmtest.NewScript(llmtest.Ask(llmtest.ToolCall("flaky", "{}")), llmtest.Say("It worked."))
	a, err := agent.New(model, &agent.Options{
		Tools:      []*llm.Tool{flaky(&calls, 2, busy{})},
		Middleware: []*agent.Middleware{agent.RetryTools(&treadle.RetryPolicy{Initial: time.Millisecond, NoJitter: true})},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := a.Run(context.Background(), agent.Ask("Try."))
	fmt.Println(out.Messages[2].Text(), err)
	// Output:
	// worked at call 2 <nil>
}

type ignoredSpan struct{}

func (ignoredSpan) Chunk(any)      {}
func (ignoredSpan) End(any, error) {}

// Traces show the retries of any middleware.
func TestRepeatedToolCallIsTraced(t *testing.T) {
	var retries []observe.Op
	ctx := observe.WithTracer(t.Context(), &observe.Tracer{Start: func(ctx context.Context, op *observe.Op) (context.Context, observe.Span) {
		if op.Kind == observe.Retry {
			retries = append(retries, *op)
		}
		return ctx, ignoredSpan{}
	}})
	calls, busy := 0, errors.New("busy")
	twice := &agent.Middleware{Name: "twice", WrapTool: func(ctx context.Context, call agent.ToolCall, next agent.ToolFunc) (any, error) {
		if _, err := next(ctx, call); !errors.Is(err, busy) {
			t.Errorf("first attempt: %v", err)
		}
		return next(ctx, call)
	}}
	model := llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("flaky", "{}")), llmtest.Say("done"))
	tool := llm.NewTool("flaky", "", func(context.Context, struct{}) (string, error) {
		if calls++; calls == 1 {
			return "", busy
		}
		return "ok", nil
	})
	if _, err := made(t, model, &agent.Options{Tools: []*llm.Tool{tool}, Middleware: []*agent.Middleware{twice}}).Run(ctx, agent.Ask("go")); err != nil {
		t.Fatal(err)
	}
	if len(retries) != 1 || retries[0].Name != "flaky" || retries[0].Attempt != 2 || !errors.Is(retries[0].Cause, busy) {
		t.Errorf("retries are %+v, want the second attempt of flaky", retries)
	}
}
