// Package desk contains an agent that orders books.
package desk

import (
	"context"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
)

// Book is the input of both tools.
type Book struct {
	Title string `json:"title"`
}

// Shop contains the functions that the tools call.
type Shop struct {
	Stock func(context.Context, Book) (int, error)    // copies in stock
	Order func(context.Context, Book) (string, error) // places an order
}

// New returns an agent that looks up books, and orders them after approval.
func New(model llm.Model, shop Shop, saver checkpoint.Saver) (*treadle.Graph[agent.State, agent.State], error) {
	return agent.New(model, &agent.Options{
		Name:   "desk",
		Prompt: "You order books. Check the stock first.",
		Tools: []*llm.Tool{
			llm.NewTool("stock", "Count the copies in stock.", shop.Stock),
			llm.NewTool("order", "Order a book.", shop.Order),
		},
		Middleware: []*agent.Middleware{
			agent.Gates(agent.Gate{Tool: "order"}),
			agent.RetryModel(nil),
		},
		Graph: treadle.Options{Saver: saver},
	})
}
