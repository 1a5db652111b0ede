package agents_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

type place struct {
	Location string `json:"location"`
}

var getWeather = llm.NewTool("get_weather", "Call to get the weather from a specific location.", func(_ context.Context, in place) (string, error) {
	switch at := strings.ToLower(in.Location); {
	case strings.Contains(at, "sf"), strings.Contains(at, "san francisco"):
		return "It's sunny!", nil
	case strings.Contains(at, "boston"):
		return "It's rainy!", nil
	}
	return "I am not sure what the weather is in " + in.Location, nil
})

// tasks returns the two operations of an agent as recorded tasks.
func tasks(model llm.Model) (callModel *treadle.Task[llm.Messages, llm.Message], callTool *treadle.Task[llm.ToolCall, llm.Message]) {
	bound := llm.With(model, llm.Tools(getWeather))
	callModel = treadle.NewTask("call_model", func(ctx context.Context, ms llm.Messages) (llm.Message, error) {
		return llm.Generate(ctx, bound, ms...)
	})
	callTool = treadle.NewTask("call_tool", func(ctx context.Context, call llm.ToolCall) (llm.Message, error) {
		out, err := getWeather.Call(ctx, call)
		return llm.ToolResult(call, out), err
	})
	return callModel, callTool
}

// printTasks prints the results of an agent's tasks as they come, and the
// questions that it stops with.
func printTasks(events iter.Seq2[treadle.Event, error]) {
	for ev, err := range events {
		if _, asked := errors.AsType[*treadle.InterruptError](err); err != nil && !asked {
			fmt.Println(err)
		}
		switch ev := ev.(type) {
		case treadle.Updated:
			var m llm.Message
			if ev.Node == "agent" {
				continue
			}
			if err := ev.Update.Read(&m); err != nil {
				fmt.Println(err)
			}
			fmt.Printf("%s:\n", ev.Node)
			if err := llm.Print(os.Stdout, m); err != nil {
				fmt.Println(err)
			}
		case treadle.Interrupted:
			for _, p := range ev.Pauses {
				fmt.Printf("%s asks: %s\n", p.Node, p.Value)
			}
		}
	}
}

// A ReAct agent from scratch: a plain function that calls the model, runs its tool calls
// concurrently, and calls the model again. On a thread, it keeps the conversation.
//
// Sample: D20.
func Example_reactFromScratch() {
	sf := llm.ToolCall{ID: "call_1", Name: "get_weather", Args: []byte(`{"location":"San Francisco"}`)}
	boston := llm.ToolCall{ID: "call_2", Name: "get_weather", Args: []byte(`{"location":"Boston, MA"}`)}
	first := llm.Messages{llm.User("What's the weather in san francisco?"), llm.Assistant("", sf), llm.ToolResult(sf, "It's sunny!")}
	second := append(first[:3:3], llm.Assistant("The weather in San Francisco is sunny!"), llm.User("How does it compare to Boston, MA?"))
	model := llmtest.NewScript(
		llmtest.Turn{Message: llm.Assistant("", sf), Expect: []func(*llm.Request) error{llmtest.Heard(first[0])}},
		llmtest.Say("The weather in San Francisco is sunny!", llmtest.Heard(first...)),
		llmtest.Turn{Message: llm.Assistant("", boston), Expect: []func(*llm.Request) error{llmtest.Heard(second...)}},
		llmtest.Say("Compared to San Francisco, which is sunny, Boston, MA is experiencing rainy weather.",
			llmtest.Heard(append(second, llm.Assistant("", boston), llm.ToolResult(boston, "It's rainy!"))...)))
	callModel, callTool := tasks(model)

	g := treadle.Must(treadle.NewFinalWorkflow("agent", func(ctx context.Context, messages llm.Messages) (final, error) {
		if previous, ok := treadle.PreviousFrom[llm.Messages](ctx); ok {
			var err error
			if messages, err = previous.Reduce(messages); err != nil {
				return final{}, err
			}
		}
		for {
			response, err := callModel.Run(ctx, messages)
			if err != nil {
				return final{}, err
			}
			messages = append(messages, response)
			if len(response.ToolCalls) == 0 {
				return final{Value: response, Save: messages}, nil
			}
			var results []*treadle.Future[llm.Message]
			for _, call := range response.ToolCalls {
				results = append(results, callTool.Go(ctx, call))
			}
			for _, f := range results {
				m, err := f.Wait()
				if err != nil {
					return final{}, err
				}
				messages = append(messages, m)
			}
		}
	}, &treadle.Options{Saver: checkpoint.NewMemory()}))

	thread := g.Thread("1")
	for _, text := range []string{"What's the weather in san francisco?", "How does it compare to Boston, MA?"} {
		printTasks(thread.Stream(context.Background(), llm.Messages{llm.User(text)}))
		fmt.Println()
	}
	// Output:
	// call_model:
	// ================================== Ai Message ==================================
	// Tool Calls:
	//   get_weather (call_1)
	//  Call ID: call_1
	//   Args:
	//     location: San Francisco
	// call_tool:
	// ================================= Tool Message =================================
	// Name: get_weather
	//
	// It's sunny!
	// call_model:
	// ================================== Ai Message ==================================
	//
	// The weather in San Francisco is sunny!
	//
	// call_model:
	// ================================== Ai Message ==================================
	// Tool Calls:
	//   get_weather (call_2)
	//  Call ID: call_2
	//   Args:
	//     location: Boston, MA
	// call_tool:
	// ================================= Tool Message =================================
	// Name: get_weather
	//
	// It's rainy!
	// call_model:
	// ================================== Ai Message ==================================
	//
	// Compared to San Francisco, which is sunny, Boston, MA is experiencing rainy weather.
}
