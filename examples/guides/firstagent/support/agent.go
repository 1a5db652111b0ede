// Package support contains an agent that answers the customers of a shop.
package support

import (
	"context"
	"fmt"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
)

// Order is the input of both tools. The model sees its JSON schema.
type Order struct {
	Number int `json:"number" jsonschema:"the order number"`
}

func status(_ context.Context, o Order) (string, error) {
	return fmt.Sprintf("Order %d was shipped on Monday.", o.Number), nil
}

func refund(_ context.Context, o Order) (string, error) {
	return fmt.Sprintf("Order %d is refunded.", o.Number), nil
}

// New returns the agent. A server provides its own saver, so it passes nil.
func New(model llm.Model, saver checkpoint.Saver) (*treadle.Graph[agent.State, agent.State], error) {
	return agent.New(model, &agent.Options{
		Name:   "support",
		Prompt: "You help the customers of a shop. Answer briefly.",
		Tools: []*llm.Tool{
			llm.NewTool("status", "Report where an order is.", status),
			llm.NewTool("refund", "Refund an order.", refund),
		},
		Middleware: []*agent.Middleware{agent.Gates(agent.Gate{Tool: "refund"})},
		Graph:      treadle.Options{Saver: saver},
	})
}
