package agent_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/reduce"
)

type notes struct {
	Notes    reduce.List[string] `json:"notes"`
	Messages llm.Messages
}

// A tool reads a field that is private to its middleware, alone and among other calls, and
// so does the wrapper of the model.
func TestToolsAndWrappersReadFields(t *testing.T) {
	var seen []int
	add := llm.NewTool("note", "Adds a note.", func(ctx context.Context, in struct {
		Text string `json:"text"`
	}) (treadle.Command[notes], error) {
		was, ok := agent.FieldsFrom[notes](ctx)
		if !ok || len(was.Messages) == 0 {
			t.Error("tool sees no fields")
		}
		call, _ := llm.CallFrom(ctx)
		return treadle.Command[notes]{Update: &notes{reduce.List[string]{in.Text}, llm.Messages{llm.ToolResult(call, len(was.Notes))}}}, nil
	})
	m := &agent.Middleware{Name: "notes", Tools: []*llm.Tool{add}, Fields: agent.NewFields[notes](),
		WrapModel: func(ctx context.Context, c agent.ModelCall, next agent.ModelFunc) (llm.Message, error) {
			n, _ := agent.FieldsFrom[notes](ctx)
			seen = append(seen, len(n.Notes))
			return next(ctx, c)
		}}
	note := func(text string) llm.ToolCall { return llmtest.ToolCall("note", map[string]any{"text": text}) }
	model := llmtest.Scripted(t, llmtest.Ask(note("a")), llmtest.Ask(note("b"), note("c")), llmtest.Say("done"))
	thread := made(t, model, &agent.Options{Middleware: []*agent.Middleware{m}, Graph: memory()}).Thread("1")
	if _, err := thread.Run(t.Context(), agent.Ask("go")); err != nil {
		t.Fatal(err)
	}
	snap, err := thread.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got notes
	if err := snap.Read(&got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(reduce.List[string]{"a", "b", "c"}, got.Notes); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]int{0, 1, 3}, seen); d != "" {
		t.Error(d)
	}
	if _, ok := agent.FieldsFrom[notes](t.Context()); ok {
		t.Error("fields outside of a run")
	}
}

func TestFieldsMustBeStruct(t *testing.T) {
	for _, f := range []*agent.Fields{{}, agent.NewFields[int]()} {
		_, err := agent.New(llmtest.Scripted(t), &agent.Options{Middleware: []*agent.Middleware{{Name: "x", Fields: f}}})
		if err == nil {
			t.Error("invalid fields accepted")
		}
	}
}
