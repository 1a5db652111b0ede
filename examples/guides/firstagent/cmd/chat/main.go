// Command chat talks to the agent in the terminal. The conversation is saved in shop.db.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log"
	"os"

	"github.com/treadle-go/treadle/examples/guides/firstagent/support"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/sqlite"
)

func main() {
	if err := run(context.Background(), "shop.db", os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, file string, in io.Reader, out io.Writer) (err error) {
	model, err := support.Model()
	if err != nil {
		return err
	}
	db, err := sqlite.Open(file, nil) // saves every step
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	g, err := support.New(model, db)
	if err != nil {
		return err
	}
	thread := g.Thread("customer 7")
	lines := bufio.NewScanner(in)
	for {
		events, err := next(ctx, thread, lines, out)
		if err != nil || events == nil {
			return err
		}
		if err := show(out, events); err != nil {
			return err
		}
	}
}

// next reads the customer's next message or, while the thread waits for an approval, the
// decision. It first continues an unfinished run. It returns nil at the end of the input.
func next(ctx context.Context, thread *treadle.Thread[agent.State, agent.State], lines *bufio.Scanner, out io.Writer) (iter.Seq2[treadle.Event, error], error) {
	snap, err := thread.State(ctx)
	if err != nil {
		return nil, err
	}
	tokens := treadle.Modes(treadle.ModeMessages)
	if len(snap.Pauses) == 0 {
		if len(snap.Next) > 0 { // the process died during a run
			return thread.ContinueStream(ctx, tokens), nil
		}
		fmt.Fprint(out, "> ")
		if !lines.Scan() {
			return nil, lines.Err()
		}
		return thread.Stream(ctx, agent.Ask(lines.Text()), tokens), nil
	}
	var review agent.Review
	if err := snap.Pauses[0].Decode(&review); err != nil {
		return nil, err
	}
	var decisions agent.Decisions
	for _, call := range review.Calls {
		fmt.Fprintf(out, "%s %s? [y/n] ", call.Name, call.Args)
		if !lines.Scan() {
			return nil, lines.Err()
		}
		if lines.Text() == "y" {
			decisions = append(decisions, agent.Decision{Type: agent.Approve})
		} else {
			decisions = append(decisions, agent.Decision{Type: agent.Reject, Message: "The shop refuses."})
		}
	}
	return thread.ResumeStream(ctx, decisions, tokens), nil
}

// show prints the model's responses as they arrive, each on a line of its own.
func show(out io.Writer, events iter.Seq2[treadle.Event, error]) error {
	var response *treadle.Origin // of the text on the current line
	for event, err := range events {
		if treadle.IsPause(err) {
			break
		}
		if err != nil {
			return err
		}
		token, ok := event.(treadle.Token)
		if !ok || token.Text() == "" {
			continue
		}
		if response != nil && response != token.Origin {
			fmt.Fprintln(out)
		}
		response = token.Origin
		fmt.Fprint(out, token.Text())
	}
	if response != nil {
		fmt.Fprintln(out)
	}
	return nil
}
