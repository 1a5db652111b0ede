package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// A gate for a misspelled tool would let the intended tool run without approval.
func TestMiddlewareRejectsUnknownTools(t *testing.T) {
	search := &llm.Tool{Name: "web_search", Extra: map[string]any{"type": "web_search"}}
	for want, m := range map[string]*agent.Middleware{
		`gates: unknown tool "ecko": the agent's tools are ["echo" "get_weather" "web_search" "write_todos"]: did you mean "echo"?`:              agent.Gates(agent.Gate{Tool: "ecko"}),
		`gates: unknown tool "Echo": the agent's tools are ["echo" "get_weather" "web_search" "write_todos"]: did you mean "echo"?`:              agent.Gates(agent.Gate{Tool: "Echo"}),
		`limit_tool_calls_delete: unknown tool "delete": the agent's tools are ["echo" "get_weather" "web_search" "write_todos"]`:                agent.LimitToolCalls("delete", agent.Limit{Run: 1}),
		`retry_tools_echoo: unknown tool "echoo": the agent's tools are ["echo" "get_weather" "web_search" "write_todos"]: did you mean "echo"?`: agent.RetryTools(&treadle.RetryPolicy{}, "echoo"),
		`select_tools: unknown tool "todos": the agent's tools are ["echo" "get_weather" "web_search" "write_todos"]`:                            agent.SelectTools(llmtest.NewScript(), &agent.SelectOptions{Always: []string{"todos"}}),
		`gates: tool "web_search" is run by the provider: the agent does not see its calls`:                                                      agent.Gates(agent.Gate{Tool: "web_search"}),
		`gates: no gates: name the tools whose calls need approval`:                                                                              agent.Gates(),
		`gates: gate at index 0 names no tool`:  agent.Gates(agent.Gate{}),
		`gates: duplicate gate for tool "echo"`: agent.Gates(agent.Gate{Tool: "echo"}, agent.Gate{Tool: "echo"}),
	} {
		o := with(m, agent.Todos())
		o.Tools = append(o.Tools, search)
		if _, err := agent.New(llmtest.NewScript(), o); err == nil || err.Error() != "agent: middleware "+want {
			t.Errorf("err = %v\nwant  %s", err, want)
		}
	}
	// Tools of other middleware and hand-offs count.
	o := with(agent.Gates(agent.Gate{Tool: "write_todos"}, agent.Gate{Tool: "transfer_to_bob"}), agent.LimitToolCalls("write_todos", agent.Limit{Run: 1}),
		agent.SelectTools(llmtest.NewScript(), &agent.SelectOptions{Always: []string{"web_search"}}), agent.Todos())
	o.Tools = append(o.Tools, search, agent.Handoff("bob", nil))
	if _, err := agent.New(llmtest.NewScript(), o); err != nil {
		t.Error(err)
	}
	bob := newAgent(t, "bob", nil)
	if _, err := agent.Supervisor(llmtest.NewScript(), []*treadle.Graph[agent.State, agent.State]{bob},
		&agent.SupervisorOptions{Forward: true, Options: agent.Options{Middleware: []*agent.Middleware{agent.Gates(agent.Gate{Tool: "transfer_to_bob"}, agent.Gate{Tool: "forward_message"})}}}); err != nil {
		t.Error(err)
	}
}

func TestCheckReceivesTools(t *testing.T) {
	var got agent.Setup
	hook := agent.NewHook(func(context.Context, struct{}) (*struct{}, error) { return nil, nil })
	o := with(&agent.Middleware{Name: "own", BeforeModel: hook, Check: func(s agent.Setup) error {
		got = s
		return nil
	}}, &agent.Middleware{Name: "own", AfterAgent: hook}, agent.Todos())
	o.Response = agent.NewResponse[struct{ City string }]("", nil)
	made(t, llmtest.NewScript(), o)
	var tools []string
	for _, tool := range got.Tools {
		tools = append(tools, tool.Name)
	}
	if want := []string{"echo", "get_weather", "write_todos"}; !slices.Equal(tools, want) {
		t.Errorf("tools are %q, want %q", tools, want)
	}
}

// Errors of a Check are reported together with other errors.
func TestCheckFailsBuild(t *testing.T) {
	own := &agent.Middleware{Name: "own", Check: func(s agent.Setup) error {
		return errors.Join(s.RequireTools("ecko"), errors.New("no key"))
	}}
	o := with(own, nil)
	o.Tools = append(o.Tools, nil)
	_, err := agent.New(nil, o)
	for _, want := range []string{`agent: middleware own: unknown tool "ecko"`, "no key", "agent: nil model", "agent: nil tool", "agent: nil middleware at index 1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("err = %v, want %s", err, want)
		}
	}
}

// Middleware may be part of several agents, with a model each.
func TestModelFromInEveryPart(t *testing.T) {
	type nothing struct{}
	type place struct{ City string }
	if m := agent.ModelFrom(t.Context()); m != nil {
		t.Errorf("outside of an agent: %v", m)
	}
	var models []llm.Model
	var where []string
	note := func(ctx context.Context, part string) {
		models, where = append(models, agent.ModelFrom(ctx)), append(where, part)
	}
	hook := func(part string) *agent.Hook {
		return agent.NewHook(func(ctx context.Context, _ llm.Chat) (*nothing, error) { note(ctx, part); return nil, nil })
	}
	look := llm.NewTool("look", "", func(ctx context.Context, _ struct{}) (string, error) { note(ctx, "tool"); return "ok", nil })
	other := llmtest.NewScript()
	m := &agent.Middleware{Name: "m", Tools: []*llm.Tool{look},
		BeforeAgent: hook("before agent"), BeforeModel: hook("before model"), AfterModel: hook("after model"), AfterAgent: hook("after agent"),
		WrapModel: func(ctx context.Context, call agent.ModelCall, next agent.ModelFunc) (llm.Message, error) {
			note(ctx, "model")
			return next(ctx, call)
		},
		WrapTool: func(ctx context.Context, call agent.ToolCall, next agent.ToolFunc) (any, error) {
			note(ctx, "wrapped tool")
			return next(ctx, call)
		},
		WrapResponse: func(ctx context.Context, call agent.ModelCall, _ agent.ResponseFunc) (json.RawMessage, error) {
			note(ctx, "response")
			if call.Model != other {
				t.Errorf("response with model %v", call.Model)
			}
			return json.RawMessage(`{"City": "Bonn"}`), nil
		}}
	want := []string{"before agent", "before model", "model", "after model", "wrapped tool", "tool", "before model", "model", "after model", "response", "after agent"}
	for range 2 {
		models, where = nil, nil
		script := llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("look", "{}")), llmtest.Say("done"))
		o := &agent.Options{Middleware: []*agent.Middleware{m}, Response: agent.NewResponse[place]("Extract.", other)}
		if _, err := made(t, script, o).Run(t.Context(), agent.Ask("go")); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(where, want) {
			t.Errorf("parts %q\nwant  %q", where, want)
		}
		for i, m := range models {
			if m != script {
				t.Errorf("%s: model %v", where[i], m)
			}
		}
	}
}

func TestWrapResponseNests(t *testing.T) {
	type place struct {
		City string `json:"city"`
	}
	var order []string
	wrap := func(name string) *agent.Middleware {
		return &agent.Middleware{Name: name, WrapResponse: func(ctx context.Context, call agent.ModelCall, next agent.ResponseFunc) (json.RawMessage, error) {
			order = append(order, name)
			call.System += " " + name
			raw, err := next(ctx, call)
			return json.RawMessage(strings.ReplaceAll(string(raw), "rome", "rome, "+name)), err
		}}
	}
	model := llmtest.Scripted(t, llmtest.Say("ok"), llmtest.Turn{
		Message: llm.Assistant("", llmtest.ToolCall("place", `{"city":"rome"}`)),
		Expect: []func(*llm.Request) error{func(r *llm.Request) error {
			if got := r.Messages[0].Text(); !strings.HasPrefix(got, "Extract. outer inner") {
				return fmt.Errorf("system prompt is %q", got)
			}
			return nil
		}},
	})
	o := &agent.Options{Middleware: []*agent.Middleware{wrap("outer"), wrap("inner")}, Response: agent.NewResponse[place]("Extract.", nil)}
	out, err := made(t, model, o).Run(t.Context(), agent.Ask("where?"))
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"city":"rome, outer, inner"}`; string(out.Response) != want {
		t.Errorf("response is %s, want %s", out.Response, want)
	}
	if want := []string{"outer", "inner"}; !slices.Equal(order, want) {
		t.Errorf("order is %q, want %q", order, want)
	}
}

func TestNewRejectsMissingParts(t *testing.T) {
	endless := &llm.Tool{Name: "endless", Parameters: &jsonschema.Schema{Ref: "#"}, Run: func(context.Context, json.RawMessage) (any, error) { return "", nil }}
	for want, o := range map[string]*agent.Options{
		"agent: nil tool at index 0":                                 {Tools: []*llm.Tool{nil}},
		"agent: nil middleware at index 0":                           {Middleware: []*agent.Middleware{nil}},
		"agent: llm: tool t: nil function":                           {Tools: []*llm.Tool{llm.NewTool[struct{}, string]("t", "", nil)}},
		"agent: llm: tool endless: parameters: invalid schema":       {Tools: []*llm.Tool{endless}},
		"agent: llm: tool \"a b\": invalid name":                     {Tools: []*llm.Tool{llm.NewTool("a b", "", func(context.Context, struct{}) (string, error) { return "", nil })}},
		"agent: empty Options.Response: create it with NewResponse":  {Response: &agent.Response{}},
		"agent: invalid ToolConcurrency -1: want 1 or more":          {ToolOptions: agent.ToolOptions{ToolConcurrency: -1}},
		"agent: middleware x: empty hook: create hooks with NewHook": {Middleware: []*agent.Middleware{{Name: "x", BeforeModel: &agent.Hook{}}}},
		"agent: middleware y: empty hook: create hooks with NewHook": {Middleware: []*agent.Middleware{{Name: "y", AfterModel: agent.NewHook[struct{}, struct{}](nil)}}},
		"agent: middleware prompt: nil function":                     {Middleware: []*agent.Middleware{agent.Prompt[agent.State](nil)}},
		"agent: middleware fallback: no fallback models":             {Middleware: []*agent.Middleware{agent.Fallback()}},
		"agent: middleware fallback: nil model":                      {Middleware: []*agent.Middleware{agent.Fallback(llmtest.NewScript(), nil)}},
		"agent: middleware select_tools: nil model":                  {Middleware: []*agent.Middleware{agent.SelectTools(nil, &agent.SelectOptions{})}},
		"agent: middleware summarize: nil model":                     {Middleware: []*agent.Middleware{agent.Summarize(nil, &agent.SummarizeOptions{Tokens: 1})}},
	} {
		if _, err := agent.New(llmtest.NewScript(), o); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("err = %v, want %s", err, want)
		}
	}
	if _, err := agent.New(nil, nil); err == nil || err.Error() != "agent: nil model" {
		t.Errorf("err = %v", err)
	}
}

// The answer would be empty, and the run would end as if all were well.
func TestCallWithoutToolsGetsResult(t *testing.T) {
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
