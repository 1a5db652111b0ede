package agent_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// worked returns a conversation with the results of the given calls.
func worked(tools ...string) llm.Messages {
	ms := llm.Messages{llm.User("go")}
	for i, tool := range tools {
		call := llm.ToolCall{ID: fmt.Sprint("c", i), Name: tool, Args: []byte(fmt.Sprintf(`{"text":"%d"}`, i))}
		ms = append(ms, llm.Assistant("", call), llm.ToolResult(call, fmt.Sprint("result ", i)))
	}
	return ms
}

func TestClearResultsChangesOnlyModelInput(t *testing.T) {
	history := worked("echo", "get_weather", "echo", "echo")
	for name, tt := range map[string]struct {
		o    *agent.ClearOptions
		want []string
	}{
		"short enough": {&agent.ClearOptions{Tokens: 1000}, []string{`{"text":"0"} result 0`, `{"text":"1"} result 1`, `{"text":"2"} result 2`, `{"text":"3"} result 3`}},
		"keeps three":  {&agent.ClearOptions{Tokens: 10}, []string{`{"text":"0"} [cleared]`, `{"text":"1"} result 1`, `{"text":"2"} result 2`, `{"text":"3"} result 3`}},
		"keeps one":    {&agent.ClearOptions{Tokens: 10, Keep: 1, Except: []string{"get_weather"}, Args: true, Text: "gone"}, []string{`{} gone`, `{"text":"1"} result 1`, `{} gone`, `{"text":"3"} result 3`}},
		"keeps none":   {&agent.ClearOptions{Tokens: 10, Keep: -1}, []string{`{"text":"0"} [cleared]`, `{"text":"1"} [cleared]`, `{"text":"2"} [cleared]`, `{"text":"3"} [cleared]`}},
		"counts":       {&agent.ClearOptions{Keep: -1, Count: func(context.Context, []llm.Message) (int, error) { return 100_000, nil }}, []string{`{"text":"0"} result 0`, `{"text":"1"} result 1`, `{"text":"2"} result 2`, `{"text":"3"} result 3`}},
	} {
		model := llmtest.Scripted(t, llmtest.Say("ok"))
		out, err := made(t, model, with(agent.ClearResults(tt.o))).Run(t.Context(), chat(history...))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		ms := model.Requests()[0].Messages
		for i := 1; i < len(ms); i += 2 {
			got = append(got, string(ms[i].ToolCalls[0].Args)+" "+ms[i+1].Text())
		}
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%s: the model hears (-want +got):\n%s", name, d)
		}
		if d := cmp.Diff(lines(history), lines(out.Messages)[:len(history)]); d != "" {
			t.Errorf("%s: the thread has changed (-want +got):\n%s", name, d)
		}
	}
}

func TestClearResultsAtShareOfWindow(t *testing.T) {
	history := worked("echo", "echo")
	for window, want := range map[int]string{20: "[cleared]", 100_000: "result 0"} {
		script := llmtest.Scripted(t, llmtest.Say("ok"))
		old := agent.ClearResults(&agent.ClearOptions{Share: 0.5, Keep: 1})
		if _, err := made(t, llm.WithInfo(script, llm.Info{Window: window}), with(old)).Run(t.Context(), chat(history...)); err != nil {
			t.Fatal(err)
		}
		if got := script.Requests()[0].Messages[2].Text(); got != want {
			t.Errorf("with a window of %d tokens, the first result is %q, want %q", window, got, want)
		}
	}
	for want, o := range map[string]*agent.ClearOptions{
		"clear_results: unknown context window of llmtest:script: set a number of tokens": {Share: 0.5},
		"clear_results: invalid share 50 of the context window":                           {Share: 50},
		"clear_results: both Tokens and Share are set: choose one":                        {Share: 0.5, Tokens: 10},
	} {
		if _, err := agent.New(llmtest.NewScript(), with(agent.ClearResults(o))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("err = %v, want %q", err, want)
		}
	}
}

func ExampleClearResults() {
	model := llmtest.NewScript(llmtest.Say("Done."))
	a, err := agent.New(model, &agent.Options{Tools: []*llm.Tool{echo}, Middleware: []*agent.Middleware{
		agent.ClearResults(&agent.ClearOptions{Tokens: 20, Keep: 1})}})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = a.Run(context.Background(), chat(worked("echo", "echo")...))
	for _, m := range model.Requests()[0].Messages {
		if m.Role == llm.RoleTool {
			fmt.Println(m.Text())
		}
	}
	fmt.Println(err)
	// Output:
	// [cleared]
	// result 1
	// <nil>
}

type planner struct {
	llm.Chat
	Todos []agent.Todo `json:"todos"`
}

func todos(items ...agent.Todo) llm.ToolCall {
	return llmtest.ToolCall("write_todos", map[string]any{"todos": items})
}

func TestTodoListIsSavedWithThread(t *testing.T) {
	model := llmtest.Scripted(t, llmtest.Ask(todos(agent.Todo{Content: "dig", Status: "in_progress"}, agent.Todo{Content: "plant", Status: "pending"})), llmtest.Say("Begun."))
	a, err := agent.For[planner](model, &agent.Options{Prompt: "Garden.", Middleware: []*agent.Middleware{agent.Todos()}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := a.Run(t.Context(), planner{Chat: llm.Chat{Messages: llm.Messages{llm.User("a garden, please")}}})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]agent.Todo{{Content: "dig", Status: "in_progress"}, {Content: "plant", Status: "pending"}}, out.Todos); d != "" {
		t.Errorf("todos (-want +got):\n%s", d)
	}
	if got := out.Messages[2].Text(); got != "Updated the to-do list:\n- [in_progress] dig\n- [pending] plant" {
		t.Errorf("result = %q", got)
	}
	if system := model.Requests()[0].Messages[0].Text(); !strings.HasPrefix(system, "Garden.\n\nYou have a to-do list") {
		t.Errorf("prompt = %q", system)
	}
}

func TestSeveralTodoListsAreRejected(t *testing.T) {
	model := llmtest.Scripted(t,
		llmtest.Ask(todos(agent.Todo{Content: "a", Status: "pending"}), say("hi"), todos(agent.Todo{Content: "b", Status: "pending"})),
		llmtest.Ask(todos(agent.Todo{Content: "c", Status: "done"})),
		llmtest.Say("ok"))
	out, err := made(t, model, with(agent.Todos())).Run(t.Context(), agent.Ask("go"))
	if err != nil {
		t.Fatal(err)
	}
	refused := "tool: Error: write_todos must not be called several times in one answer: it replaces the whole list. Call it once. (error)"
	got := lines(out.Messages)
	if d := cmp.Diff([]string{refused, refused, "tool: hi"}, got[2:5]); d != "" {
		t.Errorf("results (-want +got):\n%s", d)
	}
	if !strings.Contains(got[6], "Please fix the error and try again. (error)") {
		t.Errorf("a status that there is not: %q", got[6])
	}
}

func ExampleTodos() {
	model := llmtest.NewScript(
		llmtest.Ask(todos(agent.Todo{Content: "dig", Status: "in_progress"}, agent.Todo{Content: "plant", Status: "pending"})),
		llmtest.Say("I have begun to dig."))
	a, err := agent.For[planner](model, &agent.Options{Middleware: []*agent.Middleware{agent.Todos()}})
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := a.Run(context.Background(), planner{Chat: llm.Chat{Messages: llm.Messages{llm.User("Make a garden.")}}})
	for _, t := range out.Todos {
		fmt.Println(t.Status, t.Content)
	}
	fmt.Println(err)
	// Output:
	// in_progress dig
	// pending plant
	// <nil>
}

// named returns a tool that only has a name.
func named(name string) *llm.Tool {
	return llm.NewTool(name, "Does "+name+".", func(context.Context, struct{}) (string, error) { return name, nil })
}

func choose(names ...string) llmtest.Turn {
	return llmtest.Ask(llmtest.ToolCall("toolChoice", map[string]any{"tools": append([]string{}, names...)}))
}

func TestSelectToolsOffersSelection(t *testing.T) {
	search := &llm.Tool{Name: "web", Extra: map[string]any{"type": "web_search"}}
	tools := []*llm.Tool{named("a"), named("b"), named("c"), search}
	for name, tt := range map[string]struct {
		o      *agent.SelectOptions
		choice llmtest.Turn
		want   []string
	}{
		"two":     {&agent.SelectOptions{}, choose("c", "a"), []string{"a", "c", "web"}},
		"at most": {&agent.SelectOptions{Max: 1}, choose("c", "a"), []string{"c", "web"}},
		"always":  {&agent.SelectOptions{Max: 1, Always: []string{"a"}}, choose("c", "nothing"), []string{"a", "c", "web"}},
		"none":    {&agent.SelectOptions{Max: 1}, choose(), []string{"web"}},
	} {
		small := llmtest.Scripted(t, tt.choice)
		model := llmtest.Scripted(t, llmtest.Say("ok", llmtest.Offered(tt.want...)))
		a := made(t, model, &agent.Options{Tools: tools, Middleware: []*agent.Middleware{agent.SelectTools(small, tt.o)}})
		if _, err := a.Run(t.Context(), agent.Ask("go")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSelectToolsRejectsUnknownTools(t *testing.T) {
	a := made(t, llmtest.NewScript(), &agent.Options{Tools: []*llm.Tool{named("a")}, Middleware: []*agent.Middleware{
		agent.SelectTools(llmtest.Scripted(t, choose("x", "y")), &agent.SelectOptions{})}})
	_, err := a.Run(t.Context(), agent.Ask("go"))
	if err == nil || !strings.Contains(err.Error(), "agent: select tools: model selected only unknown tools [\"x\" \"y\"]") {
		t.Errorf("err = %v", err)
	}
}

func TestSelectToolsSkipsFewTools(t *testing.T) {
	model := llmtest.Scripted(t, llmtest.Say("ok", llmtest.Offered("a", "b")))
	a := made(t, model, &agent.Options{Tools: []*llm.Tool{named("a"), named("b")}, Middleware: []*agent.Middleware{
		agent.SelectTools(llmtest.Scripted(t), &agent.SelectOptions{Max: 2})}})
	if _, err := a.Run(t.Context(), agent.Ask("go")); err != nil {
		t.Error(err)
	}
}

func ExampleSelectTools() {
	small := llmtest.NewScript(choose("weather"))
	model := llmtest.NewScript(llmtest.Say("It rains."))
	a, err := agent.New(model, &agent.Options{
		Tools:      []*llm.Tool{named("weather"), named("mail"), named("calendar")},
		Middleware: []*agent.Middleware{agent.SelectTools(small, &agent.SelectOptions{Max: 1})},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := a.Run(context.Background(), agent.Ask("Do I need an umbrella?"))
	for _, tool := range model.Requests()[0].Tools {
		fmt.Println("offered:", tool.Name)
	}
	fmt.Println(agent.Answer(out), err)
	// Output:
	// offered: weather
	// It rains. <nil>
}
