package main

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/examples/guides/firstagent/support"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/sqlite"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The second process finds the pending approval.
func TestChatContinuesAfterRestart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "shop.db")
	for _, process := range []struct{ in, want string }{
		{"Where is order 42?\nPlease refund it.\n", "> Order 42 was shipped on Monday.\n> refund {\"number\":42}? [y/n] "},
		{"y\nWhere is it?\n", "refund {\"number\":42}? [y/n] Order 42 is refunded.\n> Order 42 was shipped on Monday.\n> "},
		{"refund it\nn\n", "> refund {\"number\":42}? [y/n] User rejected the tool call for `refund` with reason: The shop refuses.\n> "},
	} {
		var out bytes.Buffer
		if err := run(t.Context(), file, strings.NewReader(process.in), &out); err != nil {
			t.Fatal(err)
		}
		if out.String() != process.want {
			t.Errorf("printed %q, want %q", out.String(), process.want)
		}
	}
}

// A process dies while it refunds an approved order. The next process refunds the order
// before it reads a message.
func TestChatFinishesInterruptedRefund(t *testing.T) {
	file := filepath.Join(t.TempDir(), "shop.db")
	dieInRefund(t, file)
	var out bytes.Buffer
	if err := run(t.Context(), file, strings.NewReader("Where is it?\n"), &out); err != nil {
		t.Fatal(err)
	}
	if want := "Order 42 is refunded.\n> Order 42 was shipped on Monday.\n> "; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}

// dieInRefund approves a refund and ends the run in the middle of the tool, as a killed process does.
func dieInRefund(t *testing.T, file string) {
	t.Helper()
	db, err := sqlite.Open(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	ctx, die := context.WithCancel(t.Context())
	model := llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("refund", support.Order{Number: 42})))
	refund := func(ctx context.Context, _ support.Order) (string, error) {
		die()
		return "", ctx.Err()
	}
	g, err := agent.New(model, &agent.Options{
		Name:       "support",
		Tools:      []*llm.Tool{llm.NewTool("refund", "Refund an order.", refund)},
		Middleware: []*agent.Middleware{agent.Gates(agent.Gate{Tool: "refund"})},
		Graph:      treadle.Options{Saver: db},
	})
	if err != nil {
		t.Fatal(err)
	}
	thread := g.Thread("customer 7")
	if _, err := thread.Run(ctx, agent.Ask("Please refund order 42.")); !treadle.IsPause(err) {
		t.Fatalf("run ended with %v, want a pause", err)
	}
	if _, err := thread.Resume(ctx, agent.Decisions{{Type: agent.Approve}}); !errors.Is(err, context.Canceled) {
		t.Fatalf("resumed run ended with %v, want cancellation", err)
	}
}

// Each response is on a line of its own, and so is a question after a response.
func TestChatSeparatesResponses(t *testing.T) {
	model := llmtest.Scripted(t,
		llmtest.Turn{Message: llm.Assistant("I look it up.", llmtest.ToolCall("status", support.Order{Number: 42}))},
		llmtest.Say("It was shipped."),
	)
	g, err := support.New(model, nil)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := show(&out, g.Stream(t.Context(), agent.Ask("Where is order 42?"), treadle.Modes(treadle.ModeMessages))); err != nil {
		t.Fatal(err)
	}
	if want := "I look it up.\nIt was shipped.\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}
