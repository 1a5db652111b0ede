package oteltest

import (
	"context"
	"strings"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/agent/code"
	"github.com/treadle-go/treadle/agent/deep"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/oteltreadle"
)

// Spans of calls in a script belong to the script's call, and those of a sub-agent and of what
// it calls to its task, at every level.
func TestNestedCallsHaveParents(t *testing.T) {
	r := newReceiver(t)
	tel, flush := r.tel(oteltreadle.Options{})
	look := llm.NewTool("look", "", func(ctx context.Context, in struct{ Place string }) (string, error) {
		return treadle.Do(ctx, "visit "+in.Place, func(context.Context) (string, error) { return in.Place, nil })
	})
	call := func(id, tool string, args map[string]any) llm.ToolCall {
		c := llmtest.ToolCall(tool, args)
		c.ID = id
		return c
	}
	task := func(id, to string) llm.ToolCall {
		return call(id, "task", map[string]any{"subagent_type": to, "description": to})
	}
	lead := llmtest.Scripted(t, llmtest.Ask(
		call("1", "run_code", map[string]any{"code": `await tools.look({Place: "pond"}); return await tools.task({subagent_type: "scout", description: "scout"});`}),
		task("2", "guide")), llmtest.Say("done"))
	scout := llmtest.Scripted(t, llmtest.Ask(call("3", "look", map[string]any{"Place": "barn"})), llmtest.Say("barn"))
	guide := llmtest.Scripted(t, llmtest.Ask(task("4", "owl")), llmtest.Say("guided"))
	owl := llmtest.Scripted(t, llmtest.Ask(call("5", "look", map[string]any{"Place": "oak"})), llmtest.Say("oak"))
	g, err := deep.New(lead, &deep.Options{Name: "lead", NoGeneral: true, Tools: []*llm.Tool{look}, Middleware: []*agent.Middleware{code.Mode(nil)},
		Subagents: []deep.Subagent{
			{Name: "scout", Description: "x", Model: scout},
			{Name: "guide", Description: "x", Model: guide, Subagents: []deep.Subagent{{Name: "owl", Description: "x", Model: owl}}},
		}, Graph: treadle.Options{Saver: checkpoint.NewMemory()}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Thread("1").Run(tel.Context(t.Context()), deep.Ask("go")); err != nil {
		t.Fatal(err)
	}
	flush()
	got := ""
	for line := range strings.Lines(r.tree(func(string) bool { return true })) {
		switch kind, _, _ := strings.Cut(strings.TrimSpace(line), " "); {
		case strings.Contains(line, "with engine"): // the record of the engine's version
		case kind == "execute_tool" || kind == "task" || kind == "invoke_workflow":
			got += line
		}
	}
	const want = `
invoke_workflow lead
    execute_tool run_code
      execute_tool look
        task visit pond
      execute_tool task
        invoke_workflow scout
            execute_tool look
              task visit barn
    execute_tool task
      invoke_workflow guide
          execute_tool task
            invoke_workflow owl
                execute_tool look
                  task visit oak
`
	if got = "\n" + got; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}
