// Code is an agent whose model writes a script instead of calling tools one by one: the script
// reads all orders of a shop at the same time and refunds the late ones. Each refund asks for
// approval, in the middle of the script, and the program ends; started again, it continues
// there. It reads no order twice, also if it was killed.
//
//	go run ./examples/code             reads, and asks; continues if it was killed
//	go run ./examples/code approve     makes the refund, and asks about the next one
//	go run ./examples/code reject      does not make it
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/agent/code"
	"github.com/treadle-go/treadle/examples/internal/models"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/sqlite"
)

func main() {
	if err := run(context.Background(), "code.db", os.Args[1:], newShop(os.Stdout), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, file string, answer []string, tools []*llm.Tool, out io.Writer) (err error) {
	db, err := sqlite.Open(file, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	model, err := models.Open(offline)
	if err != nil {
		return err
	}
	g, err := agent.New(model, &agent.Options{
		Tools:      tools,
		Middleware: []*agent.Middleware{agent.Gates(agent.Gate{Tool: "refund", Allow: []agent.DecisionType{agent.Approve, agent.Reject}}), code.Mode(&code.Options{Only: true})},
		Graph:      treadle.Options{Saver: db},
	})
	if err != nil {
		return err
	}
	thread := g.Thread("refunds")
	before, err := thread.State(ctx)
	if err != nil {
		return err
	}
	var state agent.State
	switch {
	case len(answer) > 0:
		state, err = thread.Resume(ctx, agent.Decisions{{Type: agent.DecisionType(answer[0])}})
	case len(before.Next) > 0: // an earlier process was killed, or has asked
		state, err = thread.Continue(ctx)
	default:
		state, err = thread.Run(ctx, agent.Ask("Refund a tenth of the price of each order that took more than five days."))
	}
	if stop, ok := errors.AsType[*treadle.InterruptError](err); ok {
		var review agent.Review
		if err := stop.Pauses[0].Decode(&review); err != nil {
			return err
		}
		fmt.Fprintf(out, "May I %s %s? Start again with approve or reject.\n", review.Calls[0].Name, review.Calls[0].Args)
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(out, agent.Answer(state))
	return nil
}
