package studiotest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/client"
	"github.com/treadle-go/treadle/internal/test/need"
	"github.com/treadle-go/treadle/internal/test/system/servertest"
	"github.com/treadle-go/treadle/internal/test/system/studiotest"
	"github.com/treadle-go/treadle/server"
)

// copied is the code of a run in all languages.
type copied struct{ Problem, Curl, JS, Python, Program, Test string }

// copyRun returns the code of the last run of a thread.
func copyRun(t *testing.T, c *client.Client, url, thread string) (out copied) {
	t.Helper()
	runs, err := c.Runs.List(t.Context(), thread, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := exec.CommandContext(t.Context(), "node", "copied.mjs", url, thread, runs[0].ID).Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Fatalf("%v\n%s", err, exit.Stderr)
		}
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatalf("%v\n%s", err, raw)
	}
	if out.Problem != "" {
		t.Errorf("%s", out.Problem)
	}
	return out
}

// The code that the trace offers repeats the run in Go, with curl, and with LangGraph's SDKs
// for JavaScript and Python, on new threads of the server, and in Go also as a test of the
// graph with the recorded responses.
func TestCopiedCodeRepeatsRuns(t *testing.T) { //nolint:tparallel // the subtests share a server
	need.Program(t, need.Node)
	need.Program(t, need.Python)
	t.Parallel()
	ctx := t.Context()
	python, err := filepath.Abs("../../../../examples/platform/conformance/py/.venv/bin/python")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(python); err != nil {
		t.Fatalf("this test needs LangGraph's SDK for Python: %v: run .ci/python", err)
	}
	url := servertest.Start(t, &server.Options{Spans: &server.SpanOptions{}}, treadle.Must(studiotest.Graphs()))
	c, err := client.New(url, nil)
	if err != nil {
		t.Fatal(err)
	}
	ran := func(graph string, input any, more ...*client.RunCreate) string {
		t.Helper()
		thread, err := c.Threads.Create(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range append([]*client.RunCreate{{Assistant: graph, Input: input}}, more...) {
			o.Assistant = graph
			if _, err := c.Runs.Wait(ctx, thread.ID, o); err != nil {
				t.Fatal(err)
			}
		}
		return thread.ID
	}
	runs := []struct{ name, thread, graph string }{
		{"clerk", ran("clerk", map[string]any{"messages": "Paris `Atlantis`"}), "studiotest.NewClerk(model)"},
		{"answered", ran("hitl", map[string]any{"topic": "cats"}, &client.RunCreate{Command: &client.Command{Resume: "yes"}}), `graphOf("hitl")`},
		{"second", ran("clerk", map[string]any{"messages": "Rome"}, &client.RunCreate{Input: map[string]any{"messages": "Oslo"}}), "studiotest.NewClerk(model)"},
	}
	dir, err := filepath.Abs("copied")
	if err != nil {
		t.Fatal(err)
	}
	codes := map[string]copied{}
	files := map[string]string{} // by their place in the module
	add := func(place, source string) {
		t.Helper()
		formatted, err := format.Source([]byte(source))
		if err != nil {
			t.Fatalf("%v\n%s", err, source)
		}
		if string(formatted) != source {
			t.Errorf("%s is not formatted:\n%s", place, source)
		}
		file := filepath.Join(t.TempDir(), filepath.Base(place))
		if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
		files[filepath.Join(dir, place)] = file
	}
	for _, run := range runs {
		code := copyRun(t, c, url, run.thread)
		codes[run.name] = code
		add(run.name+"/main.go", code.Program)
		add(run.name+"/run_test.go", code.Test)
		source := strings.Replace(code.Test, "return nil, errors.New(\"newGraph does not return the graph", "return "+run.graph+" //", 1)
		source = strings.Replace(source, "\t\"github.com/treadle-go/treadle/llm\"\n", "\t\"github.com/treadle-go/treadle/internal/test/system/studiotest\"\n\t\"github.com/treadle-go/treadle/llm\"\n", 1) + graphOf
		if err := os.WriteFile(files[filepath.Join(dir, run.name, "run_test.go")], []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": files})
	if err != nil {
		t.Fatal(err)
	}
	file, bin := filepath.Join(t.TempDir(), "overlay.json"), t.TempDir()+"/"
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	command := func(dir, stdin, name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s\n%s", name, args, err, out, stdin)
		}
		return string(out)
	}
	command("", "", "go", "build", "-overlay", file, "-o", bin, "./copied/clerk", "./copied/answered", "./copied/second")
	command("", "", "go", "test", "-c", "-vet=off", "-overlay", file, "-o", bin, "./copied/clerk", "./copied/answered", "./copied/second")
	for _, run := range runs {
		t.Run(run.name, func(t *testing.T) {
			state, err := c.Threads.State(ctx, run.thread, nil)
			if err != nil {
				t.Fatal(err)
			}
			code := codes[run.name]
			want := lasting(t, state.Values)
			for name, got := range map[string]string{
				"Go":         command("", "", bin+run.name),
				"curl":       command("", code.Curl, "sh"),
				"JavaScript": command("../../../../server/studio/web", printJS+code.JS, "node", "--input-type=module"),
				"Python":     command("", code.Python, python, "-c", runPython),
			} {
				if got := lasting(t, got[strings.LastIndex(got, "\n{")+1:]); !reflect.DeepEqual(got, want) {
					t.Errorf("%s: got %v, want %v", name, got, want)
				}
			}
			command("", "", bin+run.name+".test")
		})
	}
}

// printJS, before copied code, makes it print its state as JSON.
const printJS = "console.log = (state) => process.stdout.write(JSON.stringify(state) + '\\n');\n"

// runPython runs the copied code on its standard input and prints the printed state as JSON.
const runPython = `
import ast, contextlib, io, json, sys
printed = io.StringIO()
with contextlib.redirect_stdout(printed):
    exec(compile(sys.stdin.read(), "copied", "exec"), {"__name__": "__main__"})
print(json.dumps(ast.literal_eval(printed.getvalue())))
`

const graphOf = `
func graphOf(name string) (treadle.AnyGraph, error) {
	for _, g := range treadle.Must(studiotest.Graphs()) {
		if g.Name() == name {
			return g, nil
		}
	}
	return nil, errors.New("unknown graph")
}
`

// lasting decodes a state without the IDs of its messages.
func lasting[T string | json.RawMessage](t *testing.T, raw T) any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(raw), &v); err != nil {
		t.Fatalf("%v\n%s", err, raw)
	}
	messages, _ := v["messages"].([]any)
	for _, m := range messages {
		delete(m.(map[string]any), "id")
	}
	return fmt.Sprint(v)
}
