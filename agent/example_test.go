package agent_test

import (
	"context"
	"fmt"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// An agent calls the model and the tools that the model asks for, until the model
// answers. The model here is a script; llm/openai and others have real ones.
func ExampleNew() {
	type place struct {
		City string `json:"city" jsonschema:"the name of a city"`
	}
	weather := llm.NewTool("weather", "Tell the weather in a city.",
		func(_ context.Context, p place) (string, error) { return "rain in " + p.City, nil })
	model := llmtest.NewScript(
		llmtest.Ask(llmtest.ToolCall("weather", place{"Oslo"})),
		llmtest.Say("Take an umbrella."))

	g, err := agent.New(model, &agent.Options{Prompt: "You know the weather.", Tools: []*llm.Tool{weather}})
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := g.Run(context.Background(), agent.Ask("Do I need an umbrella in Oslo?"))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range out.Messages {
		for _, call := range m.ToolCalls {
			fmt.Printf("%s calls %s %s\n", m.Role, call.Name, call.Args)
		}
		if m.Text() != "" {
			fmt.Printf("%s: %s\n", m.Role, m.Text())
		}
	}
	// Output:
	// human: Do I need an umbrella in Oslo?
	// ai calls weather {"city":"Oslo"}
	// tool: rain in Oslo
	// ai: Take an umbrella.
}

// A supervisor hands the conversation to other agents, identified by the names of their
// graphs, and answers when they have finished.
func ExampleSupervisor() {
	type graph = *treadle.Graph[agent.State, agent.State]
	member := func(name, answer string) graph {
		return treadle.Must(agent.New(llmtest.NewScript(llmtest.Say(answer)), &agent.Options{Name: name}))
	}
	supervisor := llmtest.NewScript(
		llmtest.Ask(llmtest.ToolCall("transfer_to_weather", "{}"), llmtest.ToolCall("transfer_to_trains", "{}")),
		llmtest.Say("Take the train at ten, and an umbrella."))

	team, err := agent.Supervisor(supervisor, []graph{member("weather", "It rains."), member("trains", "One leaves at ten.")},
		&agent.SupervisorOptions{Options: agent.Options{Prompt: "Plan journeys with the help of weather and trains."}})
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := team.Run(context.Background(), agent.Ask("How do I get to Oslo?"))
	fmt.Println(agent.Answer(out), err)
	// Output:
	// Take the train at ten, and an umbrella. <nil>
}
