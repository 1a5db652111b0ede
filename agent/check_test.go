package agent_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// A gate of a tool that there is not would let the one that was meant run unasked.
func TestMiddlewareMustNameToolsOfTheAgent(t *testing.T) {
	search := &llm.Tool{Name: "web_search", Extra: map[string]any{"type": "web_search"}}
	for want, m := range map[string]*agent.Middleware{
		`approve: it names the tool "ecko", which is not one of the agent's tools ["echo" "get_weather" "web_search" "write_todos"]: do you mean "echo"?`:            agent.Approve(agent.Gate{Tool: "ecko"}),
		`approve: it names the tool "Echo", which is not one of the agent's tools ["echo" "get_weather" "web_search" "write_todos"]: do you mean "echo"?`:            agent.Approve(agent.Gate{Tool: "Echo"}),
		`limit_tool_calls_delete: it names the tool "delete", which is not one of the agent's tools ["echo" "get_weather" "web_search" "write_todos"]`:               agent.LimitToolCalls("delete", agent.Limit{Run: 1}),
		`retry_tools_echoo: it names the tool "echoo", which is not one of the agent's tools ["echo" "get_weather" "web_search" "write_todos"]: do you mean "echo"?`: agent.RetryTools(&treadle.RetryPolicy{}, "echoo"),
		`select_tools: it names the tool "todos", which is not one of the agent's tools ["echo" "get_weather" "web_search" "write_todos"]`:                           agent.SelectTools(llmtest.NewScript(), &agent.SelectOptions{Always: []string{"todos"}}),
		`approve: it names the tool "web_search", which the provider runs: the agent does not see its calls`:                                                         agent.Approve(agent.Gate{Tool: "web_search"}),
		`approve: it has no gates: name the tools whose calls need approval`:                                                                                         agent.Approve(),
		`approve: gate 0 names no tool`:                       agent.Approve(agent.Gate{}),
		`approve: the tool "echo" has two gates: give it one`: agent.Approve(agent.Gate{Tool: "echo"}, agent.Gate{Tool: "echo"}),
	} {
		o := with(m, agent.Todos())
		o.Tools = append(o.Tools, search)
		if _, err := agent.New(llmtest.NewScript(), o); err == nil || err.Error() != "agent: middleware "+want {
			t.Errorf("err = %v\nwant  %s", err, want)
		}
	}
	// Tools of other middleware and hand-offs count.
	o := with(agent.Approve(agent.Gate{Tool: "write_todos"}, agent.Gate{Tool: "transfer_to_bob"}), agent.LimitToolCalls("write_todos", agent.Limit{Run: 1}),
		agent.SelectTools(llmtest.NewScript(), &agent.SelectOptions{Always: []string{"web_search"}}), agent.Todos())
	o.Tools = append(o.Tools, search, agent.Handoff("bob", nil))
	if _, err := agent.New(llmtest.NewScript(), o); err != nil {
		t.Error(err)
	}
	bob := newAgent(t, "bob", nil)
	if _, err := agent.Supervisor(llmtest.NewScript(), []*treadle.Graph[agent.State, agent.State]{bob},
		&agent.SupervisorOptions{Forward: true, Options: agent.Options{Middleware: []*agent.Middleware{agent.Approve(agent.Gate{Tool: "transfer_to_bob"}, agent.Gate{Tool: "forward_message"})}}}); err != nil {
		t.Error(err)
	}
}

func TestWhatIsMissingIsAnErrorOfNew(t *testing.T) {
	endless := &llm.Tool{Name: "endless", Parameters: &jsonschema.Schema{Ref: "#"}, Run: func(context.Context, json.RawMessage) (any, error) { return "", nil }}
	for want, o := range map[string]*agent.Options{
		"agent: tool 0 is nil":                                         {Tools: []*llm.Tool{nil}},
		"agent: middleware 0 is nil":                                   {Middleware: []*agent.Middleware{nil}},
		"agent: llm: tool t: its function is nil":                      {Tools: []*llm.Tool{llm.NewTool[struct{}, string]("t", "", nil)}},
		"agent: llm: tool endless: the schema of its parameters":       {Tools: []*llm.Tool{endless}},
		"agent: llm: tool \"a b\": the name must have":                 {Tools: []*llm.Tool{llm.NewTool("a b", "", func(context.Context, struct{}) (string, error) { return "", nil })}},
		"agent: Options.Response is empty: make it with NewResponse":   {Response: &agent.Response{}},
		"agent: ToolConcurrency is -1: want at least 1":                {ToolOptions: agent.ToolOptions{ToolConcurrency: -1}},
		"agent: middleware x: a hook is empty: make it with NewHook":   {Middleware: []*agent.Middleware{{Name: "x", BeforeModel: &agent.Hook{}}}},
		"agent: middleware y: a hook is empty: make it with NewHook":   {Middleware: []*agent.Middleware{{Name: "y", AfterModel: agent.NewHook[struct{}, struct{}](nil)}}},
		"agent: middleware prompt: its function is nil":                {Middleware: []*agent.Middleware{agent.Prompt[agent.State](nil)}},
		"agent: middleware fallback: it has no models to fall back to": {Middleware: []*agent.Middleware{agent.Fallback()}},
		"agent: middleware fallback: its model is nil":                 {Middleware: []*agent.Middleware{agent.Fallback(llmtest.NewScript(), nil)}},
		"agent: middleware select_tools: its model is nil":             {Middleware: []*agent.Middleware{agent.SelectTools(nil, &agent.SelectOptions{})}},
		"agent: middleware summarize: its model is nil":                {Middleware: []*agent.Middleware{agent.Summarize(nil, &agent.SummarizeOptions{Tokens: 1})}},
	} {
		if _, err := agent.New(llmtest.NewScript(), o); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("err = %v, want %s", err, want)
		}
	}
	if _, err := agent.New(nil, nil); err == nil || err.Error() != "agent: the model is nil" {
		t.Errorf("err = %v", err)
	}
}

// The answer would be empty, and the run would end as if all were well.
func TestCallOfAnAgentWithoutToolsIsAnswered(t *testing.T) {
	for name, o := range map[string]*agent.Options{
		"no tools":         {},
		"a limit":          {Middleware: []*agent.Middleware{agent.LimitModelCalls(agent.Limit{Run: 5})}},
		"a provider's own": {Tools: []*llm.Tool{{Name: "web_search", Extra: map[string]any{"type": "web_search"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			model := llmtest.NewScript(llmtest.Ask(llmtest.ToolCall("search", `{}`)), llmtest.Say("I cannot search."))
			out, err := made(t, model, o).Run(t.Context(), agent.Ask("go"))
			if err != nil {
				t.Fatal(err)
			}
			want := "tool: Error: search is not a valid tool, try one of []. (error)"
			if len(o.Tools) > 0 {
				want = "tool: Error: search is not a valid tool, try one of [web_search]. (error)"
			}
			wantLines(t, out.Messages, "human: go", "ai:  [search {}]", want, "ai: I cannot search.")
		})
	}
	// A model that does not listen comes to the end of the steps.
	var turns []llmtest.Turn
	for range 5 {
		turns = append(turns, llmtest.Ask(llmtest.ToolCall("search", `{}`)))
	}
	out, err := made(t, llmtest.NewScript(turns...), &agent.Options{Graph: treadle.Options{StepLimit: 4}}).Run(t.Context(), agent.Ask("go"))
	if err != nil || agent.Answer(out) != "Sorry, need more steps to process this request." {
		t.Errorf("%q %v", agent.Answer(out), err)
	}
}
