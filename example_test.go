package treadle_test

import (
	"context"
	"fmt"
	"slices"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/reduce"
)

// A joke about each subject, all at once, and a judge who keeps the best;
// examples/quickstart is this as a program.
func Example() {
	type State struct {
		Subjects []string            // an update replaces the value
		Jokes    reduce.List[string] // an update appends
		Best     string
	}
	type told struct{ Jokes reduce.List[string] } // what tell writes
	type picked struct{ Best string }             // what pick writes

	tell := func(_ context.Context, subject string) (told, error) {
		return told{reduce.List[string]{"A " + subject + " walks into a bar."}}, nil
	}
	pick := func(_ context.Context, s State) (picked, error) { return picked{slices.Max(s.Jokes)}, nil }

	b := treadle.New[State]("jokes")
	joke := treadle.AddNode(b, "joke", tell)
	treadle.AddNode(b, "pick", pick)
	b.Branch(treadle.Start, func(_ context.Context, s State) (next treadle.Goto, err error) {
		for _, subject := range s.Subjects {
			next = append(next, joke.Send(subject)...) // one task each
		}
		return next, nil
	}, "joke")
	b.Edge("joke", "pick") // once, when all the jokes are told
	out, err := treadle.Must(b.Compile(nil)).Run(context.Background(), State{Subjects: []string{"platypus", "owl"}})
	fmt.Println(out.Best, len(out.Jokes), err)
	// Output:
	// A platypus walks into a bar. 2 <nil>
}
