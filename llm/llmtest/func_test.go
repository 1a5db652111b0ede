package llmtest

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/treadle-go/treadle/llm"
)

func TestFuncStreamsItsMessage(t *testing.T) {
	echo := Func(func(_ context.Context, r *llm.Request) (llm.Message, error) {
		return llm.Message{Content: "You said " + r.Messages[0].Text()}, nil
	})
	got, last := contents(t, echo, llm.User("hi"))
	if want := []string{"You ", "said ", "hi"}; !slices.Equal(got, want) || last.Stop != llm.StopEnd {
		t.Errorf("chunks are %q with stop %q, want %q", got, last.Stop, want)
	}
	whole, err := llm.Generate(t.Context(), llm.With(echo, llm.NoStream()), llm.User("hi"))
	if err != nil || whole.Text() != "You said hi" || whole.Role != llm.RoleAI {
		t.Errorf("whole response is %+v, %v", whole, err)
	}
}

func TestFuncAssignsUniqueCallIDs(t *testing.T) {
	own := llm.ToolCall{ID: "call_2", Name: "a", Args: []byte("{}")}
	model := Func(func(context.Context, *llm.Request) (llm.Message, error) {
		return llm.Assistant("", ToolCall("a", "{}"), own, ToolCall("a", "{}")), nil
	})
	call := llm.ToolCall{ID: "call_1", Name: "a", Args: []byte("{}")}
	m, err := llm.Generate(t.Context(), model, llm.User("go"), llm.Assistant("", call), llm.ToolResult(call, "x"))
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, c := range m.ToolCalls {
		ids = append(ids, c.ID)
	}
	if want := []string{"call_3", "call_2", "call_4"}; !slices.Equal(ids, want) || m.Stop != llm.StopTools {
		t.Errorf("IDs are %q with stop %q, want %q", ids, m.Stop, want)
	}
}

func TestFuncFails(t *testing.T) {
	down := errors.New("down")
	called := false
	model := Func(func(context.Context, *llm.Request) (llm.Message, error) {
		called = true
		return llm.Message{}, down
	})
	if _, err := llm.Generate(t.Context(), model, llm.User("hi")); !errors.Is(err, down) {
		t.Errorf("err = %v, want %v", err, down)
	}
	called = false
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := llm.Generate(ctx, model, llm.User("hi")); !errors.Is(err, context.Canceled) || called {
		t.Errorf("canceled call: %v, function called: %t", err, called)
	}
}
