package desk

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// The backoff takes no time, because synctest uses a fake clock.
func TestModelCallIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := llmtest.Scripted(t, llmtest.Fail(&llm.Error{Provider: "fake", Status: 503}), llmtest.Say("Hello."))
		out, err := newDesk(t, model, fakeShop(new([]string))).Run(t.Context(), agent.Ask("Hi"))
		if err != nil || agent.Answer(out) != "Hello." {
			t.Errorf("answer %q, %v", agent.Answer(out), err)
		}
	})
}

// The process dies while one tool runs. The next process does not repeat the other.
func TestRestartKeepsFinishedTools(t *testing.T) {
	saver := checkpoint.NewMemory()
	ctx, die := context.WithCancel(t.Context())
	counted, checks := make(chan struct{}), 0
	shop := fakeShop(new([]string))
	shop.Stock = func(ctx context.Context, b Book) (int, error) {
		if b.Title == "Emma" {
			checks++
			defer close(counted)
			return 3, nil
		}
		<-counted
		die()
		return 0, ctx.Err()
	}
	model := llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("stock", Book{"Emma"}), llmtest.ToolCall("stock", Book{"Persuasion"})))
	g, err := New(model, shop, saver)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Thread("1").Run(ctx, agent.Ask("Do you have Emma and Persuasion?")); err == nil {
		t.Fatal("the run survived")
	}

	shop.Stock = func(_ context.Context, b Book) (int, error) {
		if b.Title == "Emma" {
			checks++
		}
		return 5, nil
	}
	restarted, err := New(llmtest.Scripted(t, llmtest.Say("Three and five.", llmtest.Asked("5"))), shop, saver)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := restarted.Thread("1").Continue(t.Context()); err != nil || checks != 1 {
		t.Errorf("Emma was counted %d times, %v", checks, err)
	}
}
