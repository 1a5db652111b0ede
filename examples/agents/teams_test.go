package agents_test

import (
	"context"
	"fmt"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// Turn is the message of an agent in a network, with the next agent.
type Turn struct {
	Content   string `json:"content"`
	NextAgent string `json:"next_agent" enum:"agent_1,agent_2,agent_3,__end__"`
}

// turn returns a [Turn] as a scripted model produces it.
func turn(content, next string, heard ...llm.Message) llmtest.Turn {
	return llmtest.Turn{Message: llm.Assistant("", llmtest.ToolCall("Turn", Turn{content, next})),
		Expect: []func(*llm.Request) error{llmtest.Heard(heard...)}}
}

// In a network, every agent may hand off to every other agent, or end. Each decides with
// structured output.
//
// Sample: D5.
func Example_network() {
	user, one, three := llm.User("Plan a trip"), llm.Assistant("Where to?"), llm.Assistant("To Rome.")
	model := llmtest.NewScript(
		turn("Where to?", "agent_3", user),
		turn("To Rome.", "agent_2", user, one),
		turn("Rome it is.", treadle.End, user, one, three))
	speak := func(ctx context.Context, c llm.Chat) (treadle.Command[reply], error) {
		t, err := llm.Object[Turn](ctx, model, c.Messages...)
		return treadle.Command[reply]{Update: &reply{llm.Messages{llm.Assistant(t.Content)}}, Goto: treadle.To(t.NextAgent)}, err
	}
	b := treadle.New[llm.Chat]("network")
	treadle.AddNode(b, "agent_1", speak, treadle.Destinations("agent_2", "agent_3", treadle.End))
	treadle.AddNode(b, "agent_2", speak, treadle.Destinations("agent_1", "agent_3", treadle.End))
	treadle.AddNode(b, "agent_3", speak, treadle.Destinations("agent_1", "agent_2", treadle.End))
	b.Edge(treadle.Start, "agent_1")

	g := treadle.Must(b.Compile(nil))
	for ev, err := range g.Stream(context.Background(), chat("Plan a trip")) {
		if up, ok := ev.(treadle.Updated); ok {
			fmt.Println(up.Node)
		}
		if end, ok := ev.(treadle.Finished[llm.Chat]); ok {
			show(end.Output.Messages)
		}
		if err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// agent_1
	// agent_3
	// agent_2
	// human: Plan a trip
	// ai: Where to?
	// ai: To Rome.
	// ai: Rome it is.
}

// Next is a supervisor's decision.
type Next struct {
	NextAgent string `json:"next_agent"`
}

func next(agent string, heard ...llm.Message) llmtest.Turn {
	return llmtest.Turn{Message: llm.Assistant("", llmtest.ToolCall("Next", Next{agent})),
		Expect: []func(*llm.Request) error{llmtest.Heard(heard...)}}
}

// supervise returns a node that goes to the agent named by the model.
func supervise(model llm.Model) func(context.Context, llm.Chat) (treadle.Goto, error) {
	return func(ctx context.Context, c llm.Chat) (treadle.Goto, error) {
		n, err := llm.Object[Next](ctx, model, c.Messages...)
		return treadle.To(n.NextAgent), err
	}
}

// answer returns a node that responds.
func answer(model llm.Model) func(context.Context, llm.Chat) (reply, error) {
	return func(ctx context.Context, c llm.Chat) (reply, error) {
		m, err := llm.Generate(ctx, model, c.Messages...)
		return reply{llm.Messages{m}}, err
	}
}

// A supervisor decides which agent is next; agents come back to it. By hand it is
// a node with a goto; agent.Supervisor makes one whose agents are called like
// tools, see the next examples.
//
// Sample: D6.
func Example_supervisor() {
	user, found, written := llm.User("A poem about owls"), llm.Assistant("Owls hoot."), llm.Assistant("Hoot, hoot, hoot.")
	model := llmtest.NewScript(next("agent_1", user), next("agent_2", user, found), next(treadle.End, user, found, written))
	b := treadle.New[llm.Chat]("supervisor")
	treadle.AddNode(b, "supervisor", supervise(model), treadle.Destinations("agent_1", "agent_2", treadle.End))
	treadle.AddNode(b, "agent_1", answer(llmtest.NewScript(llmtest.Say("Owls hoot.", llmtest.Heard(user)))))
	treadle.AddNode(b, "agent_2", answer(llmtest.NewScript(llmtest.Say("Hoot, hoot, hoot.", llmtest.Heard(user, found)))))
	b.Edge(treadle.Start, "supervisor")
	b.Edge("agent_1", "supervisor")
	b.Edge("agent_2", "supervisor")

	out, err := treadle.Must(b.Compile(nil)).Run(context.Background(), chat("A poem about owls"))
	fmt.Println(err)
	show(out.Messages)
	// Output:
	// <nil>
	// human: A poem about owls
	// ai: Owls hoot.
	// ai: Hoot, hoot, hoot.
}

// Agents as tools: the supervisor is an ordinary agent, and a tool asks another
// model. It reads the conversation from the state of the agent that calls it.
//
// Sample: D7.
func Example_agentsAsTools() {
	user := llm.User("What is new?")
	expert := func(name string, model llm.Model) *llm.Tool {
		return llm.NewTool(name, "Ask "+name+".", func(ctx context.Context, _ struct{}) (string, error) {
			s, _ := llm.StateFrom[agent.State](ctx)
			m, err := llm.Generate(ctx, model, s.Messages[0])
			return m.Text(), err
		})
	}
	one, two := llm.ToolCall{ID: "1", Name: "agent_1", Args: []byte("{}")}, llm.ToolCall{ID: "2", Name: "agent_2", Args: []byte("{}")}
	supervisor := treadle.Must(agent.New(
		llmtest.NewScript(
			llmtest.Turn{Message: llm.Assistant("", one, two), Expect: []func(*llm.Request) error{llmtest.Heard(user)}},
			llmtest.Say("Rain and rates.", llmtest.Heard(user, llm.Assistant("", one, two), llm.ToolResult(one, "Rain."), llm.ToolResult(two, "Rates rise.")))),
		&agent.Options{Tools: []*llm.Tool{
			expert("agent_1", llmtest.NewScript(llmtest.Say("Rain.", llmtest.Heard(user)))),
			expert("agent_2", llmtest.NewScript(llmtest.Say("Rates rise.", llmtest.Heard(user)))),
		}}))
	out, err := supervisor.Run(context.Background(), agent.Ask("What is new?"))
	fmt.Println(err)
	show(out.Messages)
	// Output:
	// <nil>
	// human: What is new?
	// ai: [agent_1 {}][agent_2 {}]
	// tool agent_1: Rain.
	// tool agent_2: Rates rise.
	// ai: Rain and rates.
}

// Teams are graphs over the same messages. The supervisor above them goes from team to
// team until it decides to end.
//
// Sample: D8.
func Example_hierarchy() {
	user, facts, poem := llm.User("A poem about owls"), llm.Assistant("Owls hoot."), llm.Assistant("Hoot, hoot, hoot.")
	team := func(name, member string, lead, work *llmtest.Script) *treadle.Graph[llm.Chat, llm.Chat] {
		b := treadle.New[llm.Chat](name)
		treadle.AddNode(b, "supervisor", supervise(lead), treadle.Destinations(member, treadle.End))
		treadle.AddNode(b, member, answer(work))
		b.Edge(treadle.Start, "supervisor")
		b.Edge(member, "supervisor")
		return treadle.Must(b.Compile(nil))
	}
	research := team("team_1", "team_1_agent_1",
		llmtest.NewScript(next("team_1_agent_1", user), next(treadle.End, user, facts)),
		llmtest.NewScript(llmtest.Say("Owls hoot.", llmtest.Heard(user))))
	writing := team("team_2", "team_2_agent_1",
		llmtest.NewScript(next("team_2_agent_1", user, facts), next(treadle.End, user, facts, poem)),
		llmtest.NewScript(llmtest.Say("Hoot, hoot, hoot.", llmtest.Heard(user, facts))))
	top := llmtest.NewScript(next("team_1", user), next("team_2", user, facts), next(treadle.End, user, facts, poem))

	b := treadle.New[llm.Chat]("top")
	treadle.AddNode(b, "top_level_supervisor", supervise(top), treadle.Destinations("team_1", "team_2", treadle.End))
	treadle.AddGraph(b, "team_1", research)
	treadle.AddGraph(b, "team_2", writing)
	b.Edge(treadle.Start, "top_level_supervisor")
	b.Edge("team_1", "top_level_supervisor")
	b.Edge("team_2", "top_level_supervisor")

	out, err := treadle.Must(b.Compile(nil)).Run(context.Background(), chat("A poem about owls"))
	fmt.Println(err)
	show(out.Messages)
	// Output:
	// <nil>
	// human: A poem about owls
	// ai: Owls hoot.
	// ai: Hoot, hoot, hoot.
}

// If the order is known, edges are enough.
//
// Sample: D9.
func Example_customWorkflow() {
	user, draft := llm.User("A poem"), llm.Assistant("Roses is red.")
	b := treadle.New[llm.Chat]("chain")
	treadle.AddNode(b, "agent_1", answer(llmtest.NewScript(llmtest.Say("Roses is red.", llmtest.Heard(user)))))
	treadle.AddNode(b, "agent_2", answer(llmtest.NewScript(llmtest.Say("Roses are red.", llmtest.Heard(user, draft)))))
	b.Edge(treadle.Start, "agent_1")
	b.Edge("agent_1", "agent_2")
	out, err := treadle.Must(b.Compile(nil)).Run(context.Background(), chat("A poem"))
	fmt.Println(err)
	show(out.Messages)
	// Output:
	// <nil>
	// human: A poem
	// ai: Roses is red.
	// ai: Roses are red.
}

// Agents of a team share either only their final messages or all their work, and the
// supervisor's model receives that.
//
// Sample: D10.
func Example_shareHistory() {
	handoff := llm.ToolCall{ID: "1", Name: "transfer_to_math", Args: []byte("{}")}
	sum := llm.ToolCall{ID: "2", Name: "add", Args: []byte(`{"a":1,"b":2}`)}
	named := func(name string, m llm.Message) llm.Message { m.Name = name; return m }
	user, asked := llm.User("1+2?"), named("supervisor", llm.Assistant("", handoff))
	handed := llm.ToolResult(handoff, "Successfully transferred to math")
	added, result := named("math", llm.Assistant("", sum)), llm.ToolResult(sum, "3")
	done := named("math", llm.Assistant("It is 3."))

	for _, way := range []struct {
		share agent.Share
		heard []llm.Message
	}{
		{agent.ShareAnswer, []llm.Message{user, asked, handed, done}},
		{agent.ShareAll, []llm.Message{user, asked, handed, added, result, done}},
	} {
		math := treadle.Must(agent.New(
			llmtest.NewScript(
				llmtest.Turn{Message: llm.Assistant("", sum), Expect: []func(*llm.Request) error{llmtest.Heard(user, asked, handed)}},
				llmtest.Say("It is 3.", llmtest.Heard(user, asked, handed, added, result))),
			&agent.Options{Name: "math", Tools: []*llm.Tool{
				llm.NewTool("add", "Add numbers.", func(_ context.Context, in struct {
					A int `json:"a"`
					B int `json:"b"`
				}) (int, error) {
					return in.A + in.B, nil
				}),
			}}))
		model := llmtest.NewScript(
			llmtest.Turn{Message: llm.Assistant("", handoff), Expect: []func(*llm.Request) error{llmtest.Heard(user)}},
			llmtest.Say("3.", llmtest.Heard(way.heard...)))
		team := treadle.Must(agent.Supervisor(model, []*treadle.Graph[agent.State, agent.State]{math},
			&agent.SupervisorOptions{Share: way.share, NoHandBack: true}))
		out, err := team.Run(context.Background(), agent.Ask("1+2?"))
		fmt.Println(len(out.Messages), "messages", err)
	}
	// Output:
	// 5 messages <nil>
	// 7 messages <nil>
}
