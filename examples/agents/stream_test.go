package agents_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/dynamic"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// Tokens and updates in one stream: the chunks of the response as they arrive, all with
// the same message ID, and then the update with the message.
//
// Sample: D14.
func Example_tokensAndUpdates() {
	look := llm.NewTool("look", "Look around.", func(context.Context, struct{}) (string, error) { return "a user", nil })
	call := llm.ToolCall{ID: "1", Name: "look", Args: []byte("{}")}
	model := llm.With(llmtest.NewScript(
		llmtest.Turn{Message: llm.Assistant("", call), Expect: []func(*llm.Request) error{llmtest.Heard(llm.User("hi"))}},
		llmtest.Say("Hi, how can I help you?", llmtest.Heard(llm.User("hi"), llm.Assistant("", call), llm.ToolResult(call, "a user"))),
	), llm.Tools(look))

	b := treadle.New[llm.Chat]("chat")
	treadle.AddNode(b, "agent", answer(model))
	treadle.AddNode(b, "tools", agent.Tools[llm.Chat]([]*llm.Tool{look}, nil))
	b.Edge(treadle.Start, "agent")
	treadle.AddBranch(b, "agent", agent.ToolsCondition("tools", treadle.End), "tools", treadle.End)
	b.Edge("tools", "agent")
	g := treadle.Must(b.Compile(nil))

	ids := map[string]bool{}
	for ev, err := range g.Stream(context.Background(), chat("hi"), treadle.Modes(treadle.ModeUpdates, treadle.ModeMessages)) {
		switch ev := ev.(type) {
		case treadle.Token:
			if c, ok := ev.Chunk.(llm.Chunk); ok && c.Content != "" {
				fmt.Printf("messages: %q step %v node %v\n", c.Content, ev.Metadata["langgraph_step"], ev.Metadata["langgraph_node"])
				ids[c.ID] = true
			}
		case treadle.Updated:
			var up reply
			if err := ev.Update.Read(&up); err != nil {
				fmt.Println(err)
			}
			fmt.Printf("updates: %s wrote %q\n", ev.Node, up.Messages[0].Text())
			if ids[up.Messages[0].ID] {
				fmt.Println(len(ids), "ID, shared with the message")
			}
		}
		if err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// updates: agent wrote ""
	// updates: tools wrote "a user"
	// messages: "Hi, " step 3 node agent
	// messages: "how " step 3 node agent
	// messages: "can " step 3 node agent
	// messages: "I " step 3 node agent
	// messages: "help " step 3 node agent
	// messages: "you?" step 3 node agent
	// updates: agent wrote "Hi, how can I help you?"
	// 1 ID, shared with the message
}

var idPattern = regexp.MustCompile(`[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}|run-[A-Z0-9]{26}`)

// masked replaces ids, which are new each time.
func masked(raw []byte) string { return idPattern.ReplaceAllString(string(raw), "<id>") }

// The events of a graph with one node that calls a model: the graph, its input, the node,
// and the model start, stream, and end, nested in each other.
//
// Sample: D15.
func Example_events() {
	model := llm.With(llmtest.NewScript(llmtest.Say("Hello! How can I help?", llmtest.Heard(llm.User("hi!")))), llm.Temperature(0.7))
	b := treadle.New[llm.Chat]("LangGraph")
	treadle.AddNode(b, "call_model", answer(model))
	b.Edge(treadle.Start, "call_model")
	b.Edge("call_model", treadle.End)
	g := treadle.Must(b.Compile(nil))

	var chunk treadle.Event
	for ev, err := range g.Stream(context.Background(), chat("hi!"), treadle.Modes(treadle.ModeEvents, treadle.ModeWrites)) {
		if err != nil {
			fmt.Println(err)
		}
		life, ok := ev.(treadle.Lifecycle)
		if !ok {
			continue
		}
		fmt.Printf("%s: %s\n", life.Event, life.Name)
		if life.Event == "on_chat_model_stream" && chunk == nil {
			chunk = ev
		}
	}
	raw, err := dynamic.Wire{}.Encode(chunk)
	if err != nil {
		fmt.Println(err)
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, raw, "", "  "); err != nil {
		fmt.Println(err)
	}
	fmt.Println(masked(pretty.Bytes()))
	// Output:
	// on_chain_start: LangGraph
	// on_chain_start: __start__
	// on_chain_end: __start__
	// on_chain_start: call_model
	// on_chat_model_start: script
	// on_chat_model_stream: script
	// on_chat_model_stream: script
	// on_chat_model_stream: script
	// on_chat_model_stream: script
	// on_chat_model_stream: script
	// on_chat_model_end: script
	// on_chain_start: ChannelWrite<call_model,messages>
	// on_chain_end: ChannelWrite<call_model,messages>
	// on_chain_stream: call_model
	// on_chain_end: call_model
	// on_chain_stream: LangGraph
	// on_chain_end: LangGraph
	// {
	//   "data": {
	//     "chunk": {
	//       "content": "Hello! ",
	//       "additional_kwargs": {},
	//       "response_metadata": {},
	//       "type": "AIMessageChunk",
	//       "name": null,
	//       "id": "<id>",
	//       "tool_calls": [],
	//       "invalid_tool_calls": [],
	//       "usage_metadata": null,
	//       "tool_call_chunks": [],
	//       "chunk_position": null
	//     }
	//   },
	//   "event": "on_chat_model_stream",
	//   "metadata": {
	//     "checkpoint_ns": "call_model:<id>",
	//     "langgraph_checkpoint_ns": "call_model:<id>",
	//     "langgraph_node": "call_model",
	//     "langgraph_path": [
	//       "__pregel_pull",
	//       "call_model"
	//     ],
	//     "langgraph_step": 1,
	//     "langgraph_triggers": [
	//       "branch:to:call_model"
	//     ],
	//     "ls_model_name": "script",
	//     "ls_model_type": "chat",
	//     "ls_provider": "llmtest",
	//     "ls_temperature": 0.7
	//   },
	//   "name": "script",
	//   "parent_ids": [
	//     "<id>",
	//     "<id>"
	//   ],
	//   "run_id": "<id>",
	//   "tags": []
	// }
}
