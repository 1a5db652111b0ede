package treadle_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/treadle-go/treadle"
)

// A reducer for a type that has none: a list of numbers that is updated one
// number at a time. A nil update changes nothing.
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
		c, ok := treadle.ContextOf[Context](ctx)
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
func ExampleInitial() {
	type State struct {
		Greeting string
		Log      treadle.List[string]
	}
	type entry struct{ Log treadle.List[string] }

	b := treadle.New[State]("initial")
	treadle.Initial(b, State{Greeting: "Hello", Log: treadle.List[string]{"born"}})
	treadle.AddNode(b, "greet", func(_ context.Context, s State) (entry, error) {
		return entry{treadle.List[string]{s.Greeting}}, nil
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
	type State struct{ Log treadle.List[string] }
	type cleared struct {
		Log treadle.Overwrite[treadle.List[string]]
	}

	b := treadle.New[State]("overwrite")
	treadle.AddNode(b, "summarize", func(_ context.Context, s State) (cleared, error) {
		var c cleared
		c.Log.Value = treadle.List[string]{fmt.Sprintf("%d entries", len(s.Log))}
		return c, nil
	})
	b.Edge(treadle.Start, "summarize")
	g := treadle.Must(b.Compile(nil))

	fmt.Println(g.Run(context.Background(), State{Log: treadle.List[string]{"a", "b", "c"}}))
	// Output:
	// {[3 entries]} <nil>
}

// Nodes that run together add members to a set, keys to a map and numbers to a
// sum, and a maximum keeps the greatest.
func ExampleSum() {
	type State struct {
		Tags  treadle.Set[string]
		Price treadle.Map[string, int]
		Total treadle.Sum[int]
		Peak  treadle.Max[int]
	}
	type bought struct {
		Tags  treadle.Set[string]
		Price treadle.Map[string, int]
		Total treadle.Sum[int]
		Peak  treadle.Max[int]
	}

	b := treadle.New[State]("shopping")
	for item, price := range map[string]int{"apple": 3, "pear": 5} {
		treadle.AddNode(b, item, func(context.Context, State) (bought, error) {
			return bought{
				treadle.SetOf("fruit"),
				treadle.Map[string, int]{item: price},
				treadle.SumOf(price),
				treadle.MaxOf(price),
			}, nil
		})
		b.Edge(treadle.Start, item)
	}
	g := treadle.Must(b.Compile(nil))

	out, err := g.Run(context.Background(), State{})
	fmt.Println(out.Tags.Has("fruit"), len(out.Tags), out.Price, out.Total, out.Peak, err)
	// Output:
	// true 1 map[apple:3 pear:5] 8 5 <nil>
}

// A set grows; in JSON it is a list.
func ExampleSet() {
	s := treadle.SetOf("pear", "apple").Reduce(treadle.SetOf("apple", "fig"))
	raw, err := json.Marshal(s)
	fmt.Println(s.Has("fig"), string(raw), err)
	// Output:
	// true ["apple","fig","pear"] <nil>
}

// A map's updates set keys.
func ExampleMap() {
	m := treadle.Map[string, int]{"apple": 1, "fig": 2}
	fmt.Println(m.Reduce(treadle.Map[string, int]{"fig": 3, "pear": 4}))
	// Output:
	// map[apple:1 fig:3 pear:4]
}

// A maximum keeps the greatest value there was, and there may be none yet.
func ExampleMax() {
	var peak treadle.Max[int]
	fmt.Println(peak, peak.Ok)
	for _, n := range []int{-3, -7, -1} {
		peak = peak.Reduce(treadle.MaxOf(n))
	}
	fmt.Println(peak.N, peak.Ok)
	// Output:
	// none false
	// -1 true
}
