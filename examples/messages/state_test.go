package messages_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/dynamic"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// reply contains the writes of a node that responds.
type reply struct{ Messages llm.Messages }

func ask(ctx context.Context, model llm.Model, history ...llm.Message) (reply, error) {
	answer, err := llm.Generate(ctx, model, history...)
	return reply{llm.Messages{answer}}, err
}

func show(ms llm.Messages) {
	for _, m := range ms {
		fmt.Printf("%s: %s\n", m.Role, m.Text())
	}
}

// A conversation is passed as messages or, with package dynamic, as JSON. Both produce the same
// values.
//
// Sample: A4.
func Example_json() {
	model := llmtest.NewScript(
		llmtest.Say("You said: message", llmtest.Heard(llm.User("message"))),
		llmtest.Say("You said: message", llmtest.Heard(llm.User("message"))),
	)
	b := treadle.New[llm.Chat]("chat")
	treadle.AddNode(b, "answer", func(ctx context.Context, c llm.Chat) (reply, error) { return ask(ctx, model, c.Messages...) })
	b.Edge(treadle.Start, "answer")
	g := treadle.Must(b.Compile(nil))
	ctx := context.Background()

	out, err := g.Run(ctx, llm.Chat{Messages: llm.Messages{llm.User("message")}})
	fmt.Println(err)
	show(out.Messages)

	raw, err := dynamic.Open(g, "").RunJSON(ctx, json.RawMessage(`{"messages": [{"type": "human", "content": "message"}]}`))
	fmt.Println(err)
	var again llm.Chat
	fmt.Println(json.Unmarshal(raw, &again))
	show(again.Messages)
	// Output:
	// <nil>
	// human: message
	// ai: You said: message
	// <nil>
	// <nil>
	// human: message
	// ai: You said: message
}

// A conversation is a field like any other. An update with a known ID replaces the
// message.
//
// Sample: A5.
func Example_field() {
	type State struct{ Messages llm.Messages }

	b := treadle.New[State]("field")
	treadle.AddNode(b, "correct", func(_ context.Context, s State) (reply, error) {
		fixed := s.Messages[0]
		fixed.Content = "Hello"
		return reply{llm.Messages{fixed, llm.Assistant("Hi!")}}, nil
	})
	b.Edge(treadle.Start, "correct")
	g := treadle.Must(b.Compile(nil))

	out, err := g.Run(context.Background(), State{llm.Messages{llm.User("Helo")}})
	fmt.Println(err)
	show(out.Messages)
	// Output:
	// <nil>
	// human: Hello
	// ai: Hi!
}

// llm.Chat corresponds to LangGraph's MessagesState; embed it to add more fields.
//
// Sample: A5.
func Example_embedded() {
	type State struct {
		llm.Chat
		Documents []string `json:"documents"`
	}
	type found struct{ Documents []string }

	b := treadle.New[State]("embedded")
	treadle.AddNode(b, "retrieve", func(_ context.Context, s State) (found, error) {
		return found{[]string{"about " + s.Messages[0].Text()}}, nil
	})
	b.Edge(treadle.Start, "retrieve")
	g := treadle.Must(b.Compile(nil))

	out, err := g.Run(context.Background(), State{Chat: llm.Chat{Messages: llm.Messages{llm.User("owls")}}})
	fmt.Println(out.Messages[0].Text(), out.Documents, err)
	// Output:
	// owls [about owls] <nil>
}

// A node deletes all but the last two messages by returning their removal.
//
// Sample: D11.
func Example_removeOldMessages() {
	said := llm.Messages{llm.User("one"), llm.Assistant("two"), llm.User("three"), llm.Assistant("four"), llm.User("five")}
	model := llmtest.NewScript(llmtest.Say("Hi", llmtest.Heard(said...)))
	b := treadle.New[llm.Chat]("forgetful")
	treadle.AddNode(b, "answer", func(ctx context.Context, c llm.Chat) (reply, error) { return ask(ctx, model, c.Messages...) })
	treadle.AddNode(b, "forget", func(_ context.Context, c llm.Chat) (reply, error) {
		var old llm.Messages
		for _, m := range c.Messages[:len(c.Messages)-2] {
			old = append(old, llm.Remove(m.ID))
		}
		return reply{old}, nil
	})
	b.Edge(treadle.Start, "answer")
	b.Edge("answer", "forget")
	g := treadle.Must(b.Compile(nil))

	out, err := g.Run(context.Background(), llm.Chat{Messages: said})
	fmt.Println(err)
	show(out.Messages)
	// Output:
	// <nil>
	// human: five
	// ai: Hi
}

// The model gets a trimmed conversation: the system message and the last 45 tokens,
// beginning with a human message and ending with a human message or a tool's result. The
// state keeps everything.
//
// Sample: D11.
func Example_trim() {
	model := llmtest.NewScript(llmtest.Say("Parrots do.", llmtest.Heard(
		llm.System("You're a good assistant, you always respond with a joke."),
		llm.User("What do you call a speechless parrot?"),
	)))
	b := treadle.New[llm.Chat]("trimmed")
	treadle.AddNode(b, "answer", func(ctx context.Context, c llm.Chat) (reply, error) {
		short, err := llm.Trim(ctx, c.Messages, &llm.TrimOptions{
			MaxTokens:  45,
			StartOn:    []llm.Role{llm.RoleHuman},
			EndOn:      []llm.Role{llm.RoleHuman, llm.RoleTool},
			KeepSystem: true,
		})
		if err != nil {
			return reply{}, err
		}
		return ask(ctx, model, short...)
	})
	b.Edge(treadle.Start, "answer")
	g := treadle.Must(b.Compile(nil))

	out, err := g.Run(context.Background(), llm.Chat{Messages: llm.Messages{
		llm.System("You're a good assistant, you always respond with a joke."),
		llm.User("I wonder why it's called langchain"),
		llm.Assistant("Well, I guess they thought WordRope and SentenceString just didn't have the same ring to it!"),
		llm.User("And who is harrison chasing anyways"),
		llm.Assistant("Hmmm let me think. Why, he's probably chasing after the last cup of coffee in the office!"),
		llm.User("What do you call a speechless parrot?"),
	}})
	fmt.Println(len(out.Messages), out.Messages[len(out.Messages)-1].Text(), err)
	// Output:
	// 7 Parrots do. <nil>
}
