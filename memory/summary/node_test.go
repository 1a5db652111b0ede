package summary_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory/summary"
)

// State is a conversation with a context that others can see.
type State struct {
	llm.Chat
	Context summary.Context `json:"context"`
}

func compile(t *testing.T, b *treadle.Builder[State]) *treadle.Thread[State, State] {
	t.Helper()
	b.Edge(treadle.Start, "summarize")
	g, err := b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()})
	if err != nil {
		t.Fatal(err)
	}
	return g.Thread("1")
}

func run(t *testing.T, thread *treadle.Thread[State, State], ms llm.Messages) State {
	t.Helper()
	out, err := thread.Run(t.Context(), State{Chat: llm.Chat{Messages: ms}})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestNodeKeepsHistory(t *testing.T) {
	var seen []string
	b := treadle.New[State]("chat")
	treadle.AddNode(b, "summarize", summary.Node(by(llmtest.Scripted(t, llmtest.Say("A")), 6, 1)))
	treadle.AddNode(b, "call_model", func(_ context.Context, in struct {
		SummarizedMessages []llm.Message `json:"summarized_messages"`
	}) (none struct{}, err error) {
		seen = append(seen, shown(in.SummarizedMessages))
		return none, nil
	})
	b.Edge("summarize", "call_model")
	thread := compile(t, b)

	run(t, thread, chat(1, 5))
	snap, err := thread.State(t.Context())
	if err != nil || snap.Has("context") {
		t.Errorf("there is a context before there is a summary, %v", err)
	}
	run(t, thread, chat(6, 4))
	out := run(t, thread, chat(10, 2))
	if d := cmp.Diff([]string{"1 2 3 4 5", "system(A) 7 8 9", "system(A) 7 8 9 10 11"}, seen); d != "" {
		t.Error(d)
	}
	check(t, "history", shown(out.Messages), "1 2 3 4 5 6 7 8 9 10 11")
	check(t, "summary", out.Context.Running.Text, "A")
}

// Upstream shows the old summary again with each run when the summary takes the
// place of the history and there is a system message.
//
// Defect: §6.2 (E) a summary in place of the history is repeated with each run.
func TestReplacingNodeIsIdempotent(t *testing.T) {
	b := treadle.New[State]("chat")
	treadle.AddNode(b, "summarize", summary.ReplacingNode(by(llmtest.Scripted(t, llmtest.Say("A"), llmtest.Say("B")), 6, 1)))
	thread := compile(t, b)
	for _, turn := range []struct {
		update llm.Messages
		want   string
	}{
		{append(llm.Messages{with("s", llm.System("be brief"))}, chat(1, 5)...), "s 1 2 3 4 5"},
		{chat(6, 4), "s system(A) 7 8 9"},
		{nil, "s system(A) 7 8 9"},
		{chat(9, 1), "s system(A) 7 8 9"},
		{chat(10, 2), "s system(A) 7 8 9 10 11"},
		{chat(12, 2), "s system(B) 13"},
		{nil, "s system(B) 13"},
	} {
		if turn.update == nil {
			turn.update = llm.Messages{} // nothing new: the node just runs again
		}
		out := run(t, thread, turn.update)
		check(t, "history", shown(out.Messages), turn.want)
	}
}

func TestReplacingNodeWritesOnlyIfNeeded(t *testing.T) {
	node := summary.ReplacingNode(by(llmtest.Scripted(t, llmtest.Say("A")), 6, 1))
	out, err := node(t.Context(), summary.Input{Messages: chat(1, 9)})
	if err != nil {
		t.Fatal(err)
	}
	if first := (*out.Messages)[0]; first.Role != llm.RoleRemove || first.ID != llm.RemoveAll().ID {
		t.Errorf("the update starts with %v, not with the removal of all messages", first)
	}
	replaced, err := llm.Messages{}.Reduce(*out.Messages)
	if err != nil {
		t.Fatal(err)
	}
	again, err := node(t.Context(), summary.Input{Messages: replaced, Context: *out.Context})
	if d := cmp.Diff(summary.Replacement{}, again); d != "" || err != nil {
		t.Error(d, err)
	}
}

func TestFailedNodeWritesNothing(t *testing.T) {
	down := errors.New("down")
	b := treadle.New[State]("chat")
	treadle.AddNode(b, "summarize", summary.ReplacingNode(by(llmtest.Scripted(t, llmtest.Fail(down), llmtest.Say("A")), 6, 1)))
	thread := compile(t, b)
	_, err := thread.Run(t.Context(), State{Chat: llm.Chat{Messages: chat(1, 9)}})
	if !errors.Is(err, down) {
		t.Errorf("got %v", err)
	}
	snap, err := thread.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var s State
	if err := snap.Read(&s); err != nil {
		t.Fatal(err)
	}
	check(t, "history", shown(s.Messages), "1 2 3 4 5 6 7 8 9")
	// The thread continues from there.
	out, err := thread.Continue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	check(t, "history", shown(out.Messages), "system(A) 7 8 9")
}
