// Agent refunds an order after somebody has approved it.
package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/openai"
	"github.com/treadle-go/treadle/sqlite"
)

type order struct{ Number int }

func refund(_ context.Context, o order) (string, error) {
	return fmt.Sprintf("refunded order %d", o.Number), nil
}

func main() {
	ctx := context.Background()
	model := treadle.Must(openai.New("gpt-5-mini", nil)) // the key is in OPENAI_API_KEY
	db := treadle.Must(sqlite.Open("agent.db", nil))     // every step is saved here
	g := treadle.Must(agent.New(model, &agent.Options{
		Tools:      []*llm.Tool{llm.NewTool("refund", "Refund an order.", refund)},
		Middleware: []*agent.Middleware{agent.Approve(agent.Gate{Tool: "refund"})},
		Graph:      treadle.Options{Saver: db},
	}))
	thread := g.Thread("customer 7")
	out, err := thread.Run(ctx, agent.Ask("Please refund order 42."))
	if stop, ok := errors.AsType[*treadle.InterruptError](err); ok {
		fmt.Printf("%s\n", stop.Pauses[0].Value) // the question is saved: another process may answer it
		out, err = thread.Resume(ctx, agent.Decisions{{Type: agent.Accept}})
	}
	fmt.Println(agent.Answer(out), errors.Join(err, db.Close()))
}
