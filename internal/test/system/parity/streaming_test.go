package parity_test

import (
	"context"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/internal/observe"
)

// message has the recorded form of a chat message.
type message struct {
	Content  string         `json:"content"`
	Kwargs   map[string]any `json:"additional_kwargs"`
	Response map[string]any `json:"response_metadata"`
	Type     string         `json:"type"`
	Name     *string        `json:"name"`
	ID       string         `json:"id"`
	*aiPart
	*chunkPart
}

type aiPart struct {
	ToolCalls    []any `json:"tool_calls"`
	InvalidCalls []any `json:"invalid_tool_calls"`
	Usage        *any  `json:"usage_metadata"`
}

type chunkPart struct {
	Calls    []any   `json:"tool_call_chunks"`
	Position *string `json:"chunk_position"`
}

// MessageID implements observe.Message.
func (m message) MessageID() string { return m.ID }

func ai(id, content string) message {
	return message{Content: content, Kwargs: map[string]any{}, Response: map[string]any{}, Type: "ai", ID: id,
		aiPart: &aiPart{ToolCalls: []any{}, InvalidCalls: []any{}}}
}

// messages is a list that merges by id, as far as these graphs need it.
type messages []message

func (l messages) Reduce(u messages) messages {
	out := append(messages{}, l...)
next:
	for _, m := range u {
		for i := range out {
			if out[i].ID == m.ID {
				out[i] = m
				continue next
			}
		}
		out = append(out, m)
	}
	return out
}

type chatState struct {
	Messages messages `json:"messages"`
}

// said is what nodes write of it.
type said struct{ Messages messages }

// model is a scripted model that streams its answer in words and blanks.
type model struct {
	answer string
	tags   []string
	whole  bool // do not stream
}

func (m model) call(ctx context.Context, input any) message {
	id := "lc_run--" + treadle.InfoFrom(ctx).TaskID
	if text, ok := input.(string); ok {
		input = []any{map[string]any{"content": text, "additional_kwargs": map[string]any{}, "response_metadata": map[string]any{}, "type": "human", "name": nil, "id": nil}}
	}
	_, span := observe.Begin(ctx, observe.Call{Kind: observe.Model, Name: "GenericFakeChatModel",
		Input: map[string]any{"messages": []any{input}}, Tags: m.tags})
	full := ai(id, m.answer)
	if !m.whole {
		pieces := strings.SplitAfter(strings.ReplaceAll(m.answer, " ", "\x00 \x00"), "\x00")
		last := "last"
		for i, p := range pieces {
			c := ai(id, strings.Trim(p, "\x00"))
			c.Type, c.chunkPart = "AIMessageChunk", &chunkPart{Calls: []any{}}
			if i == len(pieces)-1 {
				c.Position = &last
			}
			span.Chunk(c)
		}
	}
	span.End(full, nil)
	return full
}

func chats(m model) func(context.Context, chatState) (said, error) {
	return func(ctx context.Context, s chatState) (said, error) {
		return said{messages{m.call(ctx, s.Messages)}}, nil
	}
}

func hands(ms ...message) func(context.Context, chatState) (said, error) {
	return func(context.Context, chatState) (said, error) { return said{ms}, nil }
}

func human() message {
	return message{Content: "hello", Kwargs: map[string]any{}, Response: map[string]any{}, Type: "human", ID: "h1"}
}

var streamCases = map[string]build{
	"messages_model": graphOf(func(b *treadle.Builder[jokeState]) {
		treadle.AddNode(b, "call_model", func(ctx context.Context, s jokeState) (jokeOf, error) {
			return jokeOf{model{answer: "two cats meet"}.call(ctx, s.Topic).Content}, nil
		})
		b.Edge(start, "call_model")
	}),
	"messages_state": graphOf(func(b *treadle.Builder[chatState]) {
		treadle.AddNode(b, "chat", chats(model{answer: "good day"}))
		b.Edge(start, "chat")
	}),
	"messages_no_streaming": graphOf(func(b *treadle.Builder[chatState]) {
		treadle.AddNode(b, "chat", chats(model{answer: "good day", whole: true}))
		b.Edge(start, "chat")
	}),
	"messages_returned": graphOf(func(b *treadle.Builder[chatState]) {
		treadle.AddNode(b, "first", hands(ai("a1", "written by hand")))
		treadle.AddNode(b, "second", hands(human(), ai("a2", "second")))
		b.Sequence(start, "first", "second")
	}),
	"messages_command": graphOf(func(b *treadle.Builder[chatState]) {
		treadle.AddNode(b, "a", func(context.Context, chatState) (treadle.Command[said], error) {
			return treadle.Command[said]{Update: &said{messages{ai("a1", "in a command")}}, Goto: treadle.To("b")}, nil
		}, treadle.Destinations("b"))
		treadle.AddNode(b, "b", func(context.Context, chatState) ([]treadle.Command[said], error) {
			return []treadle.Command[said]{{Update: &said{messages{ai("a2", "in a list")}}}}, nil
		}, treadle.Destinations(end))
		b.Edge(start, "a")
	}),
	"messages_tags": graphOf(func(b *treadle.Builder[jokeState]) {
		treadle.AddNode(b, "call", func(ctx context.Context, s jokeState) (jokeOf, error) {
			var all []string
			for _, m := range []model{{answer: "a joke", tags: []string{"joke"}}, {answer: "a poem", tags: []string{"poem"}},
				{answer: "not streamed", tags: []string{"nostream"}}} {
				all = append(all, m.call(ctx, s.Topic).Content)
			}
			return jokeOf{strings.Join(all, "; ")}, nil
		})
		b.Edge(start, "call")
	}),
	"messages_subgraph": graphOf(func(b *treadle.Builder[chatState]) {
		treadle.AddGraph(b, "sub", child(func(b *treadle.Builder[chatState]) {
			treadle.AddNode(b, "chat", chats(model{answer: "good day"}))
			treadle.AddNode(b, "note", hands(ai("n1", "a note")))
			b.Sequence(start, "chat", "note")
		}))
		b.Edge(start, "sub")
	}),
	"all_modes": graphOf(func(b *treadle.Builder[jokeState]) {
		treadle.AddNode(b, "refine", func(ctx context.Context, s jokeState) (topicOf, error) {
			treadle.Emit(ctx, "refining")
			return topicOf{s.Topic + " and dogs"}, nil
		})
		treadle.AddNode(b, "tell", func(ctx context.Context, s jokeState) (jokeOf, error) {
			joke := model{answer: "a joke"}.call(ctx, s.Topic).Content
			treadle.Emit(ctx, map[string]any{"told": true})
			return jokeOf{joke}, nil
		})
		b.Sequence(start, "refine", "tell", end)
	}),
	"custom_interleaved": graphOf(func(b *treadle.Builder[jokeState]) {
		treadle.AddNode(b, "a", func(ctx context.Context, _ jokeState) (nothing, error) {
			treadle.Emit(ctx, 1)
			treadle.Emit(ctx, 2)
			return nothing{}, nil
		})
		treadle.AddNode(b, "b", func(ctx context.Context, _ jokeState) (jokeOf, error) {
			treadle.Emit(ctx, map[string]any{"n": 3})
			treadle.Emit(ctx, nil)
			treadle.Emit(ctx, []int{4, 5})
			return jokeOf{"done"}, nil
		})
		b.Sequence(start, "a", "b")
	}),
}
