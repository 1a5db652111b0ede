package agent_test

import (
	"context"
	"fmt"
	"strings"

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

// The model searches the tools, and is offered those that it finds.
func ExampleSearchTools() {
	var tools []*llm.Tool
	for _, item := range []string{"invoice", "parcel", "contract", "salary"} {
		for _, verb := range []string{"find", "delete"} {
			tools = append(tools, llm.NewTool(verb+"_"+item, fmt.Sprintf("To %s the %s of a customer.", verb, item),
				func(_ context.Context, in struct {
					Customer string `json:"customer"`
				}) (string, error) {
					return verb + " " + item + " of " + in.Customer, nil
				}))
		}
	}
	model := llmtest.NewScript(
		llmtest.Ask(llmtest.ToolCall("search_tools", map[string]any{"query": "parcels", "limit": 2})),
		llmtest.Ask(llmtest.ToolCall("find_parcel", map[string]any{"customer": "Ada"})),
		llmtest.Say("Here it is."))

	g, err := agent.New(model, &agent.Options{Middleware: []*agent.Middleware{agent.SearchTools(tools, nil)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := g.Run(context.Background(), agent.Ask("Where is Ada's parcel?"))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range out.Messages {
		if m.Role == llm.RoleTool {
			fmt.Println(m.Text())
		}
	}
	for _, r := range model.Requests() {
		var names []string
		for _, t := range r.Tools {
			names = append(names, t.Name)
		}
		fmt.Println(strings.Join(names, ", "))
	}
	// Output:
	// You can call these tools from your next message on:
	// - delete_parcel(customer: string): To delete the parcel of a customer.
	// - find_parcel(customer: string): To find the parcel of a customer.
	// find parcel of Ada
	// search_tools
	// search_tools, delete_parcel, find_parcel
	// search_tools, delete_parcel, find_parcel
}
