package agent_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// heard is a token stream as a client assembles it: messages in the order in which they
// start.
type heard struct {
	ids    []string
	text   map[string]string
	whole  map[string]bool // it came in one piece
	pieces map[string]int
	nodes  map[string]string // where its first piece is from
	custom []any
}

// listen puts a stream together. A message that comes in pieces must not come as a
// whole too, nor twice.
func listen(t *testing.T, events iter.Seq2[treadle.Event, error]) heard {
	t.Helper()
	h := heard{text: map[string]string{}, whole: map[string]bool{}, pieces: map[string]int{}, nodes: map[string]string{}}
	for ev, err := range events {
		if err != nil {
			t.Fatal(err)
		}
		if c, ok := ev.(treadle.Custom); ok {
			h.custom = append(h.custom, c.Value)
		}
		token, ok := ev.(treadle.Token)
		if r, returned := ev.(treadle.Returned); returned {
			token = treadle.Token{Origin: &r.Origin, Chunk: r.Message}
		} else if !ok {
			continue
		}
		id := token.Chunk.(interface{ MessageID() string }).MessageID()
		if id == "" {
			t.Errorf("a token has no ID: %+v", token.Chunk)
		}
		if h.whole[id] {
			t.Errorf("message %s was whole, and is followed by %+v", id, token.Chunk)
		}
		if !slices.Contains(h.ids, id) {
			h.ids = append(h.ids, id)
			h.nodes[id] = token.Where().Node
		}
		switch m := token.Chunk.(type) {
		case llm.Chunk:
			h.text[id] += m.Message().Text()
			h.pieces[id]++
		case llm.Message:
			if h.pieces[id] > 0 {
				t.Errorf("message %s came in pieces, and is repeated: %q", id, m.Text())
			}
			h.text[id], h.whole[id] = m.Text(), true
		}
	}
	return h
}

// said returns the messages as "node: text", without empty ones.
func (h heard) said() []string {
	var out []string
	for _, id := range h.ids {
		if h.text[id] != "" {
			out = append(out, h.nodes[id]+": "+h.text[id])
		}
	}
	return out
}

// Tokens arrive from every model call: in an agent, in an agent that a tool runs, in a
// subgraph, and in a task. Every chunk has the ID of its message, and no message is
// repeated when its node ends.
func TestTokensStreamFromAnyDepth(t *testing.T) {
	modes := treadle.Modes(treadle.ModeMessages)
	one := func(text string) llm.Model { return llmtest.Scripted(t, llmtest.Say(text)) }
	nested := func(t *testing.T, g *treadle.Graph[agent.State, agent.State]) *treadle.Graph[agent.State, agent.State] {
		b := treadle.New[agent.State]("around_" + g.Name())
		treadle.AddGraph(b, "inner", g)
		b.Edge(treadle.Start, "inner")
		g, err := b.Compile(nil)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	run := func(name string, g *treadle.Graph[agent.State, agent.State]) *llm.Tool {
		return llm.NewTool(name, "", func(ctx context.Context, _ struct{}) (string, error) {
			out, err := g.Run(ctx, agent.Ask("from a tool"))
			return agent.Answer(out), err
		})
	}
	for _, tc := range []struct {
		name string
		make func(t *testing.T) *treadle.Graph[agent.State, agent.State]
		want []string
	}{
		{"agent", func(t *testing.T) *treadle.Graph[agent.State, agent.State] {
			return newAgent(t, "a", []*llm.Tool{getWeather}, llmtest.Ask(llmtest.ToolCall("get_weather", city{"Rome"})), llmtest.Say("It rains."))
		}, []string{"tools: It's rainy!", "model: It rains."}},
		{"graph in a graph in a graph", func(t *testing.T) *treadle.Graph[agent.State, agent.State] {
			return nested(t, nested(t, newAgent(t, "a", nil, llmtest.Say("Deep down."))))
		}, []string{"model: Deep down."}},
		{"agent with tools in a graph in a graph", func(t *testing.T) *treadle.Graph[agent.State, agent.State] {
			return nested(t, nested(t, newAgent(t, "a", []*llm.Tool{getWeather},
				llmtest.Ask(llmtest.ToolCall("get_weather", city{"Rome"}), llmtest.ToolCall("get_weather", city{"Oslo"})), llmtest.Say("It rains."))))
		}, []string{"tools: It's rainy!", "tools: It's rainy!", "model: It rains."}},
		{"agent as a tool", func(t *testing.T) *treadle.Graph[agent.State, agent.State] {
			inner := nested(t, newAgent(t, "a", nil, llmtest.Say("From within.")))
			return newAgent(t, "b", []*llm.Tool{run("ask", inner)}, llmtest.Ask(llmtest.ToolCall("ask", "{}")), llmtest.Say("So it is."))
		}, []string{"model: From within.", "tools: From within.", "model: So it is."}},
		{"agents as tools, side by side", func(t *testing.T) *treadle.Graph[agent.State, agent.State] {
			x, y := run("x", newAgent(t, "x", nil, llmtest.Say("Same words."))), run("y", newAgent(t, "y", nil, llmtest.Say("Same words.")))
			return newAgent(t, "b", []*llm.Tool{x, y}, llmtest.Ask(llmtest.ToolCall("x", "{}"), llmtest.ToolCall("y", "{}")), llmtest.Say("Both agree."))
		}, []string{"model: Same words.", "model: Same words.", "tools: Same words.", "tools: Same words.", "model: Both agree."}},
		{"task", func(t *testing.T) *treadle.Graph[agent.State, agent.State] {
			model := one("From a task.")
			ask := treadle.NewTask("ask", func(ctx context.Context, ms llm.Messages) (llm.Message, error) {
				return llm.Generate(ctx, model, ms...)
			})
			g, err := treadle.NewWorkflow("w", func(ctx context.Context, s agent.State) (agent.State, error) {
				m, err := ask.Run(ctx, s.Messages)
				s.Messages = append(s.Messages, m)
				return s, err
			}, nil)
			if err != nil {
				t.Fatal(err)
			}
			return g
		}, []string{"ask: From a task."}},
		{"team", func(t *testing.T) *treadle.Graph[agent.State, agent.State] {
			g, err := agent.Supervisor(llmtest.Scripted(t, llmtest.Ask(toMath), llmtest.Say("It is 3.")),
				agents{newAgent(t, "math", nil, llmtest.Say("Three."))}, &agent.SupervisorOptions{HideHandoffs: true})
			if err != nil {
				t.Fatal(err)
			}
			return g
		}, []string{"model: Three.", "model: It is 3."}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := listen(t, tc.make(t).Stream(t.Context(), agent.Ask("hi"), modes))
			if d := cmp.Diff(tc.want, h.said()); d != "" {
				t.Errorf("messages (-want +got):\n%s", d)
			}
		})
	}
}

// The chunks have the ID of the message in the state, and a message from an earlier turn
// is not streamed again.
func TestTokensCarryMessageID(t *testing.T) {
	a, err := agent.New(llmtest.Scripted(t, llmtest.Say("first answer"), llmtest.Say("second answer")),
		&agent.Options{Graph: treadle.Options{Saver: checkpoint.NewMemory()}})
	if err != nil {
		t.Fatal(err)
	}
	thread := a.Thread("1")
	for _, want := range []string{"first answer", "second answer"} {
		h := listen(t, thread.Stream(t.Context(), agent.Ask("hi"), treadle.Modes(treadle.ModeMessages)))
		snap, err := thread.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var s agent.State
		if err := snap.Read(&s); err != nil {
			t.Fatal(err)
		}
		last := s.Messages[len(s.Messages)-1]
		if d := cmp.Diff([]string{last.ID}, h.ids); d != "" || h.text[last.ID] != want || h.pieces[last.ID] != 2 {
			t.Errorf("streamed %q in %d pieces; ids (-want +got):\n%s", h.text[last.ID], h.pieces[last.ID], d)
		}
	}
}

// A model that does not stream is one event with the whole message.
func TestWholeMessageIsStreamedOnce(t *testing.T) {
	a, err := agent.New(llm.With(llmtest.Scripted(t, llmtest.Say("all at once")), llm.NoStream()), nil)
	if err != nil {
		t.Fatal(err)
	}
	h := listen(t, a.Stream(t.Context(), agent.Ask("hi"), treadle.Modes(treadle.ModeMessages)))
	if d := cmp.Diff([]string{"model: all at once"}, h.said()); d != "" || !h.whole[h.ids[0]] {
		t.Errorf("messages (-want +got):\n%s", d)
	}
}

// Events emitted by tools reach the outermost stream, even from an agent that another
// agent's tool runs.
func TestToolProgressReachesStream(t *testing.T) {
	work := llm.NewTool("work", "", func(ctx context.Context, in struct{ Steps int }) (string, error) {
		for i := range in.Steps {
			treadle.Emit(ctx, fmt.Sprintf("%d/%d", i+1, in.Steps))
		}
		return "done", nil
	})
	inner := newAgent(t, "inner", []*llm.Tool{work}, llmtest.Ask(llmtest.ToolCall("work", `{"Steps":2}`)), llmtest.Say("worked"))
	ask := llm.NewTool("ask", "", func(ctx context.Context, _ struct{}) (string, error) {
		out, err := inner.Run(ctx, agent.Ask("work"))
		return agent.Answer(out), err
	})
	outer := newAgent(t, "outer", []*llm.Tool{work, ask},
		llmtest.Ask(llmtest.ToolCall("work", `{"Steps":1}`)), llmtest.Ask(llmtest.ToolCall("ask", "{}")), llmtest.Say("ok"))
	h := listen(t, outer.Stream(t.Context(), agent.Ask("go"), treadle.Modes(treadle.ModeCustom)))
	if d := cmp.Diff([]any{"1/1", "1/2", "2/2"}, h.custom); d != "" {
		t.Errorf("progress (-want +got):\n%s", d)
	}
}
