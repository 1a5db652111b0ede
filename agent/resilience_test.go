package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

var tooLong = llmtest.Fail(&llm.Error{Provider: "p", Status: 400, Message: "prompt is too long: 250000 tokens > 200000 maximum"})

func TestOverflowIsSummarizedAndRetried(t *testing.T) {
	small := llmtest.Scripted(t, llmtest.Say("They talked."), llmtest.Say("They talked on."))
	model := llmtest.Scripted(t, tooLong, llmtest.Say("fine"), llmtest.Say("again"), llmtest.Say("and again"))
	o := with(agent.Summarize(small, &agent.SummarizeOptions{Tokens: 100_000, Keep: 2}))
	o.Graph.Saver = checkpoint.NewMemory()
	thread := made(t, model, o).Thread("1")
	out, err := thread.Run(t.Context(), chat(append(talk(3), llm.User("and now?"))...))
	if err != nil {
		t.Fatal(err)
	}
	summary := "human: Here is a summary of the conversation to date:\n\n"
	wantLines(t, model.Requests()[1].Messages, summary+"They talked.", "ai: answer 2", "human: and now?")
	if len(out.Messages) != 8 {
		t.Errorf("%d messages are saved, want all 8", len(out.Messages))
	}
	// The saved conversation is still too long, so it is summarized before the next call, once.
	for i, want := range []string{"again", "and again"} {
		if out, err = thread.Run(t.Context(), agent.Ask(fmt.Sprint("more ", i))); err != nil || agent.Answer(out) != want {
			t.Fatalf("answer %q, %v, want %q", agent.Answer(out), err, want)
		}
	}
	wantLines(t, model.Requests()[2].Messages, summary+"They talked on.", "ai: fine", "human: more 0")
	if n := len(small.Requests()); n != 2 {
		t.Errorf("summarized %d times, want 2", n)
	}
}

func TestSecondOverflowFails(t *testing.T) {
	small := llmtest.Scripted(t, llmtest.Say("They talked."))
	model := llmtest.Scripted(t, tooLong, tooLong)
	a := made(t, model, with(agent.Summarize(small, &agent.SummarizeOptions{Tokens: 100_000, Keep: 2})))
	_, err := a.Run(t.Context(), chat(append(talk(3), llm.User("and now?"))...))
	if e, ok := errors.AsType[*llm.ContextError](err); !ok || e.Limit != 200_000 || e.Used != 250_000 {
		t.Errorf("err = %v, want a ContextError", err)
	}
}

func TestOverflowClearsResultsAndRetries(t *testing.T) {
	model := llmtest.Scripted(t, tooLong, llmtest.Say("ok"))
	a := made(t, model, with(agent.ClearResults(&agent.ClearOptions{Keep: 1})))
	if _, err := a.Run(t.Context(), chat(worked("echo", "echo")...)); err != nil {
		t.Fatal(err)
	}
	if got := model.Requests()[1].Messages[2].Text(); got != "[cleared]" {
		t.Errorf("the first result is %q", got)
	}
	// With nothing to clear, the same request is not repeated.
	model = llmtest.Scripted(t, tooLong)
	_, err := made(t, model, with(agent.ClearResults(nil))).Run(t.Context(), agent.Ask("hello"))
	if _, ok := errors.AsType[*llm.ContextError](err); !ok {
		t.Errorf("err = %v, want a ContextError", err)
	}
}

// from returns a response of a model with a usage, as providers report it.
func from(model, text string, stop llm.StopReason, tokens int) llmtest.Turn {
	m := llm.Assistant(text)
	m.Stop, m.Usage = stop, &llm.Usage{Input: tokens, Total: tokens}
	m.Metadata = map[string]any{"model_provider": "p", "model_name": model}
	return llmtest.Turn{Message: m}
}

func TestRefusalFallsBackAndCounts(t *testing.T) {
	first := llmtest.Scripted(t, from("a", "no", llm.StopRefusal, 100))
	second := llmtest.Scripted(t, from("b", "", llm.StopFilter, 20))
	third := llmtest.Scripted(t, from("c", "yes", llm.StopEnd, 3))
	var costs []string
	cost := func(m llm.Message) float64 {
		costs = append(costs, fmt.Sprint(m.Metadata["model_name"], m.Usage.Total))
		return 1
	}
	budget := agent.Budget(&agent.BudgetOptions{RunCost: 100, Cost: cost})
	out, err := made(t, first, with(budget, agent.FallbackRefused(second, third))).Run(t.Context(), agent.Ask("go"))
	if err != nil || agent.Answer(out) != "yes" {
		t.Fatalf("answer %q, %v", agent.Answer(out), err)
	}
	if got := strings.Join(costs, " "); got != "a100 b20 c3" {
		t.Errorf("counted %q", got)
	}
	// A budget also reads the responses from a checkpoint.
	raw, err := json.Marshal(out.Messages)
	if err != nil {
		t.Fatal(err)
	}
	var stored llm.Messages
	if err := json.Unmarshal(raw, &stored); err != nil {
		t.Fatal(err)
	}
	costs = nil
	thread := made(t, llmtest.NewScript(), with(budget)).Thread("1")
	if _, err = thread.Update(t.Context(), chat(stored...), treadle.AsNode("model")); err != nil {
		t.Fatal(err)
	}
	if _, err = thread.Continue(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(costs, " "); got != "a100 b20 c3" {
		t.Errorf("from a checkpoint, counted %q", got)
	}
}

func TestEmptyResponseFallsBack(t *testing.T) {
	a := made(t, llmtest.Scripted(t, llmtest.Fail(fmt.Errorf("p: %w", llm.ErrEmpty))), with(agent.FallbackRefused(llmtest.Scripted(t, llmtest.Say("yes")))))
	if out, err := a.Run(t.Context(), agent.Ask("go")); err != nil || agent.Answer(out) != "yes" {
		t.Errorf("answer %q, %v", agent.Answer(out), err)
	}
}

func TestFallbackCountsDiscardedResponses(t *testing.T) {
	first := llmtest.Scripted(t, from("a", "no", llm.StopRefusal, 100))
	empty := llmtest.Scripted(t, llmtest.Fail(llm.ErrEmpty))
	blank := llmtest.Scripted(t, from("b", "", llm.StopEnd, 20))
	last := llmtest.Scripted(t, from("c", "yes", llm.StopEnd, 3))
	var counted []string
	cost := func(m llm.Message) float64 {
		counted = append(counted, fmt.Sprint(m.Metadata["model_name"], m.Usage.Total))
		return 1
	}
	budget := agent.Budget(&agent.BudgetOptions{RunCost: 100, Cost: cost})
	out, err := made(t, first, with(budget, agent.FallbackRefused(empty, blank, last))).Run(t.Context(), agent.Ask("go"))
	if err != nil || agent.Answer(out) != "yes" || strings.Join(counted, " ") != "a100 b20 c3" {
		t.Errorf("answer %q, %v; counted %q", agent.Answer(out), err, counted)
	}
}

func TestLastRefusalIsUsed(t *testing.T) {
	a := made(t, llmtest.Scripted(t, from("a", "no", llm.StopRefusal, 1)), with(agent.FallbackRefused(llmtest.Scripted(t, from("b", "never", llm.StopRefusal, 1)))))
	out, err := a.Run(t.Context(), agent.Ask("go"))
	if err != nil || agent.Answer(out) != "never" || out.Messages[len(out.Messages)-1].Stop != llm.StopRefusal {
		t.Errorf("answer %q, %v", agent.Answer(out), err)
	}
}

func TestRouteChoosesModel(t *testing.T) {
	long := llmtest.Scripted(t, llmtest.Say("from the long one"))
	route := agent.Route(func(_ context.Context, call agent.ModelCall) (llm.Model, error) {
		if len(call.Messages) > 2 {
			return long, nil
		}
		return nil, nil
	})
	a := made(t, llmtest.Scripted(t, llmtest.Say("from the short one")), with(route))
	for want, in := range map[string]agent.State{"from the short one": agent.Ask("go"), "from the long one": chat(append(talk(1), llm.User("go"))...)} {
		if out, err := a.Run(t.Context(), in); err != nil || agent.Answer(out) != want {
			t.Errorf("answer %q, %v, want %q", agent.Answer(out), err, want)
		}
	}
	fails := agent.Route(func(context.Context, agent.ModelCall) (llm.Model, error) { return nil, errors.New("no model today") })
	if _, err := made(t, llmtest.NewScript(), with(fails)).Run(t.Context(), agent.Ask("go")); err == nil || !strings.Contains(err.Error(), "agent: route: no model today") {
		t.Errorf("err = %v", err)
	}
}

// choice returns the response of a small model.
func choice(model string) llmtest.Turn {
	return llmtest.Ask(llmtest.ToolCall("modelChoice", fmt.Sprintf(`{"model":%q}`, model)))
}

func TestRouteByModelHoldsForTurn(t *testing.T) {
	small := llmtest.Scripted(t, choice("strong"), choice("weak"))
	strong := llmtest.Scripted(t, llmtest.Ask(say("a")), llmtest.Say("strong"))
	weak := llmtest.Scripted(t, llmtest.Say("weak"))
	opts := &agent.RouteOptions{Routes: []agent.ModelRoute{{"strong", "hard problems", strong}, {"weak", "small talk", weak}}}
	thread := made(t, llmtest.NewScript(), with(agent.RouteBy(small, opts))).Thread("1")
	for _, want := range []string{"strong", "weak"} {
		if out, err := thread.Run(t.Context(), agent.Ask("go")); err != nil || agent.Answer(out) != want {
			t.Errorf("answer %q, %v, want %q", agent.Answer(out), err, want)
		}
	}
	if got := small.Requests()[0].Messages[0].Text(); !strings.Contains(got, "\n- strong: hard problems\n- weak: small talk") {
		t.Errorf("the small model was asked %q", got)
	}
}

func TestRouteByRejectsUnknownRoutes(t *testing.T) {
	some := llmtest.NewScript()
	opts := &agent.RouteOptions{Routes: []agent.ModelRoute{{"a", "all", some}}}
	_, err := made(t, some, with(agent.RouteBy(llmtest.NewScript(choice("b")), opts))).Run(t.Context(), agent.Ask("go"))
	if err == nil || !strings.Contains(err.Error(), `agent: route: model chose unknown route "b"`) {
		t.Errorf("err = %v", err)
	}
	for want, opts := range map[string]*agent.RouteOptions{
		"route: no routes":           nil,
		`route: duplicate route "a"`: {Routes: []agent.ModelRoute{{"a", "x", some}, {"a", "y", some}}},
		`route: route "a" needs a name, a description, and a model`: {Routes: []agent.ModelRoute{{"a", "x", nil}}},
	} {
		if _, err := agent.New(some, with(agent.RouteBy(some, opts))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("err = %v, want %q", err, want)
		}
	}
}

func TestModerationStopsFlaggedMessages(t *testing.T) {
	flag := func(_ context.Context, m llm.Message) (bool, error) { return strings.Contains(m.Text(), "bad"), nil }
	for name, tt := range map[string]struct {
		in    string
		turns []llmtest.Turn
		opts  *agent.ModerateOptions
		want  []string
	}{
		"clean":         {"hello", []llmtest.Turn{llmtest.Say("hi")}, nil, []string{"human: hello", "ai: hi"}},
		"input":         {"bad", nil, nil, []string{"human: bad", "ai: I cannot help with that."}},
		"output":        {"hello", []llmtest.Turn{llmtest.Say("bad")}, &agent.ModerateOptions{Text: "No."}, []string{"human: hello", "ai: No."}},
		"skipped input": {"bad", []llmtest.Turn{llmtest.Say("hi")}, &agent.ModerateOptions{SkipInput: true}, []string{"human: bad", "ai: hi"}},
		"tool call":     {"hello", []llmtest.Turn{{Message: llm.Assistant("bad", say("a"))}}, nil, []string{"human: hello", "ai: I cannot help with that."}},
	} {
		out, err := made(t, llmtest.Scripted(t, tt.turns...), with(agent.Moderate(flag, tt.opts))).Run(t.Context(), agent.Ask(tt.in))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		wantLines(t, out.Messages, tt.want...)
	}
	broken := func(context.Context, llm.Message) (bool, error) { return false, errors.New("service unavailable") }
	_, err := made(t, llmtest.NewScript(), with(agent.Moderate(broken, nil))).Run(t.Context(), agent.Ask("hello"))
	if err == nil || !strings.Contains(err.Error(), "agent: moderate the user's message: service unavailable") {
		t.Errorf("err = %v", err)
	}
	for want, m := range map[string]*agent.Middleware{
		"moderate: nil function":     agent.Moderate(nil, nil),
		"moderate: nothing to check": agent.Moderate(flag, &agent.ModerateOptions{SkipInput: true, SkipOutput: true}),
	} {
		if _, err := agent.New(llmtest.NewScript(), with(m)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("err = %v, want %q", err, want)
		}
	}
}

func ExampleRoute() {
	model := llmtest.NewScript(llmtest.Say("Short and simple."))
	strong := llmtest.NewScript(llmtest.Say("A long analysis."))
	choose := func(_ context.Context, call agent.ModelCall) (llm.Model, error) {
		if strings.Contains(call.Messages[0].Text(), "analyze") {
			return strong, nil
		}
		return nil, nil // the agent's model
	}
	a, err := agent.New(model, &agent.Options{Middleware: []*agent.Middleware{agent.Route(choose)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, question := range []string{"Say hello.", "Please analyze this."} {
		out, err := a.Run(context.Background(), agent.Ask(question))
		fmt.Println(agent.Answer(out), err)
	}
	// Output:
	// Short and simple. <nil>
	// A long analysis. <nil>
}

func ExampleFallbackRefused() {
	model := llmtest.NewScript(llmtest.Turn{Message: llm.Message{Role: llm.RoleAI, Content: "I cannot.", Stop: llm.StopRefusal}})
	spare := llmtest.NewScript(llmtest.Say("Here is the recipe."))
	a, err := agent.New(model, &agent.Options{Middleware: []*agent.Middleware{agent.FallbackRefused(spare)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := a.Run(context.Background(), agent.Ask("How do I pickle chilies?"))
	fmt.Println(agent.Answer(out), err)
	// Output:
	// Here is the recipe. <nil>
}

func ExampleModerate() {
	flag := func(_ context.Context, m llm.Message) (bool, error) {
		return strings.Contains(m.Text(), "password"), nil
	}
	model := llmtest.NewScript() // never called
	a, err := agent.New(model, &agent.Options{Middleware: []*agent.Middleware{agent.Moderate(flag, nil)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := a.Run(context.Background(), agent.Ask("Guess my neighbor's password."))
	fmt.Println(agent.Answer(out), err)
	// Output:
	// I cannot help with that. <nil>
}
