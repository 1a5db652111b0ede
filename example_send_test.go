package treadle_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/reduce"
)

// Map-reduce: a joke for each subject, all in one step. The node takes a subject
// instead of the state.
//
// Sample: A9.
func ExampleSendEach() {
	type State struct {
		Subjects []string
		Jokes    reduce.List[string]
	}
	type subjects struct{ Subjects []string }
	type joke struct{ Jokes reduce.List[string] }

	b := treadle.New[State]("jokes")
	nodeA := treadle.AddNode(b, "node_a", func(context.Context, State) (subjects, error) {
		return subjects{[]string{"cats", "dogs"}}, nil
	})
	generate := treadle.AddNode(b, "generate_joke", func(_ context.Context, subject string) (joke, error) {
		return joke{reduce.List[string]{"Joke about " + subject}}, nil
	})
	b.Edge(treadle.Start, nodeA)
	treadle.AddBranch(b, nodeA, func(_ context.Context, s State) (treadle.Goto, error) {
		return treadle.SendEach(generate, s.Subjects), nil
	}, generate)
	g := treadle.Must(b.Compile(nil))

	out, err := g.Run(context.Background(), State{})
	fmt.Printf("%q %v\n", out.Jokes, err)
	// Output:
	// ["Joke about cats" "Joke about dogs"] <nil>
}

// A branch outside the function that builds the graph has no handle, so it sends to a
// node by name. The run checks the type of the input.
func ExampleSend() {
	type State struct{ Squares reduce.List[int] }
	type square struct{ Squares reduce.List[int] }

	b := treadle.New[State]("squares")
	treadle.AddNode(b, "square", func(_ context.Context, n int) (square, error) {
		return square{reduce.List[int]{n * n}}, nil
	})
	treadle.AddBranch(b, treadle.Start, func(_ context.Context, s State) (treadle.Goto, error) {
		if len(s.Squares) > 0 {
			return treadle.Send("square", "three"), nil
		}
		return append(treadle.Send("square", 2), treadle.Send("square", 3)...), nil
	}, "square")
	g := treadle.Must(b.Compile(nil))

	fmt.Println(g.Run(context.Background(), State{}))

	_, err := g.Run(context.Background(), State{Squares: reduce.List[int]{1}})
	bad, ok := errors.AsType[*treadle.GotoError](err)
	fmt.Println(ok, bad)
	// Output:
	// {[4 9]} <nil>
	// true goto "square": Send of string, but the node takes int
}

// A node may select the next nodes itself by returning a Goto, alone or with its writes.
func ExampleGoto() {
	type State struct{ N int }
	type halved struct {
		N    int
		Next treadle.Goto // control, not a field of the state
	}

	b := treadle.New[State]("collatz")
	treadle.AddNode(b, "halve", func(_ context.Context, s State) (halved, error) {
		if s.N%2 != 0 {
			return halved{N: s.N}, nil // no target: the run ends
		}
		return halved{s.N / 2, treadle.To("halve")}, nil
	}, treadle.Destinations("halve"))
	b.Edge(treadle.Start, "halve")
	g := treadle.Must(b.Compile(nil))

	fmt.Println(g.Run(context.Background(), State{N: 40}))
	// Output:
	// {5} <nil>
}

// To goes to nodes by name. They run together in the next step.
func ExampleTo() {
	type State struct{ Log reduce.List[string] }
	type entry struct{ Log reduce.List[string] }

	b := treadle.New[State]("fork")
	treadle.AddNode(b, "fork", func(context.Context, State) (treadle.Goto, error) {
		return treadle.To("left", "right"), nil
	}, treadle.Destinations("left", "right"))
	for _, name := range []string{"left", "right"} {
		treadle.AddNode(b, name, func(context.Context, State) (entry, error) { return entry{reduce.List[string]{name}}, nil })
	}
	b.Edge(treadle.Start, "fork")
	g := treadle.Must(b.Compile(nil))

	fmt.Println(g.Run(context.Background(), State{}))
	// Output:
	// {[left right]} <nil>
}

// A send may have its own timeout.
func ExampleGoto_Timeout() {
	type State struct{ Done bool }

	b := treadle.New[State]("impatient")
	wait := treadle.AddNode(b, "wait", func(ctx context.Context, _ string) (State, error) {
		<-ctx.Done() // a server that never answers
		return State{}, context.Cause(ctx)
	})
	treadle.AddBranch(b, treadle.Start, func(context.Context, State) (treadle.Goto, error) {
		return treadle.Send(wait, "https://example.com").Timeout(time.Millisecond), nil
	}, "wait")
	g := treadle.Must(b.Compile(nil))

	_, err := g.Run(context.Background(), State{})
	late, ok := errors.AsType[*treadle.TimeoutError](err)
	fmt.Println(ok, late.Node, late.Limit)
	// Output:
	// true wait 1ms
}
