package desk

import (
	"errors"
	"slices"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm/llmtest"
)

func TestOrderNeedsApproval(t *testing.T) {
	for _, test := range []struct {
		decision agent.Decision
		result   string // what the model receives
		orders   []string
	}{
		{agent.Decision{Type: agent.Approve}, "ordered", []string{"Emma"}},
		{agent.Decision{Type: agent.Reject, Message: "too expensive"}, "too expensive", nil},
		{agent.Decision{Type: agent.Edit, Edited: &agent.Action{Name: "order", Args: []byte(`{"title":"Persuasion"}`)}}, "ordered", []string{"Persuasion"}},
	} {
		t.Run(string(test.decision.Type), func(t *testing.T) {
			model := llmtest.Scripted(t,
				llmtest.Ask(llmtest.ToolCall("order", Book{"Emma"})),
				llmtest.Say("OK.", llmtest.Asked(test.result)),
			)
			var orders []string
			thread := newDesk(t, model, fakeShop(&orders)).Thread("1")

			_, err := thread.Run(t.Context(), agent.Ask("Order Emma."))
			if _, waits := errors.AsType[*treadle.InterruptError](err); !waits || len(orders) > 0 {
				t.Fatalf("before the decision: %v, orders %v", err, orders)
			}
			if _, err := thread.Resume(t.Context(), agent.Decisions{test.decision}); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(orders, test.orders) {
				t.Errorf("orders %v, want %v", orders, test.orders)
			}
		})
	}
}
