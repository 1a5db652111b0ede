package treadle_test

import (
	"context"
	"fmt"
	"slices"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/reduce"
)

// A reducer for a type without one: a list of numbers that is updated one number at a
// time. A nil update changes nothing.
//
// Sample: A16.
func ExampleReduce() {
	type State struct{ X []float64 }
	type Input struct{ X float64 }
	type Context struct{ R float64 }
	type next struct{ X *float64 } // nil: no change

	b := treadle.New[State]("logistic map")
	treadle.Reduce(b, "X", func(list []float64, x float64) []float64 { return append(slices.Clip(list), x) })
	treadle.AddNode(b, "A", func(ctx context.Context, s State) (next, error) {
		c, ok := treadle.ContextFrom[Context](ctx)
		if !ok {
			c.R = 1.0
		}
		x := s.X[len(s.X)-1]
		if x == 0 {
			return next{}, nil
		}
		return next{new(x * c.R * (1 - x))}, nil
	})
	b.Edge(treadle.Start, "A")
	b.Edge("A", treadle.End)
	g := treadle.Must(treadle.Compile[Input, State](b, nil))

	fmt.Println(g.With(treadle.Context(Context{R: 3.0})).Run(context.Background(), Input{0.5}))
	fmt.Println(g.Run(context.Background(), Input{0.5}))
	fmt.Println(g.Run(context.Background(), Input{0}))
	// Output:
	// {[0.5 0.75]} <nil>
	// {[0.5 0.25]} <nil>
	// {[0]} <nil>
}

// Initial gives a fresh run, and a fresh thread, its starting values. What the
// input does not set keeps them.
func ExampleBuilder_Initial() {
	type State struct {
		Greeting string
		Log      reduce.List[string]
	}
	type entry struct{ Log reduce.List[string] }

	b := treadle.New[State]("initial")
	b.Initial(State{Greeting: "Hello", Log: reduce.List[string]{"born"}})
	treadle.AddNode(b, "greet", func(_ context.Context, s State) (entry, error) {
		return entry{reduce.List[string]{s.Greeting}}, nil
	})
	b.Edge(treadle.Start, "greet")
	g := treadle.Must(b.Compile(nil))

	fmt.Println(g.Run(context.Background(), State{}))
	fmt.Println(g.Run(context.Background(), State{Greeting: "Ahoy"}))
	// Output:
	// {Hello [born Hello]} <nil>
	// {Ahoy [born Ahoy]} <nil>
}

// A field that accumulates is replaced by an Overwrite.
func ExampleOverwrite() {
	type State struct{ Log reduce.List[string] }
	type cleared struct {
		Log treadle.Overwrite[reduce.List[string]]
	}

	b := treadle.New[State]("overwrite")
	treadle.AddNode(b, "summarize", func(_ context.Context, s State) (cleared, error) {
		var c cleared
		c.Log.Value = reduce.List[string]{fmt.Sprintf("%d entries", len(s.Log))}
		return c, nil
	})
	b.Edge(treadle.Start, "summarize")
	g := treadle.Must(b.Compile(nil))

	fmt.Println(g.Run(context.Background(), State{Log: reduce.List[string]{"a", "b", "c"}}))
	// Output:
	// {[3 entries]} <nil>
}
