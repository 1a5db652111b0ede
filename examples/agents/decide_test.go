package agents_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// reply contains the writes of a node that responds.
type reply struct{ Messages llm.Messages }

func chat(text string) llm.Chat { return llm.Chat{Messages: llm.Messages{llm.User(text)}} }

func show(ms llm.Messages) {
	for _, m := range ms {
		who := string(m.Role)
		if m.Name != "" {
			who += " " + m.Name
		}
		fmt.Printf("%s: %s", who, m.Text())
		for _, c := range m.ToolCalls {
			fmt.Printf("[%s %s]", c.Name, c.Args)
		}
		fmt.Println()
	}
}

// Route is a decision.
type Route struct {
	Next string `json:"next" enum:"poem,story" jsonschema:"what to write"`
}

// A router is a model that chooses one of several nodes. Its decision is a value of a
// Go type. The model returns it in JSON after instructions, as a tool call, or by the
// provider's structured output; the graph is the same.
//
// Sample: D1, D2.
func Example_router() {
	ctx := context.Background()
	question := llmtest.Heard(llm.System("What does the user want?"), llm.User("Write me a poem"))
	ways := []struct {
		mode llm.ObjectMode
		turn llmtest.Turn
	}{
		{llm.ByPrompt, llmtest.Say("Sure:\n```json\n{\"next\": \"poem\"}\n```", llmtest.Heard(
			llm.System("What does the user want?\n\nAnswer with JSON only, without any other text. It must be valid against this JSON schema:\n"+
				`{"type":"object","properties":{"next":{"type":"string","description":"what to write","enum":["poem","story"]}},"required":["next"],"additionalProperties":false}`),
			llm.User("Write me a poem")))},
		{llm.ByTool, llmtest.Turn{Message: llm.Assistant("", llmtest.ToolCall("Route", `{"next":"poem"}`)),
			Expect: []func(*llm.Request) error{question, llmtest.Offered("Route")}}},
		{llm.ByOutput, llmtest.Say(`{"next":"poem"}`, question, schemaAsked)},
	}
	for _, way := range ways {
		script := llmtest.NewScript(way.turn)
		script.NativeOutput = true
		model := llm.With(script, way.mode)

		b := treadle.New[llm.Chat]("router")
		treadle.AddBranch(b, treadle.Start, func(ctx context.Context, c llm.Chat) (treadle.Goto, error) {
			route, err := llm.Object[Route](ctx, model, append(llm.Messages{llm.System("What does the user want?")}, c.Messages...)...)
			return treadle.To(route.Next), err
		}, "poem", "story")
		write := func(text string) func(context.Context, llm.Chat) (reply, error) {
			return func(context.Context, llm.Chat) (reply, error) { return reply{llm.Messages{llm.Assistant(text)}}, nil }
		}
		treadle.AddNode(b, "poem", write("Roses are red."))
		treadle.AddNode(b, "story", write("Once upon a time."))

		out, err := treadle.Must(b.Compile(nil)).Run(ctx, chat("Write me a poem"))
		fmt.Println(way.mode, err)
		show(out.Messages[1:])
	}
	// Output:
	// prompt <nil>
	// ai: Roses are red.
	// tool <nil>
	// ai: Roses are red.
	// output <nil>
	// ai: Roses are red.
}

// schemaAsked expects the request to contain the schema.
func schemaAsked(r *llm.Request) error {
	if r.Output == nil || r.Output.Name != "Route" {
		return errors.New("request without a schema")
	}
	return nil
}

// Reflection is a loop: the model's text is checked, here by plain code, and returned to
// the model with the mistakes until it has none.
//
// Sample: D2.
func Example_reflection() {
	type State struct {
		llm.Chat
		OK bool `json:"ok"`
	}
	type verdict struct {
		Messages llm.Messages
		OK       bool
	}
	first, second := "func add(a, b int) int { return a + b", "func add(a, b int) int { return a + b }"
	model := llmtest.NewScript(
		llmtest.Say(first, llmtest.Heard(llm.User("Write add."))),
		llmtest.Say(second, llmtest.Heard(llm.User("Write add."), llm.Assistant(first), llm.User("A brace is not closed."))),
	)
	b := treadle.New[State]("reflection")
	treadle.AddNode(b, "draft", func(ctx context.Context, s State) (reply, error) {
		m, err := llm.Generate(ctx, model, s.Messages...)
		return reply{llm.Messages{m}}, err
	})
	treadle.AddNode(b, "check", func(_ context.Context, s State) (verdict, error) {
		code := s.Messages[len(s.Messages)-1].Text()
		if strings.Count(code, "{") != strings.Count(code, "}") {
			return verdict{Messages: llm.Messages{llm.User("A brace is not closed.")}}, nil
		}
		return verdict{OK: true}, nil
	})
	b.Edge(treadle.Start, "draft")
	b.Edge("draft", "check")
	treadle.AddBranch(b, "check", func(_ context.Context, s State) (treadle.Goto, error) {
		if s.OK {
			return treadle.To(treadle.End), nil
		}
		return treadle.To("draft"), nil
	}, "draft", treadle.End)

	out, err := treadle.Must(b.Compile(nil)).Run(context.Background(), State{Chat: chat("Write add.")})
	fmt.Println(err)
	show(out.Messages)
	// Output:
	// <nil>
	// human: Write add.
	// ai: func add(a, b int) int { return a + b
	// human: A brace is not closed.
	// ai: func add(a, b int) int { return a + b }
}
