package imported_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/internal/imports/langgraphimport"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/sqlite"
	"github.com/treadle-go/treadle/store"
)

// State has the JSON names of the Python program, as the nodes have its node names.
type State struct {
	Messages llm.Messages `json:"messages"`
	Order    int          `json:"order"`
}

type found struct {
	Messages llm.Messages
	Order    int
}

func find(context.Context, State) (found, error) {
	return found{llm.Messages{llm.Assistant("I found order 42.")}, 42}, nil
}

type refunded struct{ Messages llm.Messages }

func refund(ctx context.Context, s State) (refunded, error) {
	approved, err := treadle.Interrupt[bool](ctx, map[string]int{"refund order": s.Order})
	if err != nil {
		return refunded{}, err
	}
	text := "It cannot be refunded."
	if approved {
		text = "It is refunded."
	}
	return refunded{llm.Messages{llm.Assistant(text)}}, nil
}

func refunds(db *sqlite.DB) (*treadle.Graph[State, State], error) {
	b := treadle.New[State]("refunds")
	treadle.AddNode(b, "find", find)
	treadle.AddNode(b, "refund", refund)
	b.Sequence(treadle.Start, "find", "refund")
	return b.Compile(&treadle.Options{Saver: db})
}

// A LangGraph thread continues in Treadle: its pending interrupt is answered, and its
// history is available.
func Example() {
	ctx := context.Background()
	dir := treadle.Must(os.MkdirTemp("", "imported"))
	db := treadle.Must(sqlite.Open(filepath.Join(dir, "refunds.db"), nil))
	fmt.Println(importAll(ctx, "langgraph.sqlite", db))

	g := treadle.Must(refunds(db))
	thread := g.Thread("customer 7")
	snap := treadle.Must(thread.State(ctx))
	for _, question := range snap.Pauses {
		fmt.Printf("%s asks %s\n", question.Node, question.Value)
	}
	out, err := thread.Resume(ctx, true)
	for _, m := range out.Messages {
		fmt.Printf("%s: %s\n", m.Role, m.Text())
	}
	for snap, err := range thread.History(ctx, nil) {
		fmt.Println(snap.Step, snap.Source, snap.Next, err)
	}
	s := treadle.Must(db.Store(nil))
	item := treadle.Must(s.Get(ctx, store.Namespace{"customers", "7"}, "profile", nil))
	fmt.Printf("%s\n", item.Value)
	fmt.Println(errors.Join(err, db.Close(), os.RemoveAll(dir)))
	// Output:
	// 1 thread, 3 checkpoints, 1 item, 0 problems
	// refund asks {"refund order":42}
	// human: Please refund my order.
	// ai: I found order 42.
	// ai: It is refunded.
	// 2 loop [] <nil>
	// 1 loop [refund] <nil>
	// 0 loop [find] <nil>
	// -1 input [__start__] <nil>
	// {"name":"Ann"}
	// <nil>
}

// importAll does the work of the command.
func importAll(ctx context.Context, from string, db *sqlite.DB) string {
	r, err := langgraphimport.Run(ctx, langgraphimport.Options{From: from, To: db})
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d thread, %d checkpoints, %d item, %d problems", r.Threads, r.Checkpoints, r.Items, len(r.Problems))
}
