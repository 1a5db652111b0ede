package treadle_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

// A node's error names its place, and errors.Is still finds the cause. A panic is reported
// as an error too, with the place in your code where it happened.
func ExampleNodeError() {
	type State struct{ Panic bool }

	b := treadle.New[State]("broken")
	treadle.AddNode(b, "read", func(_ context.Context, s State) (State, error) {
		if s.Panic {
			panic("oops")
		}
		return s, fmt.Errorf("read page: %w", io.ErrUnexpectedEOF)
	})
	b.Edge(treadle.Start, "read")
	g := treadle.Must(b.Compile(nil))

	_, err := g.Run(context.Background(), State{})
	failure, _ := errors.AsType[*treadle.NodeError](err)
	fmt.Println(failure.Node, failure.Step, failure.Err, errors.Is(err, io.ErrUnexpectedEOF))

	_, err = g.Run(context.Background(), State{Panic: true})
	failure, _ = errors.AsType[*treadle.NodeError](err)
	what, where, _ := strings.Cut(failure.Err.Error(), " (")
	fmt.Println(failure.Node, what, strings.Contains(where, "example_errors_test.go:"), len(failure.Stack) > 0)
	// Output:
	// read 1 read page: unexpected EOF true
	// read panic: oops true true
}

// Two nodes of one step cannot both write a field that holds one value.
func ExampleConflictError() {
	type State struct{ Winner string }

	b := treadle.New[State]("race")
	for _, name := range []string{"hare", "tortoise"} {
		treadle.AddNode(b, name, func(context.Context, State) (State, error) { return State{name}, nil })
		b.Edge(treadle.Start, name)
	}
	g := treadle.Must(b.Compile(nil))

	_, err := g.Run(context.Background(), State{})
	conflict, ok := errors.AsType[*treadle.ConflictError](err)
	fmt.Println(ok, conflict.Field, conflict.Nodes)
	// Output:
	// true Winner [hare tortoise]
}

// Nodes share their input. Under go test, and with Options.Check, modifying it in place
// fails the run.
func ExampleMutationError() {
	type State struct{ Scores []int }

	b := treadle.New[State]("careless")
	treadle.AddNode(b, "reset", func(_ context.Context, s State) (State, error) {
		s.Scores[0] = 0 // copy it first: slices.Clone(s.Scores)
		return s, nil
	})
	b.Edge(treadle.Start, "reset")
	g := treadle.Must(b.Compile(&treadle.Options{Check: new(true)}))

	_, err := g.Run(context.Background(), State{Scores: []int{7}})
	mutation, ok := errors.AsType[*treadle.MutationError](err)
	fmt.Println(ok, mutation.Node, mutation.Field)
	// Output:
	// true reset Scores
}

// Percent is a field that validates itself.
type Percent int

// Validate rejects values that are not percentages.
func (p Percent) Validate() error {
	if p < 0 || p > 100 {
		return fmt.Errorf("%d is not a percentage", int(p))
	}
	return nil
}

// A type with a Validate method is checked on input and whenever it is
// written, so a bad value never becomes state.
func ExampleValidationError() {
	type State struct{ Done Percent }

	b := treadle.New[State]("progress")
	treadle.AddNode(b, "work", func(_ context.Context, s State) (State, error) { return State{s.Done + 60}, nil })
	b.Edge(treadle.Start, "work")
	g := treadle.Must(b.Compile(nil))

	fmt.Println(g.Run(context.Background(), State{Done: 30}))
	out, err := g.Run(context.Background(), State{Done: 50})
	invalid, ok := errors.AsType[*treadle.ValidationError](err)
	fmt.Println(out, ok, invalid.Err)
	// Output:
	// {90} <nil>
	// {50} true 110 is not a percentage
}

// A thread needs a saver.
func ExampleGraph_Thread_noSaver() {
	type State struct{ N int }

	b := treadle.New[State]("forgetful")
	treadle.AddNode(b, "inc", func(_ context.Context, s State) (State, error) { return State{s.N + 1}, nil })
	b.Edge(treadle.Start, "inc")
	g := treadle.Must(b.Compile(nil))

	_, err := g.Thread("t").Run(context.Background(), State{})
	fmt.Println(errors.Is(err, treadle.ErrNoSaver))
	// Output:
	// true
}

// A node that handles the errors of a call must not handle a pause: the question would never
// be asked.
func ExamplePropagate() {
	type State struct{ Answer string }

	ask := treadle.NewTask("ask", func(ctx context.Context, question string) (string, error) {
		return treadle.Interrupt[string](ctx, question)
	})
	b := treadle.New[State]("order")
	treadle.AddNode(b, "confirm", func(ctx context.Context, _ State) (State, error) {
		answer, failed := ask.Run(ctx, "Order 3 books?")
		if err := treadle.Propagate(ctx, failed); err != nil {
			return State{}, err
		}
		if failed != nil {
			answer = "unknown"
		}
		return State{answer}, nil
	})
	b.Edge(treadle.Start, "confirm")
	thread := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()})).Thread("1")

	ctx := context.Background()
	_, err := thread.Run(ctx, State{})
	fmt.Println("paused:", treadle.IsPause(err))
	fmt.Println(thread.Resume(ctx, "yes"))
	// Output:
	// paused: true
	// {yes} <nil>
}
