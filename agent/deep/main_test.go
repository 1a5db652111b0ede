package deep_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/agent/deep"
	"github.com/treadle-go/treadle/agent/deep/files"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// No run may leak a goroutine.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type thread = *treadle.Thread[deep.State, deep.State]

// made returns a thread of a deep agent with a memory saver.
func made(t *testing.T, model llm.Model, o *deep.Options) thread {
	t.Helper()
	own := deep.Options{}
	if o != nil {
		own = *o
	}
	if own.Graph.Saver == nil {
		own.Graph.Saver = checkpoint.NewMemory()
	}
	g, err := deep.New(model, &own)
	if err != nil {
		t.Fatal(err)
	}
	return g.Thread("1")
}

// args are the arguments of a call.
type args = map[string]any

// results runs an agent whose model makes the calls, one message each, and returns the
// results.
func results(t *testing.T, o *deep.Options, in files.Records, calls ...llm.ToolCall) (out []llm.Message, state deep.State) {
	t.Helper()
	var turns []llmtest.Turn
	for _, c := range calls {
		turns = append(turns, llmtest.Ask(c))
	}
	given := deep.Ask("go")
	given.Files = in
	state, err := made(t, llmtest.Scripted(t, append(turns, llmtest.Say("done"))...), o).Run(t.Context(), given)
	if err != nil {
		t.Fatal(err)
	}
	return toolResults(state), state
}

func toolResults(s deep.State) (out []llm.Message) {
	for _, m := range s.Messages {
		if m.Role == llm.RoleTool {
			out = append(out, m)
		}
	}
	return out
}

// one runs an agent whose model makes one call, and returns the text of its result.
func one(t *testing.T, o *deep.Options, in files.Records, name string, a args) string {
	t.Helper()
	out, _ := results(t, o, in, llmtest.ToolCall(name, a))
	return out[0].Text()
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%.600q does not contain %q", text, part)
		}
	}
}

func lacks(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if strings.Contains(text, part) {
			t.Errorf("%.600q contains %q", text, part)
		}
	}
}

// asked returns the pending questions of a stopped run.
func asked(t *testing.T, err error, n int) []treadle.Pause {
	t.Helper()
	stop, ok := errors.AsType[*treadle.InterruptError](err)
	if !ok || len(stop.Pauses) != n {
		t.Fatalf("want %d questions, got %v", n, err)
	}
	return stop.Pauses
}

func review(t *testing.T, p treadle.Pause) agent.Action {
	t.Helper()
	var r agent.Review
	if err := p.Decode(&r); err != nil {
		t.Fatal(err)
	}
	return r.Calls[0]
}

func disk(t *testing.T, at string) *files.Dir {
	t.Helper()
	d, err := files.NewDir(at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func onDisk(t *testing.T, at ...string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(at...))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func put(t *testing.T, content string, at ...string) {
	t.Helper()
	p := filepath.Join(at...)
	if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

var approve = agent.Decisions{{Type: agent.Approve}}

// echo returns a tool that returns its argument.
func echo(name string) *llm.Tool {
	return llm.NewTool(name, "Returns the text.", func(_ context.Context, in struct {
		Text string `json:"text"`
	}) (string, error) {
		return in.Text, nil
	})
}

var sortStrings = cmpopts.SortSlices(strings.Compare)
