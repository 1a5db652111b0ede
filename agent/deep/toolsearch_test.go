package deep_test

import (
	"context"
	"testing"

	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/agent/deep"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// A deep agent and its sub-agent share the tools, but find them independently.
func TestToolSearchInDeepAgent(t *testing.T) {
	shout := llm.NewTool("shout_words", "Writes words in capitals.", func(context.Context, struct{}) (string, error) { return "LOUD", nil })
	search := agent.SearchTools([]*llm.Tool{shout}, nil)
	find := llmtest.ToolCall("search_tools", args{"query": "capitals"})
	var offered []bool
	script := func(turns ...llmtest.Turn) llm.Model {
		model := llmtest.Scripted(t, turns...)
		return llmtest.Func(func(ctx context.Context, r *llm.Request) (llm.Message, error) {
			found := false
			for _, tool := range r.Tools {
				found = found || tool.Name == "shout_words"
			}
			offered = append(offered, found)
			return llm.Generate(ctx, llm.With(model, llm.Tools(r.Tools...)), r.Messages...)
		})
	}
	child := script(llmtest.Ask(llmtest.ToolCall("shout_words", "{}"), find), llmtest.Ask(llmtest.ToolCall("shout_words", "{}")), llmtest.Say("LOUD"))
	parent := script(llmtest.Ask(find), llmtest.Ask(llmtest.ToolCall("task", args{"subagent_type": "caller", "description": "shout"})), llmtest.Say("done"))
	th := made(t, parent, &deep.Options{Middleware: []*agent.Middleware{search}, Subagents: []deep.Subagent{
		{Name: "caller", Description: "shouts", Model: child, Middleware: []*agent.Middleware{search}}}})
	out, err := th.Run(t.Context(), deep.Ask("go"))
	if err != nil {
		t.Fatal(err)
	}
	if got := out.Messages[len(out.Messages)-2].Text(); got != "LOUD" {
		t.Errorf("report %q", got)
	}
	want := []bool{false, true, false, true, true, true}
	for i := range want {
		if len(offered) != len(want) || offered[i] != want[i] {
			t.Fatalf("offered %v, want %v", offered, want)
		}
	}
}
