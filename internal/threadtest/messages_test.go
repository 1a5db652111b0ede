package threadtest_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
)

type chatted struct{ Messages llm.Messages }

// Parity: 46.
func TestMessagesAreRemovedByEditsAndByNodes(t *testing.T) {
	suite := func(t *testing.T, open func(*testing.T) checkpoint.Saver) {
		b := treadle.New[llm.Chat]("chat")
		treadle.AddNode(b, "answer", func(context.Context, llm.Chat) (chatted, error) {
			return chatted{llm.Messages{{Role: llm.RoleAI, ID: "a", Content: "hello"}}}, nil
		})
		treadle.AddNode(b, "forget", func(_ context.Context, c llm.Chat) (chatted, error) {
			return chatted{llm.Messages{llm.Remove(c.Messages[0].ID)}}, nil
		})
		b.Edge(treadle.Start, "answer")
		b.Edge("answer", "forget")
		g, err := b.Compile(&treadle.Options{Saver: open(t)})
		if err != nil {
			t.Fatal(err)
		}
		thread := g.Thread("t")
		out, err := thread.Run(t.Context(), llm.Chat{Messages: llm.Messages{
			{Role: llm.RoleHuman, ID: "1", Content: "hi"}, {Role: llm.RoleHuman, ID: "2", Content: "there"}}})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]string{"2", "a"}, messageIDs(out.Messages)); d != "" {
			t.Errorf("after the node's removal (-want +got):\n%s", d)
		}
		if _, err := thread.Update(t.Context(), chatted{llm.Messages{llm.Remove("2")}}, treadle.AsNode("forget")); err != nil {
			t.Fatal(err)
		}
		snap, err := thread.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var state llm.Chat
		if err := snap.Read(&state); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]string{"a"}, messageIDs(state.Messages)); d != "" {
			t.Errorf("after the edit's removal (-want +got):\n%s", d)
		}
		if _, err := thread.Update(t.Context(), chatted{llm.Messages{llm.Remove("2")}}, treadle.AsNode("forget")); err == nil {
			t.Error("a message that is not there was removed once more")
		}
	}
	t.Run("memory", func(t *testing.T) { suite(t, memory) })
	onDatabases(t, suite)
}

func messageIDs(ms llm.Messages) (ids []string) {
	for _, m := range ms {
		ids = append(ids, m.ID)
	}
	return ids
}
