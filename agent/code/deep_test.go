package code_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/agent/code"
	"github.com/treadle-go/treadle/agent/deep"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// runDeep runs a script in a deep agent. Its sub-agent answers with its task.
func runDeep(t *testing.T, opts *deep.Options, source string) (*treadle.Thread[deep.State, deep.State], deep.State, error) {
	t.Helper()
	model := llmtest.Func(func(_ context.Context, r *llm.Request) (llm.Message, error) {
		last := r.Messages[len(r.Messages)-1]
		switch {
		case last.Role == llm.RoleHuman && last.Text() == "go":
			return llm.Assistant("", script(source)), nil
		case last.Role == llm.RoleHuman:
			m := llm.Assistant("report: " + last.Text())
			m.Usage = &llm.Usage{Input: 5, Output: 5, Total: 10}
			return m, nil
		}
		return llm.Assistant("done"), nil
	})
	opts.Middleware = append(opts.Middleware, code.Mode(nil))
	opts.Graph.Saver = checkpoint.NewMemory()
	a, err := deep.New(model, opts)
	if err != nil {
		t.Fatal(err)
	}
	thread := a.Thread("1")
	out, err := thread.Run(t.Context(), deep.Ask("go"))
	return thread, out, err
}

func lastResult(s deep.State) string { return s.Messages[len(s.Messages)-2].Text() }

func TestScriptSeesItsFiles(t *testing.T) {
	_, out, err := runDeep(t, &deep.Options{}, `
await tools.write_file({file_path: "/a.txt", content: "one\n"});
await tools.edit_file({file_path: "/a.txt", old_string: "one", new_string: "two"});
const read = await tools.read_file({file_path: "/a.txt"});
const twice = await Promise.allSettled([tools.write_file({file_path: "/b", content: "1"}), tools.write_file({file_path: "/b", content: "2"})]);
return [read.includes("two"), twice.map(r => r.status), String(twice[1].reason)]`)
	if err != nil {
		t.Fatal(err)
	}
	want := `[true,["fulfilled","rejected"],"ToolError: Error: another call that has not ended changes /b. This call was not made. Await the other call first."]`
	if got := lastResult(out); got != want || string(out.Files["/a.txt"].Content) != "two\n" || string(out.Files["/b"].Content) != "1" {
		t.Errorf("got %s and %v, want %s", got, out.Files, want)
	}
}

func TestPermissionsApplyToScripts(t *testing.T) {
	opts := &deep.Options{Files: deep.FilesOptions{Permissions: []deep.Permission{
		{Paths: []string{"/secret/**"}, Mode: deep.Deny}, {Paths: []string{"/ask/**"}, Mode: deep.Confirm}}}}
	thread, _, err := runDeep(t, opts, `
const denied = await tools.read_file({file_path: "/secret/a"}).catch(e => e.message);
await tools.write_file({file_path: "/ask/a", content: "x"});
return denied`)
	stop, ok := errors.AsType[*treadle.InterruptError](err)
	if !ok {
		t.Fatalf("want a question, got %v", err)
	}
	out, err := thread.Resume(t.Context(), approve(stop.Pauses, agent.Decision{Type: agent.Approve}))
	if err != nil {
		t.Fatal(err)
	}
	if got := lastResult(out); !strings.HasPrefix(got, "Permission denied") || string(out.Files["/ask/a"].Content) != "x" {
		t.Errorf("got %s and %v", got, out.Files)
	}
}

func TestScriptGivesTasks(t *testing.T) {
	budget := agent.Budget(&agent.BudgetOptions{RunTokens: 10})
	_, out, err := runDeep(t, &deep.Options{Middleware: []*agent.Middleware{budget}},
		`const all = await Promise.all(["a", "b"].map(description => tools.task({description, subagent_type: "general-purpose"}))); return all.join()`)
	if err != nil {
		t.Fatal(err)
	}
	var got string
	for _, m := range out.Messages {
		if m.Role == llm.RoleTool {
			got = m.Text()
		}
	}
	if got != "report: a,report: b" {
		t.Errorf("got %q", got)
	}
	if last := deep.Answer(out); !strings.Contains(last, "limit") {
		t.Errorf("the usage of sub-agents was not counted: %q", last)
	}
}
