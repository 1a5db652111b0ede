package deep_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/agent/deep"
	"github.com/treadle-go/treadle/agent/deep/files"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

const benchCalls = 20

// repeat is a model that makes one call per response, and then ends.
func repeat(c llm.ToolCall) llm.Model {
	return llmtest.Func(func(_ context.Context, r *llm.Request) (llm.Message, error) {
		last := r.Messages[len(r.Messages)-1]
		if last.Role == llm.RoleHuman && last.Text() == "child" || len(r.Messages) > 2*benchCalls {
			return llm.Assistant("done"), nil
		}
		return llm.Assistant("", c), nil
	})
}

// The agents differ only in the tool that they call. Compare write and read with plain, and
// task with plain.
func BenchmarkCall(b *testing.B) {
	quiet := []deep.Subagent{{Name: "child", Description: "x", Model: repeat(llm.ToolCall{})}}
	dir, err := files.NewDir(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer dir.Close()
	if err := dir.Write(b.Context(), "/f", []byte("a text\n"), files.Any); err != nil {
		b.Fatal(err)
	}
	for name, c := range map[string]struct {
		call  llm.ToolCall
		parts []*agent.Middleware
	}{
		"plain":     {llmtest.ToolCall("echo", args{"text": "x"}), nil},
		"plainDeep": {llmtest.ToolCall("echo", args{"text": "x"}), []*agent.Middleware{deep.Files(nil)}},
		"read":      {llmtest.ToolCall("read_file", args{"file_path": "/none"}), []*agent.Middleware{deep.Files(nil)}},
		"write":     {llmtest.ToolCall("write_file", args{"file_path": "/f", "content": "a text"}), []*agent.Middleware{deep.Files(nil)}},
		"readDir":   {llmtest.ToolCall("read_file", args{"file_path": "/f"}), []*agent.Middleware{deep.Files(&deep.FilesOptions{Backend: dir})}},
		"task":      {task("child", "child"), []*agent.Middleware{deep.Subagents(repeat(llm.ToolCall{}), &deep.SubagentsOptions{Agents: quiet, NoGeneral: true})}},
	} {
		b.Run(name, func(b *testing.B) {
			g, err := agent.New(repeat(c.call), &agent.Options{Tools: []*llm.Tool{echo("echo")}, Middleware: c.parts, Graph: treadle.Options{Saver: checkpoint.NewMemory()}})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n++
				if _, err := g.Thread(fmt.Sprint(n)).Run(b.Context(), agent.Ask("go")); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(n*benchCalls), "µs/call")
		})
	}
}
