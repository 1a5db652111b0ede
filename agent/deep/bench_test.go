package deep_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/agent/deep"
	"github.com/treadle-go/treadle/agent/deep/files"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

const benchCalls = 20

// always returns a function that returns c.
func always(c llm.ToolCall) func(n int) llm.ToolCall {
	return func(int) llm.ToolCall { return c }
}

// afterWrite returns a function that returns a call that writes the file /f, and then always c.
func afterWrite(c llm.ToolCall) func(n int) llm.ToolCall {
	first := llmtest.ToolCall("write_file", args{"file_path": "/f", "content": "a text\n"})
	return func(n int) llm.ToolCall {
		if n == 0 {
			return first
		}
		return c
	}
}

// writes returns a call that writes a new text.
func writes(n int) llm.ToolCall {
	return llm.ToolCall{ID: "w", Name: "write_file", Args: fmt.Appendf(nil, `{"file_path":"/f","content":"text %d of %d\n"}`, n, benchThreads.Load())}
}

// edits returns a call that writes the file /f, and then calls that change it.
func edits(n int) llm.ToolCall {
	if n == 0 {
		return llm.ToolCall{ID: "w", Name: "write_file", Args: fmt.Appendf(nil, `{"file_path":"/f","content":"text 0 %s\n"}`, "of a file")}
	}
	return llm.ToolCall{ID: "e", Name: "edit_file", Args: fmt.Appendf(nil, `{"file_path":"/f","old_string":"text %d ","new_string":"text %d "}`, n-1, n)}
}

// repeat returns a model that makes one call per response, and then ends.
func repeat(call func(n int) llm.ToolCall) llm.Model {
	return llmtest.Func(func(_ context.Context, r *llm.Request) (llm.Message, error) {
		last := r.Messages[len(r.Messages)-1]
		if last.Role == llm.RoleHuman && last.Text() == "child" || len(r.Messages) > 2*benchCalls {
			return llm.Assistant("done"), nil
		}
		return llm.Assistant("", call(len(r.Messages)/2)), nil
	})
}

// callCases returns agents that differ only in the tool that they call.
func callCases(tb testing.TB) map[string]*treadle.Graph[agent.State, agent.State] {
	unchecked := new(bool) // the check, which go test enables, costs more than the calls
	child, err := agent.For[deep.State](repeat(always(llm.ToolCall{})), &agent.Options{Name: "child", Graph: treadle.Options{Check: unchecked}})
	if err != nil {
		tb.Fatal(err)
	}
	whole, err := deep.New(repeat(always(llm.ToolCall{})), &deep.Options{Name: "child", NoGeneral: true, Graph: treadle.Options{Check: unchecked}})
	if err != nil {
		tb.Fatal(err)
	}
	tasks := func(g deep.Runner) []*agent.Middleware {
		agents := []deep.Subagent{{Name: "child", Description: "x", Graph: g}}
		return []*agent.Middleware{deep.Subagents(repeat(always(llm.ToolCall{})), &deep.SubagentsOptions{Agents: agents, NoGeneral: true})}
	}
	open := func() *files.Dir {
		dir, err := files.NewDir(tb.TempDir())
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = dir.Close() }) // its files are no longer needed
		return dir
	}
	dir, written := open(), open()
	thread := []*agent.Middleware{deep.Files(nil)}
	onDisk := []*agent.Middleware{deep.Files(&deep.FilesOptions{Backend: dir})}
	if err := dir.Write(tb.Context(), "/f", []byte("a text\n"), files.Any); err != nil {
		tb.Fatal(err)
	}
	out := map[string]*treadle.Graph[agent.State, agent.State]{}
	for name, c := range map[string]struct {
		call  func(n int) llm.ToolCall
		parts []*agent.Middleware
	}{
		"plain":     {always(llmtest.ToolCall("echo", args{"text": "x"})), nil},
		"plainDeep": {always(llmtest.ToolCall("echo", args{"text": "x"})), thread},
		"read":      {afterWrite(llmtest.ToolCall("read_file", args{"file_path": "/f"})), thread},
		"write":     {writes, thread},
		"edit":      {edits, thread},
		"ls":        {afterWrite(llmtest.ToolCall("ls", args{"path": "/"})), thread},
		"glob":      {afterWrite(llmtest.ToolCall("glob", args{"pattern": "*"})), thread},
		"grep":      {afterWrite(llmtest.ToolCall("grep", args{"pattern": "text"})), thread},
		"readDir":   {always(llmtest.ToolCall("read_file", args{"file_path": "/f"})), onDisk},
		"lsDir":     {always(llmtest.ToolCall("ls", args{"path": "/"})), onDisk},
		"grepDir":   {always(llmtest.ToolCall("grep", args{"pattern": "text"})), onDisk},
		"writeDir":  {writes, []*agent.Middleware{deep.Files(&deep.FilesOptions{Backend: written})}},
		"task":      {always(task("child", "child")), tasks(child)},
		"taskDeep":  {always(task("child", "child")), tasks(whole)},
	} {
		out[name], err = agent.New(repeat(c.call), &agent.Options{Tools: []*llm.Tool{echo("echo")}, Middleware: c.parts,
			Graph: treadle.Options{Saver: checkpoint.NewMemory(), Check: unchecked}})
		if err != nil {
			tb.Fatal(err)
		}
	}
	return out
}

var benchThreads atomic.Int64

// twenty makes benchCalls calls on a new thread.
func twenty(tb testing.TB, g *treadle.Graph[agent.State, agent.State]) {
	if _, err := g.Thread(fmt.Sprint(benchThreads.Add(1))).Run(tb.Context(), agent.Ask("go")); err != nil {
		tb.Fatal(err)
	}
}

// BenchmarkCall reports the median duration of a call of each agent, and its ratio to plain. The
// agents take turns, so that a busy machine affects all of them.
func BenchmarkCall(b *testing.B) {
	all := callCases(b)
	took := map[string][]float64{}
	for b.Loop() {
		for name, g := range all {
			start := time.Now()
			twenty(b, g)
			took[name] = append(took[name], float64(time.Since(start).Nanoseconds())/1000/benchCalls)
		}
	}
	median := func(name string) float64 {
		slices.Sort(took[name])
		return took[name][len(took[name])/2]
	}
	for name := range all {
		b.ReportMetric(median(name), name+"-µs")
		b.ReportMetric(median(name)/median("plain"), name+"/plain")
	}
}

// A call of a file tool costs about as much as one or two calls of any tool, and a task no more
// than three, by the allocations of a run.
func TestCallOverhead(t *testing.T) {
	all := callCases(t)
	cost := func(name string) float64 {
		return testing.AllocsPerRun(5, func() { twenty(t, all[name]) })
	}
	plain := cost("plain")
	for name, most := range map[string]float64{"plainDeep": 1.1, "read": 1.5, "write": 1.5, "edit": 1.5, "ls": 1.5, "glob": 1.5, "grep": 1.5, "readDir": 1.5, "lsDir": 1.5, "grepDir": 1.7, "writeDir": 2, "task": 3, "taskDeep": 3} {
		ratio := cost(name) / plain
		t.Logf("%s: %.0f allocations, %.2f × a plain call", name, plain*ratio/benchCalls, ratio)
		if ratio > most {
			t.Errorf("%s costs %.2f × a plain call, want at most %v", name, ratio, most)
		}
	}
}
