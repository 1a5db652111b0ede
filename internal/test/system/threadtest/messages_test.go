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
			t.Error("missing message was removed again")
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

// A database returns the conversation of the run, even if messages were replaced and
// removed.
func TestSavedConversationsAreUnchanged(t *testing.T) {
	onDatabases(t, func(t *testing.T, open func(*testing.T) checkpoint.Saver) {
		saver := open(t)
		build := func() *treadle.Graph[llm.Chat, llm.Chat] {
			b := treadle.New[llm.Chat]("chat")
			treadle.AddNode(b, "echo", func(_ context.Context, c llm.Chat) (chatted, error) {
				return chatted{llm.Messages{llm.Assistant("re: " + c.Messages[len(c.Messages)-1].Content)}}, nil
			})
			b.Edge(treadle.Start, "echo")
			return treadle.Must(b.Compile(&treadle.Options{Saver: saver}))
		}
		g := build()
		human := func(id, text string) llm.Message { return llm.Message{Role: llm.RoleHuman, ID: id, Content: text} }
		for i, update := range []llm.Messages{
			{human("1", "a")}, {human("2", "b")}, {human("1", "A")}, {llm.Remove("2"), human("3", "c")}, {human("4", "d")},
			{llm.RemoveAll(), human("5", "e")}, {human("6", "f")},
		} {
			out, err := g.Thread("t").Run(t.Context(), llm.Chat{Messages: update})
			if err != nil {
				t.Fatal(err)
			}
			snap, err := build().Thread("t").State(t.Context()) // as another process does
			if err != nil {
				t.Fatal(err)
			}
			var saved llm.Chat
			if err := snap.Read(&saved); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(out.Messages, saved.Messages); d != "" {
				t.Errorf("after turn %d (-run +saved):\n%s", i, d)
			}
		}
	})
}
