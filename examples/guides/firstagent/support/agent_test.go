package support

import (
	"errors"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm/llmtest"
)

func TestRefundWaitsForApproval(t *testing.T) {
	model := llmtest.Scripted(t,
		llmtest.Ask(llmtest.ToolCall("refund", Order{42})),
		llmtest.Say("Done.", llmtest.Asked("Order 42 is refunded.")),
	)
	g, err := New(model, checkpoint.NewMemory())
	if err != nil {
		t.Fatal(err)
	}
	thread := g.Thread("customer 7")

	_, err = thread.Run(t.Context(), agent.Ask("Please refund order 42."))
	if _, ok := errors.AsType[*treadle.InterruptError](err); !ok {
		t.Fatalf("run ended with %v, want an interrupt", err)
	}
	out, err := thread.Resume(t.Context(), agent.Decisions{{Type: agent.Approve}})
	if err != nil || agent.Answer(out) != "Done." {
		t.Fatalf("resumed run answered %q, %v", agent.Answer(out), err)
	}
}
