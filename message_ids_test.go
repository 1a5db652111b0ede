package treadle_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/dynamic"
	"github.com/treadle-go/treadle/internal/observe"
	"github.com/treadle-go/treadle/llm"
)

// reply contains the messages that a node adds to a chat.
type reply struct {
	Messages llm.Messages `json:"messages"`
}

// idsIn returns the IDs of the messages anywhere in the wire form of an event.
func idsIn(t *testing.T, ev treadle.Event) (ids []string) {
	t.Helper()
	_, _, raw, err := dynamic.Wire{}.Frame(ev)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, x := range v {
				walk(x)
			}
		case map[string]any:
			if _, ok := v["content"]; ok {
				id, _ := v["id"].(string)
				ids = append(ids, id)
				return
			}
			for _, k := range slices.Sorted(maps.Keys(v)) {
				walk(v[k])
			}
		}
	}
	walk(v)
	return ids
}

// If a node returns a message without an ID, streams in every mode show it with its ID in
// the state, regardless of the number of nodes that write in the step.
func TestStreamsShowMessageIDsOfState(t *testing.T) {
	say := func(text string) func(context.Context, llm.Chat) (reply, error) {
		return func(context.Context, llm.Chat) (reply, error) {
			return reply{Messages: llm.Messages{llm.Assistant(text)}}, nil
		}
	}
	inner := treadle.New[llm.Chat]("inner")
	treadle.AddNode(inner, "say", say("nested"))
	inner.Edge(treadle.Start, "say")
	sub := weave(t, inner, nil)
	for name, build := range map[string]func(b *treadle.Builder[llm.Chat]){
		"one node": func(b *treadle.Builder[llm.Chat]) {
			treadle.AddNode(b, "a", say("same"))
			b.Edge(treadle.Start, "a")
		},
		"equal messages of one step": func(b *treadle.Builder[llm.Chat]) {
			for _, n := range []string{"a", "b", "c"} {
				treadle.AddNode(b, n, say("same"))
				b.Edge(treadle.Start, n)
			}
		},
		"sends": func(b *treadle.Builder[llm.Chat]) {
			n := treadle.AddNode(b, "a", func(context.Context, int) (reply, error) { return say("same")(nil, llm.Chat{}) })
			treadle.AddBranch(b, treadle.Start, func(context.Context, llm.Chat) (treadle.Goto, error) {
				return append(treadle.Send(n, 1), treadle.Send(n, 2)...), nil
			}, "a")
		},
		"several commands": func(b *treadle.Builder[llm.Chat]) {
			treadle.AddNode(b, "a", func(context.Context, llm.Chat) ([]treadle.Command[reply], error) {
				one := reply{Messages: llm.Messages{llm.Assistant("same"), llm.Assistant("same")}}
				return []treadle.Command[reply]{{Update: &one}, {Update: &one}}, nil
			})
			b.Edge(treadle.Start, "a")
		},
		"replacement": func(b *treadle.Builder[llm.Chat]) {
			treadle.AddNode(b, "a", func(_ context.Context, c llm.Chat) (reply, error) {
				return reply{Messages: llm.Messages{llm.RemoveAll(), llm.Assistant("new"), llm.Assistant("new")}}, nil
			})
			b.Edge(treadle.Start, "a")
		},
		"subgraph": func(b *treadle.Builder[llm.Chat]) {
			treadle.AddGraph(b, "a", sub)
			b.Edge(treadle.Start, "a")
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := treadle.New[llm.Chat]("chat")
			build(b)
			shown := map[treadle.Mode][]string{}
			var state llm.Chat
			modes := treadle.ModeUpdates | treadle.ModeMessages | treadle.ModeTasks | treadle.ModeEvents
			for ev, err := range weave(t, b, nil).Stream(t.Context(), llm.Chat{Messages: llm.Messages{llm.User("hi")}}, treadle.Modes(modes)) {
				if err != nil {
					t.Fatal(err)
				}
				switch e := ev.(type) {
				case treadle.Finished[llm.Chat]:
					state = e.Output
				case treadle.Updated, treadle.TaskFinished, treadle.Returned:
					at := ev.Where()
					shown[at.Mode] = append(shown[at.Mode], idsIn(t, ev)...)
				case treadle.Lifecycle:
					if e.Event == "on_chain_end" && e.Node != "" && len(e.Namespace) == 0 {
						e.Input = nil
						shown[e.Mode] = append(shown[e.Mode], idsIn(t, e)...)
					}
				}
			}
			var want []string
			for _, m := range state.Messages {
				if m.Role == llm.RoleAI {
					want = append(want, m.ID)
				}
			}
			slices.Sort(want)
			if len(want) == 0 || want[0] == "" || len(slices.Compact(slices.Clone(want))) < len(want) {
				t.Fatalf("messages have the ids %q", want)
			}
			for _, mode := range []treadle.Mode{treadle.ModeUpdates, treadle.ModeTasks, treadle.ModeMessages, treadle.ModeEvents} {
				got := slices.DeleteFunc(shown[mode], func(id string) bool { return id == llm.RemoveAll().ID })
				slices.Sort(got)
				same(t, "ids in mode "+mode.String(), want, got)
			}
		})
	}
}

// A result saved before another task of its step failed keeps the IDs that the stream has
// shown.
func TestSavedResultsKeepMessageIDs(t *testing.T) {
	var failed bool
	shown := map[string]bool{}
	b := treadle.New[llm.Chat]("chat")
	first := make(chan struct{})
	treadle.AddNode(b, "a", func(context.Context, llm.Chat) (reply, error) {
		defer close(first)
		return reply{Messages: llm.Messages{llm.Assistant("same")}}, nil
	})
	treadle.AddNode(b, "b", func(context.Context, llm.Chat) (reply, error) {
		<-first
		if !failed {
			failed = true
			return reply{}, errors.New("once")
		}
		return reply{Messages: llm.Messages{llm.Assistant("same")}}, nil
	})
	b.Edge(treadle.Start, "a")
	b.Edge(treadle.Start, "b")
	th := weave(t, b, &treadle.Options{Saver: checkpoint.NewMemory()}).Thread("t")
	note := func(ev treadle.Event) {
		if u, ok := ev.(treadle.Updated); ok {
			for _, id := range idsIn(t, u) {
				shown[id] = true
			}
		}
	}
	for ev, err := range th.Stream(t.Context(), llm.Chat{Messages: llm.Messages{llm.User("hi")}}, treadle.Modes(treadle.ModeUpdates)) {
		if err == nil {
			note(ev)
		}
	}
	out, err := th.Continue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Messages) != 3 || out.Messages[1].ID == out.Messages[2].ID || !shown[out.Messages[1].ID] {
		t.Errorf("the stream has shown %v, and the state has %q and %q", shown, out.Messages[1].ID, out.Messages[2].ID)
	}
}

// LangGraph sends the event of a piece or message before the item of the mode messages.
func TestEventsPrecedeMessages(t *testing.T) {
	b := treadle.New[llm.Chat]("chat")
	treadle.AddNode(b, "streams", func(ctx context.Context, _ llm.Chat) (reply, error) {
		_, span := observe.Begin(ctx, observe.Call{Kind: observe.Model})
		span.Chunk(llm.Chunk{ID: "m1", Content: "a"})
		span.Chunk(llm.Chunk{ID: "m1", Content: "b"})
		m := llm.Assistant("ab")
		m.ID = "m1"
		span.End(m, nil)
		return reply{Messages: llm.Messages{m}}, nil
	})
	treadle.AddNode(b, "answers", func(ctx context.Context, _ llm.Chat) (reply, error) {
		_, span := observe.Begin(ctx, observe.Call{Kind: observe.Model})
		m := llm.Assistant("whole")
		m.ID = "m2"
		span.End(m, nil)
		return reply{Messages: llm.Messages{m}}, nil
	})
	treadle.AddNode(b, "returns", func(context.Context, llm.Chat) (reply, error) {
		return reply{Messages: llm.Messages{llm.Assistant("made")}}, nil
	})
	b.Edge(treadle.Start, "streams")
	b.Edge("streams", "answers")
	b.Edge("answers", "returns")
	var got []string
	for ev, err := range weave(t, b, nil).Stream(t.Context(), llm.Chat{}, treadle.Modes(treadle.ModeEvents|treadle.ModeMessages|treadle.ModeUpdates|treadle.ModeTasks)) {
		if err != nil {
			t.Fatal(err)
		}
		switch ev := ev.(type) {
		case treadle.Lifecycle:
			if len(ev.Parents) > 0 {
				got = append(got, ev.Event)
			}
		case treadle.Token, treadle.Returned:
			got = append(got, "message")
		case treadle.Updated:
			got = append(got, "update")
		case treadle.TaskFinished:
			got = append(got, "task")
		}
	}
	same(t, "events", []string{
		"on_chain_start", "on_chat_model_start", "on_chat_model_stream", "message", "on_chat_model_stream", "message", "on_chat_model_end", "on_chain_stream", "on_chain_end", "update", "task",
		"on_chain_start", "on_chat_model_start", "on_chat_model_end", "message", "on_chain_stream", "on_chain_end", "update", "task",
		"on_chain_start", "on_chain_stream", "on_chain_end", "message", "update", "task",
	}, got)
}
