// Supervisor is a team of agents: a supervisor hands questions to a mathematician and a
// librarian, and answers with their findings.
//
//	go run ./examples/supervisor
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/examples/internal/models"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

type factors struct {
	A int `json:"a"`
	B int `json:"b"`
}

func multiply(_ context.Context, f factors) (int, error) { return f.A * f.B, nil }

type title struct {
	Title string `json:"title"`
}

func pages(_ context.Context, t title) (int, error) { return 10 * len(t.Title), nil }

// newTeam builds the team. The scripts are the responses of each agent's model without an API
// key.
func newTeam() (*treadle.Graph[agent.State, agent.State], error) {
	mathematician, err := newAgent("mathematician", "You compute with your tool.",
		llm.NewTool("multiply", "Multiply two numbers.", multiply),
		llmtest.Ask(llmtest.ToolCall("multiply", factors{50, 3})), llmtest.Say("50 times 3 is 150."))
	if err != nil {
		return nil, err
	}
	librarian, err := newAgent("librarian", "You know all books.",
		llm.NewTool("pages", "Tell how many pages a book has.", pages),
		llmtest.Ask(llmtest.ToolCall("pages", title{"Emma!"})), llmtest.Say("Emma! has 50 pages."))
	if err != nil {
		return nil, err
	}
	model, err := models.Open(llmtest.NewScript(
		llmtest.Ask(llmtest.ToolCall("transfer_to_librarian", "{}")),
		llmtest.Ask(llmtest.ToolCall("transfer_to_mathematician", "{}")),
		llmtest.Say("Three copies of Emma! have 150 pages.")))
	if err != nil {
		return nil, err
	}
	return agent.Supervisor(model, []*treadle.Graph[agent.State, agent.State]{mathematician, librarian}, &agent.SupervisorOptions{
		Options: agent.Options{Prompt: "Ask the librarian about books and the mathematician for computations."},
	})
}

func newAgent(name, prompt string, tool *llm.Tool, script ...llmtest.Turn) (*treadle.Graph[agent.State, agent.State], error) {
	model, err := models.Open(llmtest.NewScript(script...))
	if err != nil {
		return nil, err
	}
	return agent.New(model, &agent.Options{Name: name, Prompt: prompt, Tools: []*llm.Tool{tool}})
}

func run(ctx context.Context) error {
	team, err := newTeam()
	if err != nil {
		return err
	}
	for event, err := range team.Stream(ctx, agent.Ask("How many pages do three copies of Emma! have?"), treadle.Modes(treadle.ModeUpdates)) {
		if err != nil {
			return err
		}
		switch event := event.(type) {
		case treadle.Updated:
			fmt.Println(event.Node, "is done")
		case treadle.Finished[agent.State]:
			fmt.Println(agent.Answer(event.Output))
		}
	}
	return nil
}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "supervisor:", err)
		os.Exit(1)
	}
}
