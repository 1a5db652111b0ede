package messages_test

import (
	"context"
	"fmt"
	"slices"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// Writing is a topic and the texts about it.
type Writing struct{ Topic, Joke, Poem string }

type joke struct{ Joke string }

type poem struct{ Poem string }

// printTokens runs the graph and prints the tokens that keep accepts.
func printTokens(g *treadle.Graph[Writing, Writing], keep func(treadle.Token) bool) {
	for ev, err := range g.Stream(context.Background(), Writing{Topic: "ice cream"}, treadle.Modes(treadle.ModeMessages)) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if t, ok := ev.(treadle.Token); ok && t.Text() != "" && keep(t) {
			fmt.Print(t.Text(), "|")
		}
	}
	fmt.Println()
}

// The node asks for a whole answer, and the stream still has its tokens. The node passes
// only its context to the model.
//
// Sample: D13.
func Example_tokens() {
	model := llmtest.NewScript(llmtest.Say("Why did the ice cream melt?", llmtest.Heard(llm.User("Generate a joke about ice cream"))))
	b := treadle.New[Writing]("tokens")
	treadle.AddNode(b, "call_model", func(ctx context.Context, s Writing) (joke, error) {
		m, err := llm.Generate(ctx, model, llm.User("Generate a joke about "+s.Topic))
		return joke{m.Text()}, err
	})
	b.Edge(treadle.Start, "call_model")
	printTokens(treadle.Must(b.Compile(nil)), func(treadle.Token) bool { return true })
	// Output:
	// Why |did |the |ice |cream |melt?|
}

// Tags distinguish the models of a node.
//
// Sample: D13.
func Example_tokensByModel() {
	joker := llm.With(llmtest.NewScript(llmtest.Say("It had a meltdown.", llmtest.Heard(llm.User("Write a joke about ice cream")))), llm.Tags("joke"))
	poet := llm.With(llmtest.NewScript(llmtest.Say("Soft and cold and sweet", llmtest.Heard(llm.User("Write a short poem about ice cream")))), llm.Tags("poem"))
	b := treadle.New[Writing]("by_model")
	type both struct{ Joke, Poem string }
	treadle.AddNode(b, "call_model", func(ctx context.Context, s Writing) (both, error) {
		j, err := llm.Generate(ctx, joker, llm.User("Write a joke about "+s.Topic))
		if err != nil {
			return both{}, err
		}
		p, err := llm.Generate(ctx, poet, llm.User("Write a short poem about "+s.Topic))
		return both{j.Text(), p.Text()}, err
	})
	b.Edge(treadle.Start, "call_model")
	printTokens(treadle.Must(b.Compile(nil)), func(t treadle.Token) bool { return slices.Equal(t.Tags, []string{"joke"}) })
	// Output:
	// It |had |a |meltdown.|
}

// Every token names its node, even while other nodes run.
//
// Sample: D13.
func Example_tokensByNode() {
	joker := llmtest.NewScript(llmtest.Say("It had a meltdown.", llmtest.Heard(llm.User("Write a joke about ice cream"))))
	poet := llmtest.NewScript(llmtest.Say("Soft and cold and sweet", llmtest.Heard(llm.User("Write a short poem about ice cream"))))
	b := treadle.New[Writing]("by_node")
	treadle.AddNode(b, "write_joke", func(ctx context.Context, s Writing) (joke, error) {
		m, err := llm.Generate(ctx, joker, llm.User("Write a joke about "+s.Topic))
		return joke{m.Text()}, err
	})
	treadle.AddNode(b, "write_poem", func(ctx context.Context, s Writing) (poem, error) {
		m, err := llm.Generate(ctx, poet, llm.User("Write a short poem about "+s.Topic))
		return poem{m.Text()}, err
	})
	b.Edge(treadle.Start, "write_joke")
	b.Edge(treadle.Start, "write_poem")
	printTokens(treadle.Must(b.Compile(nil)), func(t treadle.Token) bool { return t.Where().Node == "write_poem" })
	// Output:
	// Soft |and |cold |and |sweet|
}

// A model whose streaming is off gives one event with the whole message.
//
// Sample: D18.
func Example_noStream() {
	model := llm.With(llmtest.NewScript(llmtest.Say("Why did the ice cream melt?", llmtest.Heard(llm.User("Generate a joke about ice cream")))), llm.NoStream())
	b := treadle.New[Writing]("whole")
	treadle.AddNode(b, "call_model", func(ctx context.Context, s Writing) (joke, error) {
		m, err := llm.Generate(ctx, model, llm.User("Generate a joke about "+s.Topic))
		return joke{m.Text()}, err
	})
	b.Edge(treadle.Start, "call_model")
	printTokens(treadle.Must(b.Compile(nil)), func(treadle.Token) bool { return true })
	// Output:
	// Why did the ice cream melt?|
}

// A message that a node returns is streamed once: as a whole if its tokens were not
// streamed, otherwise not again.
func Example_eachMessageOnce() {
	model := llmtest.NewScript(llmtest.Say("Hello there", llmtest.Heard(llm.User("Hi"))))
	b := treadle.New[llm.Chat]("once")
	treadle.AddNode(b, "answer", func(ctx context.Context, c llm.Chat) (reply, error) {
		out, err := ask(ctx, model, c.Messages...)
		return reply{append(out.Messages, llm.Assistant("(by hand)"))}, err
	})
	b.Edge(treadle.Start, "answer")
	g := treadle.Must(b.Compile(nil))
	ids := map[string]bool{}
	for ev, err := range g.Stream(context.Background(), llm.Chat{Messages: llm.Messages{llm.User("Hi")}}, treadle.Modes(treadle.ModeMessages)) {
		if err != nil {
			fmt.Println(err)
		}
		switch ev := ev.(type) {
		case treadle.Token:
			fmt.Print(ev.Text(), "|")
			ids[ev.Chunk.(llm.Chunk).ID] = true
		case treadle.Returned: // no model has streamed it
			fmt.Print(ev.Message.(llm.Message).Text(), "|")
		}
	}
	fmt.Println(len(ids), "id")
	// Output:
	// Hello |there|(by hand)|1 id
}
