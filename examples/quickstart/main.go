// Quickstart tells a joke about each subject, all concurrently, and keeps the best.
package main

import (
	"context"
	"fmt"
	"log"
	"slices"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/reduce"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

type State struct {
	Subjects []string            // an update replaces the value
	Jokes    reduce.List[string] // an update appends
	Best     string
}

// A node returns the fields that it writes.
type told struct{ Jokes reduce.List[string] }
type picked struct{ Best string }

func tell(_ context.Context, subject string) (told, error) {
	return told{reduce.List[string]{"A " + subject + " walks into a bar."}}, nil
}

func pick(_ context.Context, s State) (picked, error) {
	return picked{slices.Max(s.Jokes)}, nil
}

func run(ctx context.Context) error {
	b := treadle.New[State]("jokes")
	joke := treadle.AddNode(b, "joke", tell)
	best := treadle.AddNode(b, "pick", pick)
	treadle.AddBranch(b, treadle.Start, func(_ context.Context, s State) (treadle.Goto, error) {
		return treadle.SendEach(joke, s.Subjects), nil // one task each
	}, joke)
	b.Edge(joke, best) // runs once, when all jokes have been told
	g, err := b.Compile(nil)
	if err != nil {
		return err
	}
	out, err := g.Run(ctx, State{Subjects: []string{"platypus", "owl"}})
	if err != nil {
		return err
	}
	fmt.Println(out.Best, len(out.Jokes))
	return nil
}
