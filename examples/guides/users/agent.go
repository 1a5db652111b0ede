package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/server"
)

// orders maps order numbers to customers. It stands for the shop's database.
var orders = map[int]string{41: "ann", 42: "ann", 43: "bob"}

var errNoUser = errors.New("no user: run the agent on a server with Auth")

type order struct {
	Number int `json:"number"`
}

// listOrders returns the orders of the user, whatever the client or the model says.
func listOrders(ctx context.Context, _ struct{}) ([]int, error) {
	user := server.UserFrom(ctx)
	if user == nil {
		return nil, errNoUser
	}
	var numbers []int
	for number, customer := range orders {
		if customer == user.Identity {
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// refund asks a manager. The customer requests it in one run, and the manager answers in
// another, so Do records the customer.
func refund(ctx context.Context, o order) (string, error) {
	if server.UserFrom(ctx) == nil {
		return "", errNoUser
	}
	customer, err := treadle.Do(ctx, "customer", func(ctx context.Context) (string, error) {
		return server.UserFrom(ctx).Identity, nil
	})
	if err != nil {
		return "", err
	}
	if orders[o.Number] != customer {
		return "", fmt.Errorf("%s has no order %d", customer, o.Number)
	}
	approved, err := treadle.Interrupt[bool](ctx, fmt.Sprintf("Refund order %d of %s?", o.Number, customer))
	if err != nil {
		return "", err
	}
	if manager := server.UserFrom(ctx); !slices.Contains(manager.Permissions, "approve") {
		return "", errors.New("only a manager may approve refunds")
	}
	if !approved {
		return "A manager has rejected the refund.", nil
	}
	return fmt.Sprintf("Order %d is refunded.", o.Number), nil
}

// newAgent returns the agent. Its memories are in a separate namespace for each user.
func newAgent(model llm.Model) (*treadle.Graph[agent.State, agent.State], error) {
	place := &memory.ToolOptions{Namespace: []string{"{user}", "memories"}}
	remember, err := memory.ManageTool[string](place)
	if err != nil {
		return nil, err
	}
	recall, err := memory.SearchTool(place)
	if err != nil {
		return nil, err
	}
	return agent.New(model, &agent.Options{
		Name: "shop",
		Tools: []*llm.Tool{
			llm.NewTool("list_orders", "List the user's orders.", listOrders),
			llm.NewTool("refund", "Refund an order.", refund),
			remember,
			recall,
		},
	})
}
