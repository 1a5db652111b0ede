package agents_test

import (
	"context"
	"fmt"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

type agents = []*treadle.Graph[agent.State, agent.State]

// scripted returns an agent with a scripted model.
func scripted(name string, tools []*llm.Tool, turns ...llmtest.Turn) *treadle.Graph[agent.State, agent.State] {
	return treadle.Must(agent.New(llmtest.NewScript(turns...), &agent.Options{Name: name, Tools: tools}))
}

// agent.Supervisor builds a team whose agents are called like tools; a team is an agent
// too. Here, the supervisor calls two concurrently, one of which is a team, and forwards
// the team's message verbatim.
func Example_teams() {
	poet := scripted("poet", nil, llmtest.Say("Hoot, hoot, hoot."))
	writing := treadle.Must(agent.Supervisor(
		llmtest.NewScript(llmtest.Ask(llmtest.ToolCall("transfer_to_poet", "{}")), llmtest.Ask(llmtest.ToolCall("forward_message", `{"from_agent":"poet"}`))),
		agents{poet}, &agent.SupervisorOptions{Team: "writing", Options: agent.Options{Name: "editor"}, HideHandoffs: true, Forward: true}))
	research := scripted("research", nil, llmtest.Say("Owls hoot."))
	top := treadle.Must(agent.Supervisor(
		llmtest.NewScript(
			llmtest.Ask(llmtest.ToolCall("transfer_to_research", "{}"), llmtest.ToolCall("transfer_to_writing", "{}")),
			llmtest.Ask(llmtest.ToolCall("forward_message", `{"from_agent":"editor"}`))),
		agents{research, writing}, &agent.SupervisorOptions{Forward: true}))

	out, err := top.Run(context.Background(), agent.Ask("A poem about owls"))
	fmt.Println(err)
	show(out.Messages)
	// Output:
	// <nil>
	// human: A poem about owls
	// ai supervisor: [transfer_to_research {}][transfer_to_writing {}]
	// tool transfer_to_research: Successfully transferred to research
	// tool transfer_to_writing: Successfully transferred to writing
	// ai research: Owls hoot.
	// ai research: Transferring back to supervisor[transfer_back_to_supervisor {}]
	// tool transfer_back_to_supervisor: Successfully transferred back to supervisor
	// ai editor: Hoot, hoot, hoot.
	// ai writing: Transferring back to supervisor[transfer_back_to_supervisor {}]
	// tool transfer_back_to_supervisor: Successfully transferred back to supervisor
	// ai supervisor: Hoot, hoot, hoot.
}

// An agent need not see the conversation: the supervisor writes its task, and the agent
// gets only that.
func Example_task() {
	math := scripted("math", nil, llmtest.Say("It is 3.", llmtest.Heard(llm.User("Add 1 and 2."))))
	team := treadle.Must(agent.Supervisor(
		llmtest.NewScript(llmtest.Ask(llmtest.ToolCall("transfer_to_math", `{"task":"Add 1 and 2."}`)), llmtest.Say("You have 3 apples.")),
		agents{math}, &agent.SupervisorOptions{NoHandBack: true,
			Handoffs: map[string]*llm.Tool{"math": agent.Handoff("math", &agent.HandoffOptions{Task: true})}}))
	out, err := team.Run(context.Background(), agent.Ask("I had an apple and got two more. How many do I have?"))
	fmt.Println(agent.Answer(out), err)
	// Output:
	// You have 3 apples. <nil>
}

// In a swarm, agents hand the conversation to each other, and the active one continues
// in the next turn.
func Example_swarm() {
	toBob := agent.SwarmHandoff("bob", &agent.HandoffOptions{Description: "Bob knows about bills."})
	alice := scripted("alice", []*llm.Tool{toBob}, llmtest.Ask(llmtest.ToolCall("transfer_to_bob", "{}")))
	bob := scripted("bob", []*llm.Tool{agent.SwarmHandoff("alice", nil)}, llmtest.Say("It is due on Friday."), llmtest.Say("Bye."))
	swarm := treadle.Must(agent.Swarm(agents{alice, bob}, &agent.SwarmOptions{Default: "alice", Graph: treadle.Options{Saver: checkpoint.NewMemory()}}))

	thread := swarm.Thread("1")
	for _, text := range []string{"My bill?", "Thanks"} {
		out, err := thread.Run(context.Background(), agent.SwarmState{State: agent.Ask(text)})
		fmt.Println(out.ActiveAgent+":", agent.Answer(out.State), err)
	}
	// Output:
	// bob: It is due on Friday. <nil>
	// bob: Bye. <nil>
}

// A network of ready-made agents: each is a node, and hand-offs are the edges.
func Example_networkOfAgents() {
	to := func(names ...string) (tools []*llm.Tool) {
		for _, name := range names {
			tools = append(tools, agent.Handoff(name, nil))
		}
		return tools
	}
	b := treadle.New[agent.State]("network")
	treadle.AddGraph(b, "alice", scripted("alice", to("bob", "carol"), llmtest.Ask(llmtest.ToolCall("transfer_to_carol", "{}"))), treadle.Destinations("bob", "carol"))
	treadle.AddGraph(b, "bob", scripted("bob", to("alice", "carol"), llmtest.Say("Rome it is.")), treadle.Destinations("alice", "carol"))
	treadle.AddGraph(b, "carol", scripted("carol", to("alice", "bob"), llmtest.Ask(llmtest.ToolCall("transfer_to_bob", "{}"))), treadle.Destinations("alice", "bob"))
	b.Edge(treadle.Start, "alice")
	out, err := treadle.Must(b.Compile(nil)).Run(context.Background(), agent.Ask("Where to?"))
	fmt.Println(err)
	show(out.Messages)
	// Output:
	// <nil>
	// human: Where to?
	// ai alice: [transfer_to_carol {}]
	// tool transfer_to_carol: Successfully transferred to carol
	// ai carol: [transfer_to_bob {}]
	// tool transfer_to_bob: Successfully transferred to bob
	// ai bob: Rome it is.
}

// Some providers do not show speaker names to the model; InlineNames adds them to the
// text.
func Example_inlineNames() {
	said := llm.Assistant("Hi, I am Bob.")
	said.Name = "bob"
	a := treadle.Must(agent.New(
		llmtest.NewScript(llmtest.Say("<name>alice</name><content>That was Bob.</content>",
			llmtest.Heard(llm.User("hello"), llm.Message{Role: llm.RoleAI, Name: "bob", Content: "<name>bob</name><content>Hi, I am Bob.</content>"}, llm.User("Who was that?")))),
		&agent.Options{Name: "alice", Middleware: []*agent.Middleware{agent.InlineNames()}}))
	out, err := a.Run(context.Background(), agent.State{Chat: llm.Chat{Messages: llm.Messages{llm.User("hello"), said, llm.User("Who was that?")}}})
	fmt.Println(agent.Answer(out), err)
	// Output:
	// That was Bob. <nil>
}
