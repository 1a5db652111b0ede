package llm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// The model of these examples answers from a script; see llmtest. A real one is
// opened by [llm.Open] or by its provider's package.
func ExampleGenerate() {
	model := llmtest.NewScript(llmtest.Say("Four.", llmtest.Heard(llm.System("Be brief."), llm.User("Two and two?"))))

	answer, err := llm.Generate(context.Background(), model, llm.System("Be brief."), llm.User("Two and two?"))
	fmt.Println(answer.Text(), answer.Stop, err)
	// Output:
	// Four. stop <nil>
}

func ExampleStream() {
	model := llmtest.NewScript(llmtest.Say("One two three."))

	for chunk, err := range llm.Stream(context.Background(), model, llm.User("Count!")) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Print(chunk.Text(), "|")
	}
	// Output:
	// One |two |three.|
}

func ExampleWith() {
	model := llmtest.NewScript(llmtest.Say("Ha.", func(r *llm.Request) error {
		fmt.Println(r.MaxTokens, *r.Temperature, r.Tags)
		return nil
	}))
	joker := llm.With(model, llm.MaxTokens(128), llm.Temperature(0), llm.Tags("joke"))

	answer, err := llm.Generate(context.Background(), joker, llm.User("A joke, please."))
	fmt.Println(answer.Text(), err)
	// Output:
	// 128 0 [joke]
	// Ha. <nil>
}

// Route is a decision that a model takes.
type Route struct {
	Step string `json:"step" jsonschema:"the next step" enum:"poem,story,joke"`
}

// The model's first answer is none of the three, so it is asked again and told
// why.
func ExampleObject() {
	model := llmtest.NewScript(
		llmtest.Ask(llmtest.ToolCall("Route", `{"step": "song"}`)),
		llmtest.Ask(llmtest.ToolCall("Route", `{"step": "poem"}`)),
	)

	route, err := llm.Object[Route](context.Background(), model, llm.User("Write something that rhymes."))
	fmt.Println(route.Step, err)
	messages := model.Requests()[1].Messages
	fmt.Println(messages[len(messages)-1].Text())
	// Output:
	// poem <nil>
	// That is not what was asked for: validating root: validating /properties/step: enum: song does not equal any of: [poem story joke]. Please correct it.
}

func ExampleNewTool() {
	weather := llm.NewTool("get_weather", "Tells the weather of a city.",
		func(ctx context.Context, in struct {
			Location string `json:"location" jsonschema:"the city"`
			Unit     string `json:"unit" enum:"celsius,fahrenheit" default:"celsius"`
		}) (string, error) {
			return "It's 20 degrees " + in.Unit + " in " + in.Location + ".", nil
		})

	schema, err := json.Marshal(weather.Parameters)
	fmt.Println(string(schema), err)

	ctx := context.Background()
	call := llm.ToolCall{ID: "call_1", Name: "get_weather", Args: json.RawMessage(`{"location": "Boston"}`)}
	out, err := weather.Call(ctx, call)
	fmt.Println(llm.ToolResult(call, out).Content, err)

	call.Args = json.RawMessage(`{"city": "Boston"}`)
	_, err = weather.Call(ctx, call)
	fmt.Println(err)
	// Output:
	// {"type":"object","properties":{"location":{"type":"string","description":"the city"},"unit":{"type":"string","default":"celsius","enum":["celsius","fahrenheit"]}},"required":["location"],"additionalProperties":false} <nil>
	// It's 20 degrees celsius in Boston. <nil>
	// Error invoking tool 'get_weather' with kwargs {"city": "Boston"} with error:
	//  validating root: unexpected additional properties ["city"]
	//  Please fix the error and try again.
}

// What the model need not know is in the context, and what it need not see is an
// artifact.
func ExampleToolOutput() {
	type inbox struct{ Mails []string }
	count := llm.NewTool("count_mails", "Counts the mails.", func(ctx context.Context, _ struct{}) (llm.ToolOutput, error) {
		box, _ := llm.StateFrom[inbox](ctx)
		return llm.ToolOutput{Content: len(box.Mails), Artifact: box.Mails}, nil
	})

	call := llm.ToolCall{ID: "call_1", Name: "count_mails"}
	out, err := count.Call(llm.WithState(context.Background(), inbox{[]string{"from Bob", "from Ann"}}), call)
	m := llm.ToolResult(call, out)
	fmt.Println(m.Content, m.Artifact, err)
	// Output:
	// 2 [from Bob from Ann] <nil>
}

func ExampleOpen() {
	script := llm.Provider{Name: "script", Model: func(name string) (llm.Model, error) { return llmtest.NewScript(), nil }}

	model, err := llm.Open("script:any", script)
	fmt.Println(llm.Describe(model), err)
	_, err = llm.Open("gpt-5", script)
	fmt.Println(err)
	_, err = llm.Open("skynet:t-800", script)
	fmt.Println(err)
	// Output:
	// llmtest:script <nil>
	// llm: open model "gpt-5": want provider:name; the providers are: script
	// llm: open model "skynet:t-800": unknown provider "skynet"; the providers are: script
}

func ExampleFallback() {
	first := llmtest.NewScript(llmtest.Fail(&llm.Error{Provider: "first", Status: 401, Message: "the key is wrong"}))
	second := llmtest.NewScript(llmtest.Say("Here I am."))

	answer, err := llm.Generate(context.Background(), llm.Fallback(first, second), llm.User("Anybody?"))
	fmt.Println(answer.Text(), err)
	// Output:
	// Here I am. <nil>
}

func ExampleRetry() {
	model := llmtest.NewScript(
		llmtest.Fail(&llm.Error{Provider: "p", Status: 429, RetryAfter: time.Millisecond}),
		llmtest.Say("Now."),
	)

	answer, err := llm.Generate(context.Background(), llm.Retry(model, nil), llm.User("When?"))
	fmt.Println(answer.Text(), err)
	// Output:
	// Now. <nil>
}

// A turn was canceled while its second tool ran. The next request repairs what
// is left of it.
func ExampleRepair() {
	history := llm.Messages{
		llm.User("What is the weather in Boston and in Rome?"),
		llm.Assistant("", llm.ToolCall{ID: "1", Name: "weather"}, llm.ToolCall{ID: "2", Name: "weather"}),
		llm.ToolResult(llm.ToolCall{ID: "1", Name: "weather"}, "rainy"),
		llm.User("Are you still there?"),
	}
	err := llm.Check(history)
	e, _ := errors.AsType[*llm.HistoryError](err)
	fmt.Println(e.CallID, e.Reason)
	for _, m := range llm.Repair(history) {
		fmt.Printf("%s%s: %q\n", m.Role, m.ToolCallID, m.Text())
	}
	// Output:
	// 2 missing result: use llm.Repair
	// human: "What is the weather in Boston and in Rome?"
	// ai: ""
	// tool1: "rainy"
	// tool2: "The call has no result: it was canceled or did not finish."
	// human: "Are you still there?"
}

func ExampleTrim() {
	history := llm.Messages{
		llm.System("Be brief."),
		llm.User("What is an owl?"),
		llm.Assistant("A bird of the night with large eyes and a flat face."),
		llm.User("And a lark?"),
	}
	short, err := llm.Trim(context.Background(), history, &llm.TrimOptions{
		MaxTokens:  20,
		StartOn:    []llm.Role{llm.RoleHuman},
		KeepSystem: true,
	})
	for _, m := range short {
		fmt.Println(m.Role, m.Text())
	}
	fmt.Println(err)
	// Output:
	// system Be brief.
	// human And a lark?
	// <nil>
}

// The limit is a share of the model's context window, so it adapts to the model.
func ExampleTrim_share() {
	model := llm.WithInfo(llmtest.NewScript(), llm.Info{Window: 25})
	history := llm.Messages{
		llm.User("What is an owl?"),
		llm.Assistant("A bird of the night with large eyes and a flat face."),
		llm.User("And a lark?"),
	}
	short, err := llm.Trim(context.Background(), history, &llm.TrimOptions{
		Model:   model,
		Share:   0.8,
		StartOn: []llm.Role{llm.RoleHuman},
	})
	for _, m := range short {
		fmt.Println(m.Role, m.Text())
	}
	fmt.Println(err)
	// Output:
	// human And a lark?
	// <nil>
}

// The model runs on a server of our own, so no catalog lists its context window.
func ExampleWithInfo() {
	model := llm.WithInfo(llmtest.NewScript(), llm.Info{Provider: "local", Model: "owl-7b", Window: 32_000})
	info := llm.Describe(model)
	fmt.Println(info, info.Window)
	// Output:
	// local:owl-7b 32000
}

func ExampleCachePrompt() {
	model := llmtest.NewScript(llmtest.Say("Ha.", func(r *llm.Request) error {
		fmt.Println("cached for", r.PromptCache)
		return nil
	}))
	cached := llm.With(model, llm.CachePrompt(time.Hour))

	answer, err := llm.Generate(context.Background(), cached, llm.System("A long manual."), llm.User("A joke, please."))
	fmt.Println(answer.Text(), err)
	// Output:
	// cached for 1h0m0s
	// Ha. <nil>
}

func ExampleMessages_Reduce() {
	history := llm.Messages{{Role: llm.RoleHuman, ID: "1", Content: "Helo"}, {Role: llm.RoleAI, ID: "2", Content: "Hi!"}}
	history, err := history.Reduce(llm.Messages{
		{Role: llm.RoleHuman, ID: "1", Content: "Hello"}, // replaces
		llm.Remove("2"),
		{Role: llm.RoleAI, ID: "3", Content: "Good day!"}, // is appended
	})
	for _, m := range history {
		fmt.Println(m.ID, m.Role, m.Content)
	}
	fmt.Println(err)
	// Output:
	// 1 human Hello
	// 3 ai Good day!
	// <nil>
}

func ExampleMessage() {
	raw, err := json.Marshal(llm.User("What is it?", llm.ImageURL("https://example.com/owl.jpg")))
	fmt.Println(string(raw), err)

	var m llm.Message
	err = json.Unmarshal([]byte(`{"role": "assistant", "content": null, "tool_calls":
		[{"id": "1", "type": "function", "function": {"name": "look", "arguments": "{\"at\": \"owl\"}"}}]}`), &m)
	fmt.Println(m.Role, m.ToolCalls[0].Name, string(m.ToolCalls[0].Args), err)
	// Output:
	// {"type":"human","content":["What is it?",{"type":"image","url":"https://example.com/owl.jpg"}]} <nil>
	// ai look {"at":"owl"} <nil>
}
