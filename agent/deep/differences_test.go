package deep_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/agent/deep"
	"github.com/treadle-go/treadle/agent/deep/files"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// These tests show where a deep agent differs from LangChain's; docs/parity/names.md names them.

func TestVideoIsOneBlock(t *testing.T) {
	video := []byte("\x00\x00\x00\x18ftypmp42")
	out, _ := results(t, nil, files.Records{"/v.mp4": {Content: video}}, llmtest.ToolCall("read_file", args{"file_path": "/v.mp4", "offset": 3, "limit": 2}))
	if b := out[0].Blocks; len(b) != 1 || b[0].Type != llm.BlockVideo || string(b[0].Data) != string(video) {
		t.Errorf("got %+v", b)
	}
}

// A provider rejects a request because of an image. The run fails, and the request is not
// repeated without the image.
func TestRejectedMediaFailsRun(t *testing.T) {
	calls := 0
	rejected := errors.New("image too large")
	model := llmtest.Func(func(_ context.Context, r *llm.Request) (llm.Message, error) {
		if calls++; calls == 1 {
			return llm.Assistant("", llmtest.ToolCall("read_file", args{"file_path": "/a.png"})), nil
		}
		return llm.Message{}, rejected
	})
	in := deep.Ask("go")
	in.Files = files.Records{"/a.png": {Content: []byte("\x89PNG\r\n\x1a\n")}}
	if _, err := made(t, model, nil).Run(t.Context(), in); !errors.Is(err, rejected) || calls != 2 {
		t.Errorf("%d calls, error %v", calls, err)
	}
}

// Each tool rejects unknown arguments, so that nothing that a model makes up gets lost.
func TestUnknownArgumentsAreRejected(t *testing.T) {
	for name, a := range map[string]args{
		"ls":   {"path": "/", "recursive": true},
		"grep": {"pattern": "x", "context": 2},
		"task": {"subagent_type": "general-purpose", "description": "x", "prompt": "y"},
		// A sub-agent has one response type, for scripts too.
		"task ": {"subagent_type": "general-purpose", "description": "x", "response_schema": args{"type": "object"}},
	} {
		got := one(t, nil, nil, strings.TrimSpace(name), a)
		contains(t, got, "unexpected additional properties", "Please fix the error")
	}
}

// An agent with a state of its own type has the parts of a deep agent, and its tools read and
// write the fields.
func TestPartsWithOwnState(t *testing.T) {
	type own struct {
		deep.State
		Color string `json:"color"`
	}
	paint := llm.NewTool("paint", "Changes the color.", func(ctx context.Context, _ struct{}) (any, error) {
		call, _ := llm.CallFrom(ctx)
		s, ok := llm.StateFrom[own](ctx)
		if !ok || s.Color != "red" {
			return nil, errors.New("no color")
		}
		update := treadle.Update{"color": "blue", "Messages": llm.Messages{llm.ToolResult(call, "painted")}}
		return treadle.Command[treadle.Update]{Update: &update}, nil
	})
	model := llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("paint", args{}), llmtest.ToolCall("write_file", args{"file_path": "/f", "content": "x"})), llmtest.Say("done"))
	g, err := agent.For[own](model, &agent.Options{Tools: []*llm.Tool{paint}, Middleware: []*agent.Middleware{deep.Files(nil), agent.Todos()}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := g.Run(t.Context(), own{State: deep.Ask("go"), Color: "red"})
	if err != nil || out.Color != "blue" || string(out.Files["/f"].Content) != "x" {
		t.Errorf("got %q, %v, %v", out.Color, out.Files, err)
	}
}

// The context of a run reaches the tools of sub-agents.
func TestContextReachesSubagents(t *testing.T) {
	who := llm.NewTool("who", "Returns the user.", func(ctx context.Context, _ struct{}) (string, error) {
		user, _ := treadle.ContextFrom[string](ctx)
		return "user " + user, nil
	})
	worker := child(t, "worker", llmtest.Ask(llmtest.ToolCall("who", args{})), llmtest.Say("done", llmtest.Asked("user Ada")))
	worker.Tools = []*llm.Tool{who}
	model := llmtest.Scripted(t, llmtest.Ask(task("worker", "x")), llmtest.Say("done"))
	g, err := deep.New(model, &deep.Options{Subagents: []deep.Subagent{worker}, Graph: treadle.Options{Saver: checkpoint.NewMemory()}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Thread("1", treadle.Context("Ada")).Run(t.Context(), deep.Ask("go")); err != nil {
		t.Fatal(err)
	}
}

// Large results go to the same directory of the thread, whatever the backend.
func TestArtifactsStayInThread(t *testing.T) {
	dir := t.TempDir()
	big := strings.Repeat("line\n", 20_000)
	out, state := results(t, &deep.Options{Tools: []*llm.Tool{echo("say")}, Files: deep.FilesOptions{Backend: disk(t, dir)}}, nil,
		llmtest.ToolCall("say", args{"text": big}))
	contains(t, out[0].Text(), "/large_tool_results/")
	if len(state.Files) != 1 {
		raw, _ := json.Marshal(state.Files)
		t.Errorf("got files %.200s", raw)
	}
}
