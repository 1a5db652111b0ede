package treadle_test

import (
	"context"
	"fmt"
	"slices"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/reduce"
)

// Nodes tell a joke about each subject, all concurrently, and a judge keeps the best;
// examples/quickstart contains the same graph as a program.
func Example() {
	type State struct {
		Subjects []string            // an update replaces the value
		Jokes    reduce.List[string] // an update appends
		Best     string
	}
	type told struct{ Jokes reduce.List[string] } // the writes of tell
	type picked struct{ Best string }             // what pick writes

	tell := func(_ context.Context, subject string) (told, error) {
		return told{reduce.List[string]{"A " + subject + " walks into a bar."}}, nil
	}
	pick := func(_ context.Context, s State) (picked, error) { return picked{slices.Max(s.Jokes)}, nil }

	b := treadle.New[State]("jokes")
	joke := treadle.AddNode(b, "joke", tell)
	best := treadle.AddNode(b, "pick", pick)
	treadle.AddBranch(b, treadle.Start, func(_ context.Context, s State) (treadle.Goto, error) {
		return treadle.SendEach(joke, s.Subjects), nil // one task each
	}, joke)
	b.Edge(joke, best) // once, when all the jokes are told
	out, err := treadle.Must(b.Compile(nil)).Run(context.Background(), State{Subjects: []string{"platypus", "owl"}})
	fmt.Println(out.Best, len(out.Jokes), err)
	// Output:
	// A platypus walks into a bar. 2 <nil>
}
