package memory_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory/summary"
)

// searchWeb has two results. Any other query is an error that the model reads.
func searchWeb(_ context.Context, in struct {
	Query string `json:"query"`
}) (string, error) {
	switch query := strings.ToLower(in.Query); {
	case strings.Contains(query, "weather"):
		return "The weather is sunny in New York, with a high of 104 degrees.", nil
	case strings.Contains(query, "broadway"):
		return "Hamilton is always on!", nil
	default:
		return "", errors.New("not enough information")
	}
}

// An agent that calls tools and summarizes before it calls the model, when there are 1024
// tokens, which is at the third question. A call and its result are never separated.
//
// Sample: E9.
func Example_summarizingAgent() {
	lookUp := func(query string) llmtest.Turn {
		return llmtest.Ask(llmtest.ToolCall("search", map[string]string{"query": query}))
	}
	weather := "Sunny, with a high of 104 degrees. " + strings.Repeat("Drink water, wear a hat and keep to the shade of the park. ", 70)
	model := llmtest.NewScript(
		llmtest.Say("Hi Bob!"),
		lookUp("weather in New York this weekend"), llmtest.Say(weather),
		lookUp("new musicals"), lookUp("what is new on Broadway"), llmtest.Say("Hamilton is always on, Bob!", knows("Bob")),
	)
	summarizer := llmtest.NewScript(llmtest.Say("Bob asked for the weather in New York: sunny, 104 degrees."))
	tools := []*llm.Tool{llm.NewTool("search", "Search the web.", searchWeb)}
	type modelInput struct {
		SummarizedMessages []llm.Message `json:"summarized_messages"`
	}

	b := treadle.New[llm.Chat]("agent")
	treadle.AddNode(b, "summarize", summary.Node(&summary.Options{
		Model:                  llm.With(summarizer, llm.MaxTokens(128)),
		MaxTokens:              256,
		MaxTokensBeforeSummary: 1024,
		MaxSummaryTokens:       128,
	}))
	treadle.AddNode(b, "call_model", func(ctx context.Context, in modelInput) (reply, error) {
		answer, err := llm.Generate(ctx, llm.With(model, llm.Tools(tools...)), in.SummarizedMessages...)
		return reply{llm.Messages{answer}}, err
	})
	treadle.AddNode(b, "tools", agent.Tools[llm.Chat](tools, nil))
	b.Sequence(treadle.Start, "summarize", "call_model")
	treadle.AddBranch(b, "call_model", agent.ToolsCondition("tools", treadle.End), "tools", treadle.End)
	b.Edge("tools", "summarize")
	thread := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()})).Thread("1")

	for _, text := range []string{"hi, i am bob", "what's the weather in nyc this weekend", "what's new on broadway?"} {
		out, err := thread.Run(context.Background(), llm.Chat{Messages: llm.Messages{llm.User(text)}})
		if err != nil {
			fmt.Println(err)
			return
		}
		last := out.Messages[len(out.Messages)-1].Text()
		fmt.Printf("%s\n  %.36s\n", text, last)
	}
	printLast(model)
	// Output:
	// hi, i am bob
	//   Hi Bob!
	// what's the weather in nyc this weekend
	//   Sunny, with a high of 104 degrees. D
	// what's new on broadway?
	//   Hamilton is always on, Bob!
	// the model was given:
	//   system: Summary of the conversation so far: Bob asked for the weather in New York: sunny, 104 degrees.
	//   human: what's new on broadway?
	//   ai: search{"query":"new musicals"}
	//   tool: Error: tool search: not enough information Please fix your mistakes.
	//   ai: search{"query":"what is new on Broadway"}
	//   tool: Hamilton is always on!
}
