package code_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/agent/code"
	"github.com/treadle-go/treadle/agent/deep"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

const taskScript = `
const started = await tools.start_async_task({subagent_type: "worker", description: "owls"});
const task_id = started.match(/task (.*)\.$/)[1];
await tools.check_async_task({task_id});
await tools.update_async_task({task_id, message: "and bees"});
await tools.check_async_task({task_id});
await tools.update_async_task({task_id, message: "and ants"});
const all = await Promise.allSettled([
  tools.update_async_task({task_id, message: "and wasps"}),
  tools.update_async_task({task_id, message: "and flies"}),
  tools.cancel_async_task({task_id}),
]);
return all.map(r => r.value ?? String(r.reason)).join("\n") + "\n" + await tools.list_async_tasks({});`

// In a script, each call about a background task sees what the earlier ones did, and of
// concurrent ones, only the first changes the task.
func TestScriptUsesBackgroundTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		saver := checkpoint.NewMemory()
		worker, err := deep.New(llmtest.Func(func(_ context.Context, r *llm.Request) (llm.Message, error) {
			return llm.Assistant("report on " + r.Messages[len(r.Messages)-1].Text()), nil
		}), &deep.Options{Name: "worker"})
		if err != nil {
			t.Fatal(err)
		}
		tasks, err := deep.NewLocal("tasks", worker, &treadle.Options{Saver: saver})
		if err != nil {
			t.Fatal(err)
		}
		result, notice := "", ""
		parent, err := deep.New(llmtest.Func(func(_ context.Context, r *llm.Request) (llm.Message, error) {
			switch last := r.Messages[len(r.Messages)-1]; {
			case last.Text() == "go":
				return llm.Assistant("", llmtest.ToolCall("run_code", map[string]any{"code": taskScript})), nil
			case last.Role == llm.RoleTool:
				result = last.Text()
			default:
				notice += last.Text()
			}
			return llm.Assistant("ok"), nil
		}), &deep.Options{Name: "parent", Graph: treadle.Options{Saver: saver}, Middleware: []*agent.Middleware{code.Mode(nil)},
			Background: []deep.BackgroundAgent{{Name: "worker", Description: "works", Runner: tasks}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parent.Thread("p").Run(t.Context(), deep.Ask("go")); !treadle.IsPause(err) {
			t.Errorf("parent does not sleep: %v", err)
		}
		if !strings.Contains(result, "worker running: owls and bees and ants and wasps\n") || strings.Count(result, "was not made") != 2 {
			t.Errorf("got %q", result)
		}
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- tasks.Serve(ctx, parent) }()
		synctest.Wait()
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
		if strings.Count(notice, "[notice") != 1 || !strings.Contains(notice, "report on owls\n\nand bees\n\nand ants\n\nand wasps\n</report>") {
			t.Errorf("got %q", notice)
		}
	})
}
