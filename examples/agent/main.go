// Command agent refunds an order after a person approves it.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

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
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) (err error) {
	model, err := openai.New("gpt-5-mini", nil) // reads OPENAI_API_KEY
	if err != nil {
		return err
	}
	db, err := sqlite.Open("agent.db", nil) // saves every step
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	g, err := agent.New(model, &agent.Options{
		Tools:      []*llm.Tool{llm.NewTool("refund", "Refund an order.", refund)},
		Middleware: []*agent.Middleware{agent.Gates(agent.Gate{Tool: "refund"})},
		Graph:      treadle.Options{Saver: db},
	})
	if err != nil {
		return err
	}
	thread := g.Thread("customer 7")
	out, err := thread.Run(ctx, agent.Ask("Please refund order 42."))
	if stop, ok := errors.AsType[*treadle.InterruptError](err); ok {
		fmt.Printf("%s\n", stop.Pauses[0].Value) // the interrupt is saved; any process can answer it
		out, err = thread.Resume(ctx, agent.Decisions{{Type: agent.Approve}})
	}
	if err != nil {
		return err
	}
	fmt.Println(agent.Answer(out))
	return nil
}
