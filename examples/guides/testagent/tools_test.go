package desk

import (
	"context"
	"errors"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// fakeShop has three copies of each book, and appends orders to a list.
func fakeShop(orders *[]string) Shop {
	return Shop{
		Stock: func(context.Context, Book) (int, error) { return 3, nil },
		Order: func(_ context.Context, b Book) (string, error) {
			*orders = append(*orders, b.Title)
			return "ordered", nil
		},
	}
}

// newDesk returns the agent with a saver in memory.
func newDesk(t *testing.T, model llm.Model, shop Shop) *treadle.Graph[agent.State, agent.State] {
	t.Helper()
	g, err := New(model, shop, checkpoint.NewMemory())
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestModelReceivesStock(t *testing.T) {
	model := llmtest.Scripted(t,
		llmtest.Ask(llmtest.ToolCall("stock", Book{"Emma"})),
		llmtest.Say("Three copies.", llmtest.Asked("3"), llmtest.Offered("stock", "order")),
	)
	out, err := newDesk(t, model, fakeShop(new([]string))).Run(t.Context(), agent.Ask("Do you have Emma?"))
	if err != nil || agent.Answer(out) != "Three copies." {
		t.Errorf("answer %q, %v", agent.Answer(out), err)
	}
}

func TestModelReceivesToolError(t *testing.T) {
	shop := fakeShop(new([]string))
	shop.Stock = func(context.Context, Book) (int, error) { return 0, errors.New("the database is down") }
	model := llmtest.Scripted(t,
		llmtest.Ask(llmtest.ToolCall("stock", Book{"Emma"})),
		llmtest.Say("I cannot check the stock now.", llmtest.Asked("the database is down")),
	)
	if _, err := newDesk(t, model, shop).Run(t.Context(), agent.Ask("Do you have Emma?")); err != nil {
		t.Error(err)
	}
}

func TestModelReceivesArgumentError(t *testing.T) {
	model := llmtest.Scripted(t,
		llmtest.Ask(llmtest.ToolCall("stock", `{"title": 7}`)),
		llmtest.Ask(llmtest.ToolCall("stock", `{"title": "7"}`)),
		llmtest.Say("Three copies.", llmtest.Asked("3")),
	)
	if _, err := newDesk(t, model, fakeShop(new([]string))).Run(t.Context(), agent.Ask("Do you have 7?")); err != nil {
		t.Error(err)
	}
	if results := model.Requests()[1].Messages; results[len(results)-1].Status != llm.StatusError {
		t.Errorf("the result of the invalid call is %+v", results[len(results)-1])
	}
}
