// Quickstart tells a joke about each subject, all concurrently, and keeps the best.
package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/reduce"
)

type State struct {
	Subjects []string            // an update replaces the value
	Jokes    reduce.List[string] // an update appends
	Best     string
}
type told struct{ Jokes reduce.List[string] } // written by tell
type picked struct{ Best string }             // written by pick

func tell(_ context.Context, subject string) (told, error) {
	return told{reduce.List[string]{"A " + subject + " walks into a bar."}}, nil
}
func pick(_ context.Context, s State) (picked, error) { return picked{slices.Max(s.Jokes)}, nil }

func main() {
	b := treadle.New[State]("jokes")
	joke := treadle.AddNode(b, "joke", tell)
	treadle.AddNode(b, "pick", pick)
	b.Branch(treadle.Start, func(_ context.Context, s State) (next treadle.Goto, err error) {
		for _, subject := range s.Subjects {
			next = append(next, joke.Send(subject)...) // one task each
		}
		return next, nil
	}, "joke")
	b.Edge("joke", "pick") // runs once, when all jokes have been told
	out, err := treadle.Must(b.Compile(nil)).Run(context.Background(), State{Subjects: []string{"platypus", "owl"}})
	fmt.Println(out.Best, len(out.Jokes), err)
}
