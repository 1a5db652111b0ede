package agents_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/reduce"
)

// A tool reports its progress. Its events reach the stream of the graph that the agent
// runs in.
//
// Sample: D16.
func Example_toolProgress() {
	type progress struct {
		Data string `json:"data"`
		Type string `json:"type"`
	}
	query := llm.NewTool("query_database", "Query the database.", func(ctx context.Context, _ struct {
		Query string `json:"query"`
	}) (string, error) {
		treadle.Emit(ctx, progress{"Retrieved 0/100 records", "progress"})
		treadle.Emit(ctx, progress{"Retrieved 100/100 records", "progress"})
		return "some-answer", nil
	})
	call := llm.ToolCall{ID: "1", Name: "query_database", Args: []byte(`{"query":"example"}`)}
	a := treadle.Must(agent.New(llmtest.NewScript(
		llmtest.Turn{Message: llm.Assistant("", call), Expect: []func(*llm.Request) error{llmtest.Heard(llm.User("example"))}},
		llmtest.Say("Done.", llmtest.Heard(llm.User("example"), llm.Assistant("", call), llm.ToolResult(call, "some-answer"))),
	), &agent.Options{Tools: []*llm.Tool{query}}))

	for ev, err := range a.Stream(context.Background(), agent.Ask("example"), treadle.Modes(treadle.ModeCustom)) {
		if err != nil {
			fmt.Println(err)
		}
		if c, ok := ev.(treadle.Custom); ok {
			raw, err := json.Marshal(c.Value)
			fmt.Println(string(raw), err)
		}
	}
	// Output:
	// {"data":"Retrieved 0/100 records","type":"progress"} <nil>
	// {"data":"Retrieved 100/100 records","type":"progress"} <nil>
}

// rawClient represents a provider's own client, which does not depend on this module: it
// streams its response in pieces.
func rawClient(prompt string, piece func(role, content string)) {
	if !strings.Contains(prompt, "'bedroom'") {
		piece("assistant", "I did not understand.")
		return
	}
	for _, text := range []string{"Bed", ": to sleep,", " lamp", ": to read,", " rug", ": warm."} {
		piece("assistant", text)
	}
}

// A tool that streams the tokens of a raw client. The messages are kept as plain
// maps in a list that grows; the input is an answer with a call as OpenAI writes
// it.
//
// Sample: D17.
func Example_rawClient() {
	type message = map[string]any
	type State struct {
		Messages reduce.List[message] `json:"messages"`
	}
	type called struct{ Messages reduce.List[message] }
	getItems := func(ctx context.Context, place string) string {
		var response strings.Builder
		rawClient(fmt.Sprintf("Can you tell me what kind of items i might find in the following place: '%s'. "+
			"List at least 3 such items separating them by a comma. And include a brief description of each item.", place),
			func(role, content string) {
				response.WriteString(content)
				treadle.Emit(ctx, message{"role": role, "content": content})
			})
		return response.String()
	}
	b := treadle.New[State]("raw")
	treadle.AddNode(b, "call_tool", func(ctx context.Context, s State) (called, error) {
		var asked struct {
			ToolCalls []struct {
				ID       string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		raw, err := json.Marshal(s.Messages[len(s.Messages)-1])
		if err == nil {
			err = json.Unmarshal(raw, &asked)
		}
		if err != nil {
			return called{}, err
		}
		call := asked.ToolCalls[len(asked.ToolCalls)-1]
		if call.Function.Name != "get_items" {
			return called{}, fmt.Errorf("tool %s is not supported", call.Function.Name)
		}
		var args struct{ Place string }
		if err := json.Unmarshal([]byte(call.Function.Arguments), &args); err != nil {
			return called{}, err
		}
		return called{reduce.List[message]{{"tool_call_id": call.ID, "role": "tool", "name": call.Function.Name, "content": getItems(ctx, args.Place)}}}, nil
	})
	b.Edge(treadle.Start, "call_tool")
	g := treadle.Must(b.Compile(nil))

	input := State{reduce.List[message]{{"content": nil, "role": "assistant", "tool_calls": []any{message{"id": "1",
		"function": message{"arguments": `{"place":"bedroom"}`, "name": "get_items"}, "type": "function"}}}}}
	for ev, err := range g.Stream(context.Background(), input, treadle.Modes(treadle.ModeCustom)) {
		switch ev := ev.(type) {
		case treadle.Custom:
			fmt.Print(ev.Value.(message)["content"], "|")
		case treadle.Finished[State]:
			fmt.Println()
			fmt.Println(ev.Output.Messages[1])
		}
		if err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// Bed|: to sleep,| lamp|: to read,| rug|: warm.|
	// map[content:Bed: to sleep, lamp: to read, rug: warm. name:get_items role:tool tool_call_id:1]
}
