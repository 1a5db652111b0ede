package treadle_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/dynamic"
)

// The llm package will bring a ready-made message type with all kinds of
// content. This small one shows what makes a type a channel: a Reduce method.

// Message is one turn of a conversation.
type Message struct {
	ID      string `json:"id,omitempty"`
	Type    string `json:"type"` // human or ai
	Content string `json:"content"`
}

// Messages is a conversation. An update replaces messages with the same ID and appends the
// others.
type Messages []Message

// Reduce merges an update into the conversation.
func (ms Messages) Reduce(update Messages) Messages {
	out := slices.Clone(ms)
	for _, m := range update {
		i := slices.IndexFunc(out, func(old Message) bool { return m.ID != "" && old.ID == m.ID })
		if i >= 0 {
			out[i] = m
		} else {
			out = append(out, m)
		}
	}
	return out
}

// Chat is a state that consists of a conversation, for embedding.
type Chat struct {
	Messages Messages `json:"messages"`
}

// A conversation is passed as Go values or, with package dynamic, as JSON. Both produce the
// same values.
//
// Sample: A4.
func ExampleAnyGraph_messages() {
	b := treadle.New[Chat]("chat")
	type reply struct{ Messages Messages }
	treadle.AddNode(b, "answer", func(_ context.Context, c Chat) (reply, error) {
		last := c.Messages[len(c.Messages)-1]
		return reply{Messages{{Type: "ai", Content: "You said: " + last.Content}}}, nil
	})
	b.Edge(treadle.Start, "answer")
	g := treadle.Must(b.Compile(nil))

	out, err := g.Run(context.Background(), Chat{Messages{{Type: "human", Content: "message"}}})
	fmt.Println(out.Messages, err)

	raw, err := dynamic.Open(g, "").RunJSON(context.Background(), json.RawMessage(`{"messages": [{"type": "human", "content": "message"}]}`))
	fmt.Println(string(raw), err)
	// Output:
	// [{ human message} { ai You said: message}] <nil>
	// {"messages":[{"type":"human","content":"message"},{"type":"ai","content":"You said: message"}]} <nil>
}

// A conversation is a field like any other.
//
// Sample: A5.
func ExampleNew_messages() {
	type State struct{ Messages Messages }

	b := treadle.New[State]("field")
	treadle.AddNode(b, "correct", func(_ context.Context, s State) (treadle.Update, error) {
		return treadle.Update{"Messages": Messages{{ID: "1", Type: "human", Content: "Hello"}, {ID: "2", Type: "ai", Content: "Hi!"}}}, nil
	})
	b.Edge(treadle.Start, "correct")
	g := treadle.Must(b.Compile(nil))

	out, err := g.Run(context.Background(), State{Messages{{ID: "1", Type: "human", Content: "Helo"}}})
	for _, m := range out.Messages {
		fmt.Println(m.ID, m.Type, m.Content)
	}
	fmt.Println(err)
	// Output:
	// 1 human Hello
	// 2 ai Hi!
	// <nil>
}

// An embedded struct contributes its fields, and the state may add others.
//
// Sample: A5.
func ExampleNew_embedded() {
	type State struct {
		Chat
		Documents []string `json:"documents"`
	}
	type found struct{ Documents []string }

	b := treadle.New[State]("embedded")
	treadle.AddNode(b, "retrieve", func(_ context.Context, s State) (found, error) {
		return found{[]string{"about " + s.Messages[0].Content}}, nil
	})
	b.Edge(treadle.Start, "retrieve")
	g := treadle.Must(b.Compile(nil))

	out, err := g.Run(context.Background(), State{Chat: Chat{Messages{{Type: "human", Content: "owls"}}}})
	fmt.Println(out.Messages[0].Content, out.Documents, err)
	// Output:
	// owls [about owls] <nil>
}
