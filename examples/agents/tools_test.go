package agents_test

import (
	"context"
	"fmt"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// Support is the state of an agent that has information about its user.
type Support struct {
	llm.Chat
	UserInfo string `json:"user_info"`
}

type lookedUp struct {
	UserInfo string
	Messages llm.Messages
}

// A tool updates the state by returning a command. The update must contain the tool
// result, because providers reject a conversation without it. If the result is missing,
// the run fails with an error that names the tool.
//
// Sample: D3.
func Example_toolUpdatesState() {
	users := map[string]string{"u7": "Ada, gold plan"}
	lookup := func(result bool) *llm.Tool {
		return llm.NewTool("lookup_user_info", "Look up who the user is.", func(ctx context.Context, _ struct{}) (treadle.Command[lookedUp], error) {
			id, _ := treadle.ContextFrom[string](ctx)
			found := lookedUp{UserInfo: users[id]}
			if call, ok := llm.CallFrom(ctx); ok && result {
				found.Messages = llm.Messages{llm.ToolResult(call, "Successfully looked up user information")}
			}
			return treadle.Command[lookedUp]{Update: &found}, nil
		})
	}
	ask := llm.ToolCall{ID: "1", Name: "lookup_user_info", Args: []byte("{}")}
	for _, result := range []bool{true, false} {
		model := llmtest.NewScript(
			llmtest.Turn{Message: llm.Assistant("", ask), Expect: []func(*llm.Request) error{llmtest.Heard(llm.User("Who am I?"))}},
			llmtest.Say("You are Ada.", llmtest.Heard(llm.System("The user is Ada, gold plan."), llm.User("Who am I?"),
				llm.Assistant("", ask), llm.ToolResult(ask, "Successfully looked up user information"))))
		a := treadle.Must(agent.For[Support](model, &agent.Options{
			Tools: []*llm.Tool{lookup(result)},
			Middleware: []*agent.Middleware{agent.Prompt(func(_ context.Context, s Support, _ string) (string, error) {
				if s.UserInfo == "" {
					return "", nil
				}
				return "The user is " + s.UserInfo + ".", nil
			})},
		}))
		out, err := a.With(treadle.Context("u7")).Run(context.Background(), Support{Chat: chat("Who am I?")})
		if err != nil {
			fmt.Println(err)
			continue
		}
		show(out.Messages)
		fmt.Println("user_info:", out.UserInfo)
	}
	// Output:
	// human: Who am I?
	// ai: [lookup_user_info {}]
	// tool lookup_user_info: Successfully looked up user information
	// ai: You are Ada.
	// user_info: Ada, gold plan
	// graph "agent": node "tools" (step 2): tool lookup_user_info: command contains no result for call 1: add llm.ToolResult(call, …) to its messages (see llm.CallFrom)
}

// An agent hands off to another one, which is a node of the same graph, by calling
// a tool. Nothing else is needed: the tool's command goes to the graph around.
//
// Sample: D4.
func Example_handoff() {
	call := llm.ToolCall{ID: "1", Name: "transfer_to_bob", Args: []byte("{}")}
	asked := llm.Assistant("", call)
	asked.Name = "alice"
	alice := treadle.Must(agent.New(
		llmtest.NewScript(llmtest.Turn{Message: llm.Assistant("", call), Expect: []func(*llm.Request) error{llmtest.Heard(llm.User("Bob, please")), llmtest.Offered("transfer_to_bob")}}),
		&agent.Options{Name: "alice", Tools: []*llm.Tool{agent.Handoff("bob", nil)}}))
	bob := treadle.Must(agent.New(
		llmtest.NewScript(llmtest.Say("Bob here.", llmtest.Heard(llm.User("Bob, please"), asked, llm.ToolResult(call, "Successfully transferred to bob")))),
		&agent.Options{Name: "bob"}))

	b := treadle.New[agent.State]("pair")
	treadle.AddGraph(b, "alice", alice, treadle.Destinations("bob"))
	treadle.AddGraph(b, "bob", bob)
	b.Edge(treadle.Start, "alice")
	out, err := treadle.Must(b.Compile(nil)).Run(context.Background(), agent.Ask("Bob, please"))
	fmt.Println(err)
	show(out.Messages)
	// Output:
	// <nil>
	// human: Bob, please
	// ai alice: [transfer_to_bob {}]
	// tool transfer_to_bob: Successfully transferred to bob
	// ai bob: Bob here.
}

// A custom node that runs tools returns the commands of the tools.
//
// Sample: D4.
func Example_ownToolNode() {
	remember := func(name, fact string) *llm.Tool {
		return llm.NewTool(name, "", func(ctx context.Context, _ struct{}) (treadle.Command[lookedUp], error) {
			call, _ := llm.CallFrom(ctx)
			return treadle.Command[lookedUp]{Update: &lookedUp{fact, llm.Messages{llm.ToolResult(call, "ok")}}, Goto: treadle.To("greet")}, nil
		})
	}
	tools := map[string]*llm.Tool{"look": remember("look", "Ada")}

	b := treadle.New[Support]("own")
	treadle.AddNode(b, "call_tools", func(ctx context.Context, s Support) ([]treadle.Command[lookedUp], error) {
		var commands []treadle.Command[lookedUp]
		for _, call := range s.Messages[len(s.Messages)-1].ToolCalls {
			out, err := tools[call.Name].Call(ctx, call)
			if err != nil {
				return nil, err
			}
			commands = append(commands, out.(treadle.Command[lookedUp]))
		}
		return commands, nil
	}, treadle.Destinations("greet"))
	treadle.AddNode(b, "greet", func(_ context.Context, s Support) (reply, error) {
		return reply{llm.Messages{llm.Assistant("Hello " + s.UserInfo)}}, nil
	})
	b.Edge(treadle.Start, "call_tools")
	asked := llm.Assistant("", llm.ToolCall{ID: "1", Name: "look"})
	out, err := treadle.Must(b.Compile(nil)).Run(context.Background(), Support{Chat: llm.Chat{Messages: llm.Messages{llm.User("Hi"), asked}}})
	fmt.Println(err)
	show(out.Messages[2:])
	// Output:
	// <nil>
	// tool look: ok
	// ai: Hello Ada
}
