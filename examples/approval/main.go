// Approval asks before a tool transfers money. The question is saved with the thread: the
// program asks and ends, and continues when it is started again with an answer.
//
//	go run ./examples/approval                       asks
//	go run ./examples/approval approve               transfers the money
//	go run ./examples/approval reject "too much"     does not transfer it
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/examples/internal/models"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/sqlite"
)

func main() {
	if err := run(context.Background(), "approval.db", os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "approval:", err)
		os.Exit(1)
	}
}

type payment struct {
	To    string `json:"to" jsonschema:"who gets the money"`
	Euros int    `json:"euros"`
}

func transfer(_ context.Context, p payment) (string, error) {
	return fmt.Sprintf("transferred %d euros to %s", p.Euros, p.To), nil
}

func run(ctx context.Context, file string, answer []string, out io.Writer) (err error) {
	db, err := sqlite.Open(file, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	script := llmtest.NewScript(llmtest.Ask(llmtest.ToolCall("transfer", payment{"Ada", 20})))
	if len(answer) > 0 { // the process that asked has played the first turn
		script = llmtest.NewScript(llmtest.Say("That is settled."))
	}
	model, err := models.Open(script)
	if err != nil {
		return err
	}
	g, err := agent.New(model, &agent.Options{
		Tools:      []*llm.Tool{llm.NewTool("transfer", "Transfer money.", transfer)},
		Middleware: []*agent.Middleware{agent.Gates(agent.Gate{Tool: "transfer", Allow: []agent.DecisionType{agent.Approve, agent.Reject}})},
		Graph:      treadle.Options{Saver: db},
	})
	if err != nil {
		return err
	}
	thread := g.Thread("payments")
	var state agent.State
	if len(answer) == 0 {
		state, err = thread.Run(ctx, agent.Ask("Send 20 euros to Ada."))
	} else {
		decision := agent.Decision{Type: agent.DecisionType(answer[0])}
		if len(answer) > 1 {
			decision.Message = answer[1]
		}
		state, err = thread.Resume(ctx, agent.Decisions{decision})
	}
	if stop, ok := errors.AsType[*treadle.InterruptError](err); ok {
		var review agent.Review
		if err := stop.Pauses[0].Decode(&review); err != nil {
			return err
		}
		for _, call := range review.Calls {
			fmt.Fprintf(out, "May I %s %s? Start again with approve or reject.\n", call.Name, call.Args)
		}
		return nil
	}
	if err != nil {
		return err
	}
	return llm.Print(out, state.Messages[len(state.Messages)-2:]...)
}
