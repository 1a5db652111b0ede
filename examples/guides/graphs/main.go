// Command reviews replies to the complaints among customer reviews.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

func main() {
	if err := run(context.Background(), os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// offline stands in for a model. It considers late and broken goods a complaint.
var offline = llmtest.Func(func(_ context.Context, r *llm.Request) (llm.Message, error) {
	prompt := r.Messages[len(r.Messages)-1].Text()
	switch {
	case strings.HasPrefix(prompt, "Reply"):
		return llm.Assistant("We are sorry, and refund your order."), nil
	case strings.Contains(prompt, "late") || strings.Contains(prompt, "broke"):
		return llm.Assistant("Yes"), nil
	}
	return llm.Assistant("No"), nil
})

func run(ctx context.Context, in io.Reader, out io.Writer) error {
	text, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	g, err := newGraph(offline, &treadle.Options{MaxConcurrency: 8})
	if err != nil {
		return err
	}
	for ev, err := range g.Stream(ctx, State{Text: string(text)}, treadle.Modes(treadle.ModeCustom, treadle.ModeUpdates)) {
		if err != nil {
			return err
		}
		switch ev := ev.(type) {
		case treadle.Custom: // a value sent with Emit
			if p, ok := ev.Value.(Progress); ok {
				fmt.Fprintf(out, "review %d: %s\n", p.Number, p.Doing)
			}
		case treadle.Updated: // a node has finished
			fmt.Fprintf(out, "finished %s\n", ev.Node)
		case treadle.Finished[State]: // the last event
			fmt.Fprint(out, "\n", ev.Output.Report)
		}
	}
	return nil
}
