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

// repeat returns a model that makes one call per response, and then ends.
func repeat(c llm.ToolCall) llm.Model {
	return llmtest.Func(func(_ context.Context, r *llm.Request) (llm.Message, error) {
		last := r.Messages[len(r.Messages)-1]
		if last.Role == llm.RoleHuman && last.Text() == "child" || len(r.Messages) > 2*benchCalls {
			return llm.Assistant("done"), nil
		}
		return llm.Assistant("", c), nil
	})
}

// callCases returns agents that differ only in the tool that they call.
func callCases(tb testing.TB) map[string]*treadle.Graph[agent.State, agent.State] {
	unchecked := new(bool) // the check, which go test enables, costs more than the calls
	child, err := agent.For[deep.State](repeat(llm.ToolCall{}), &agent.Options{Name: "child", Graph: treadle.Options{Check: unchecked}})
	if err != nil {
		tb.Fatal(err)
	}
	whole, err := deep.New(repeat(llm.ToolCall{}), &deep.Options{Name: "child", NoGeneral: true, Graph: treadle.Options{Check: unchecked}})
	if err != nil {
		tb.Fatal(err)
	}
	tasks := func(g deep.Runner) []*agent.Middleware {
		agents := []deep.Subagent{{Name: "child", Description: "x", Graph: g}}
		return []*agent.Middleware{deep.Subagents(repeat(llm.ToolCall{}), &deep.SubagentsOptions{Agents: agents, NoGeneral: true})}
	}
	dir, err := files.NewDir(tb.TempDir())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = dir.Close() }) // only read
	if err := dir.Write(tb.Context(), "/f", []byte("a text\n"), files.Any); err != nil {
		tb.Fatal(err)
	}
	out := map[string]*treadle.Graph[agent.State, agent.State]{}
	for name, c := range map[string]struct {
		call  llm.ToolCall
		parts []*agent.Middleware
	}{
		"plain":     {llmtest.ToolCall("echo", args{"text": "x"}), nil},
		"plainDeep": {llmtest.ToolCall("echo", args{"text": "x"}), []*agent.Middleware{deep.Files(nil)}},
		"read":      {llmtest.ToolCall("read_file", args{"file_path": "/none"}), []*agent.Middleware{deep.Files(nil)}},
		"write":     {llmtest.ToolCall("write_file", args{"file_path": "/f", "content": "a text"}), []*agent.Middleware{deep.Files(nil)}},
		"readDir":   {llmtest.ToolCall("read_file", args{"file_path": "/f"}), []*agent.Middleware{deep.Files(&deep.FilesOptions{Backend: dir})}},
		"task":      {task("child", "child"), tasks(child)},
		"taskDeep":  {task("child", "child"), tasks(whole)},
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

// A call of a file tool costs little more than that of any tool, and a task no more than three,
// by the allocations of a run.
func TestCallOverhead(t *testing.T) {
	all := callCases(t)
	cost := func(name string) float64 {
		return testing.AllocsPerRun(5, func() { twenty(t, all[name]) })
	}
	plain := cost("plain")
	for name, most := range map[string]float64{"plainDeep": 1.1, "read": 1.5, "write": 1.5, "readDir": 1.5, "task": 3, "taskDeep": 3} {
		if ratio := cost(name) / plain; ratio > most {
			t.Errorf("%s costs %.2f × a plain call, want at most %v", name, ratio, most)
		}
	}
}
