package agents_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// Question asks a person about a tool call, and Review is the answer.
type Question struct {
	Question string       `json:"question"`
	ToolCall llm.ToolCall `json:"tool_call"`
}

// Review is the decision about a tool call: continue, update with other arguments, or
// feedback for the model.
type Review struct {
	Action string          `json:"action"`
	Data   json.RawMessage `json:"data,omitempty"`
}

// review asks a person about a call. It returns the call to make, or the result to give
// to the model instead.
func review(ctx context.Context, call llm.ToolCall) (llm.ToolCall, *llm.Message, error) {
	r, err := treadle.Interrupt[Review](ctx, Question{"Is this correct?", call})
	if err != nil {
		return call, nil, err
	}
	switch r.Action {
	case "continue":
		return call, nil, nil
	case "update":
		call.Args = r.Data
		return call, nil, nil
	case "feedback":
		var text string
		err := json.Unmarshal(r.Data, &text)
		m := llm.ToolResult(call, text)
		return call, &m, err
	}
	return call, nil, fmt.Errorf("unknown action %q", r.Action)
}

type final = treadle.Final[llm.Message, llm.Messages]

// reviewed returns an agent whose tool calls a person reviews first.
func reviewed(model llm.Model) *treadle.Graph[llm.Messages, llm.Message] {
	callModel, callTool := tasks(model)
	return treadle.Must(treadle.NewFinalWorkflow("agent", func(ctx context.Context, messages llm.Messages) (final, error) {
		previous, _ := treadle.PreviousFrom[llm.Messages](ctx)
		messages, err := previous.Reduce(messages)
		if err != nil {
			return final{}, err
		}
		for {
			response, err := callModel.Run(ctx, messages)
			if err != nil {
				return final{}, err
			}
			if len(response.ToolCalls) == 0 {
				return final{Value: response, Save: append(messages, response)}, nil
			}
			results := make([]llm.Message, len(response.ToolCalls))
			running := make([]*treadle.Future[llm.Message], len(response.ToolCalls))
			for i, call := range response.ToolCalls {
				call, instead, err := review(ctx, call)
				switch {
				case err != nil:
					return final{}, err
				case instead != nil:
					results[i] = *instead
				default:
					// This changes the message that is passed on, not the recorded one:
					// the task returned a copy.
					response.ToolCalls[i] = call
					running[i] = callTool.Go(ctx, call)
				}
			}
			for i, f := range running {
				if f == nil {
					continue
				}
				if results[i], err = f.Wait(); err != nil {
					return final{}, err
				}
			}
			messages = append(append(messages, response), results...)
		}
	}, &treadle.Options{Saver: checkpoint.NewMemory(), Strict: true}))
}

// A person accepts a tool call, changes it, or gives the model feedback. Resuming does not
// call the model again: the script has one response per model call.
//
// Sample: D21.
func Example_reviewToolCalls() {
	ctx := context.Background()
	user := llm.User("What's the weather in san francisco?")
	at := func(id, location string) llm.ToolCall {
		return llm.ToolCall{ID: id, Name: "get_weather", Args: []byte(`{"location":"` + location + `"}`)}
	}
	asks := func(call llm.ToolCall, heard ...llm.Message) llmtest.Turn {
		return llmtest.Turn{Message: llm.Assistant("", call), Expect: []func(*llm.Request) error{llmtest.Heard(heard...)}}
	}
	says := func(text string, heard ...llm.Message) llmtest.Turn {
		return llmtest.Say(text, llmtest.Heard(heard...))
	}

	fmt.Println("# Accept")
	one := at("call_1", "San Francisco")
	model := llmtest.NewScript(asks(one, user),
		says("The weather in San Francisco is sunny!", user, llm.Assistant("", one), llm.ToolResult(one, "It's sunny!")))
	thread := reviewed(model).Thread("1")
	printTasks(thread.Stream(ctx, llm.Messages{user}))
	printTasks(thread.ResumeStream(ctx, Review{Action: "continue"}))
	fmt.Println(len(model.Requests()), "requests")

	fmt.Println("# Revise")
	other := at("call_1", "SF, CA")
	sunny := llm.Messages{user, llm.Assistant("", other), llm.ToolResult(other, "It's sunny!")}
	model = llmtest.NewScript(asks(one, user), says("The weather in San Francisco is sunny!", sunny...),
		says("You're welcome.", append(sunny, llm.Assistant("The weather in San Francisco is sunny!"), llm.User("Thanks"))...))
	thread = reviewed(model).Thread("2")
	printTasks(thread.Stream(ctx, llm.Messages{user}))
	printTasks(thread.ResumeStream(ctx, Review{"update", json.RawMessage(`{"location":"SF, CA"}`)}))
	printTasks(thread.Stream(ctx, llm.Messages{llm.User("Thanks")})) // the model hears of SF, CA
	fmt.Println(len(model.Requests()), "requests")

	fmt.Println("# Feedback")
	better := at("call_2", "San Francisco, CA")
	told := llm.ToolResult(one, "Please format as <City>, <State>.")
	model = llmtest.NewScript(asks(one, user), asks(better, user, llm.Assistant("", one), told),
		says("The weather in San Francisco, CA is sunny!", user, llm.Assistant("", one), told, llm.Assistant("", better), llm.ToolResult(better, "It's sunny!")))
	thread = reviewed(model).Thread("3")
	printTasks(thread.Stream(ctx, llm.Messages{user}))
	printTasks(thread.ResumeStream(ctx, Review{"feedback", json.RawMessage(`"Please format as <City>, <State>."`)}))
	printTasks(thread.ResumeStream(ctx, Review{Action: "continue"}))
	fmt.Println(len(model.Requests()), "requests")
	// Output:
	// # Accept
	// call_model:
	// ================================== Ai Message ==================================
	// Tool Calls:
	//   get_weather (call_1)
	//  Call ID: call_1
	//   Args:
	//     location: San Francisco
	// agent asks: {"question":"Is this correct?","tool_call":{"name":"get_weather","args":{"location":"San Francisco"},"id":"call_1","type":"tool_call"}}
	// call_tool:
	// ================================= Tool Message =================================
	// Name: get_weather
	//
	// It's sunny!
	// call_model:
	// ================================== Ai Message ==================================
	//
	// The weather in San Francisco is sunny!
	// 2 requests
	// # Revise
	// call_model:
	// ================================== Ai Message ==================================
	// Tool Calls:
	//   get_weather (call_1)
	//  Call ID: call_1
	//   Args:
	//     location: San Francisco
	// agent asks: {"question":"Is this correct?","tool_call":{"name":"get_weather","args":{"location":"San Francisco"},"id":"call_1","type":"tool_call"}}
	// call_tool:
	// ================================= Tool Message =================================
	// Name: get_weather
	//
	// It's sunny!
	// call_model:
	// ================================== Ai Message ==================================
	//
	// The weather in San Francisco is sunny!
	// call_model:
	// ================================== Ai Message ==================================
	//
	// You're welcome.
	// 3 requests
	// # Feedback
	// call_model:
	// ================================== Ai Message ==================================
	// Tool Calls:
	//   get_weather (call_1)
	//  Call ID: call_1
	//   Args:
	//     location: San Francisco
	// agent asks: {"question":"Is this correct?","tool_call":{"name":"get_weather","args":{"location":"San Francisco"},"id":"call_1","type":"tool_call"}}
	// call_model:
	// ================================== Ai Message ==================================
	// Tool Calls:
	//   get_weather (call_2)
	//  Call ID: call_2
	//   Args:
	//     location: San Francisco, CA
	// agent asks: {"question":"Is this correct?","tool_call":{"name":"get_weather","args":{"location":"San Francisco, CA"},"id":"call_2","type":"tool_call"}}
	// call_tool:
	// ================================= Tool Message =================================
	// Name: get_weather
	//
	// It's sunny!
	// call_model:
	// ================================== Ai Message ==================================
	//
	// The weather in San Francisco, CA is sunny!
	// 3 requests
}

// Changing the message that a task returned does not change the record: when the second
// of two calls is reviewed, the function runs again from its beginning and asks the same
// question about the first one. The graph is strict, so that another
// question would be an error.
func TestRevisedCallKeepsRecord(t *testing.T) {
	sf := llm.ToolCall{ID: "1", Name: "get_weather", Args: []byte(`{"location":"San Francisco"}`)}
	boston := llm.ToolCall{ID: "2", Name: "get_weather", Args: []byte(`{"location":"Boston"}`)}
	revised := sf
	revised.Args = []byte(`{"location":"SF, CA"}`)
	model := llmtest.Scripted(t, llmtest.Ask(sf, boston), llmtest.Say("Sun and rain.", llmtest.Heard(llm.User("weather?"),
		llm.Assistant("", revised, boston), llm.ToolResult(revised, "It's sunny!"), llm.ToolResult(boston, "It's rainy!"))))
	thread := reviewed(model).Thread("1")
	var asked []string
	_, err := thread.Run(t.Context(), llm.Messages{llm.User("weather?")})
	for _, answer := range []Review{{"update", json.RawMessage(`{"location":"SF, CA"}`)}, {Action: "continue"}} {
		stop, ok := errors.AsType[*treadle.InterruptError](err)
		if !ok {
			t.Fatalf("want a question, got %v", err)
		}
		var q Question
		if err := stop.Pauses[0].Decode(&q); err != nil {
			t.Fatal(err)
		}
		asked = append(asked, string(q.ToolCall.Args))
		_, err = thread.Resume(t.Context(), answer)
	}
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{string(sf.Args), string(boston.Args)}, asked); d != "" {
		t.Errorf("questions (-want +got):\n%s", d)
	}
}
