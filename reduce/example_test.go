package reduce_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/reduce"
)

// A field of type List appends its updates.
//
// Sample: A3.
func ExampleList() {
	type State struct {
		Foo int                 `json:"foo"`
		Bar reduce.List[string] `json:"bar"`
	}
	type foo struct{ Foo int }
	type bar struct{ Bar reduce.List[string] }

	b := treadle.New[State]("append")
	treadle.AddNode(b, "node_1", func(context.Context, State) (foo, error) { return foo{2}, nil })
	treadle.AddNode(b, "node_2", func(context.Context, State) (bar, error) { return bar{reduce.List[string]{"bye"}}, nil })
	b.Edge(treadle.Start, "node_1")
	b.Edge("node_1", "node_2")
	g := treadle.Must(b.Compile(nil))

	in := State{Foo: 1, Bar: reduce.List[string]{"hi"}}
	for ev, err := range g.Stream(context.Background(), in, treadle.Modes(treadle.ModeValues)) {
		if err != nil {
			fmt.Println(err)
		}
		if v, ok := ev.(treadle.Values); ok {
			fmt.Println(v.State)
		}
	}
	// Output:
	// {"foo":1,"bar":["hi"]}
	// {"foo":2,"bar":["hi"]}
	// {"foo":2,"bar":["hi","bye"]}
}

// Nodes that run in parallel add members to a set, keys to a map, and numbers
// to a sum; a Max keeps the greatest value.
func ExampleSum() {
	type State struct {
		Tags  reduce.Set[string]
		Price reduce.Map[string, int]
		Total reduce.Sum[int]
		Peak  reduce.Max[int]
	}
	type bought struct {
		Tags  reduce.Set[string]
		Price reduce.Map[string, int]
		Total reduce.Sum[int]
		Peak  reduce.Max[int]
	}

	b := treadle.New[State]("shopping")
	for item, price := range map[string]int{"apple": 3, "pear": 5} {
		treadle.AddNode(b, item, func(context.Context, State) (bought, error) {
			return bought{
				reduce.SetOf("fruit"),
				reduce.Map[string, int]{item: price},
				reduce.SumOf(price),
				reduce.MaxOf(price),
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

// A set only grows; its JSON form is a list.
func ExampleSet() {
	s := reduce.SetOf("pear", "apple").Reduce(reduce.SetOf("apple", "fig"))
	raw, err := json.Marshal(s)
	fmt.Println(s.Has("fig"), string(raw), err)
	// Output:
	// true ["apple","fig","pear"] <nil>
}

// A map's updates set keys.
func ExampleMap() {
	m := reduce.Map[string, int]{"apple": 1, "fig": 2}
	fmt.Println(m.Reduce(reduce.Map[string, int]{"fig": 3, "pear": 4}))
	// Output:
	// map[apple:1 fig:3 pear:4]
}

// A Max keeps the greatest value so far, if any.
func ExampleMax() {
	var peak reduce.Max[int]
	fmt.Println(peak, peak.Ok)
	for _, n := range []int{-3, -7, -1} {
		peak = peak.Reduce(reduce.MaxOf(n))
	}
	fmt.Println(peak.N, peak.Ok)
	// Output:
	// none false
	// -1 true
}

// A custom list type appends without copying if it has a method Reducer.
func ExampleAppending() {
	type State struct{ Log diary }
	type noted struct{ Log diary }

	b := treadle.New[State]("diary")
	treadle.AddNode(b, "note", func(context.Context, State) (noted, error) {
		return noted{diary{{"rain"}}}, nil
	})
	b.Edge(treadle.Start, "note")
	g := treadle.Must(b.Compile(nil))

	fmt.Println(g.Run(context.Background(), State{Log: diary{{"sun"}}}))
	// Output:
	// {[{sun} {rain}]} <nil>
}

type entry struct{ Weather string }

type diary []entry

// Reduce defines the effect of an update; Reducer achieves it without copying.
func (d diary) Reduce(u diary) diary { return slices.Concat(d, u) }

func (diary) Reducer() reduce.Reducer { return reduce.Appending[diary, entry]{} }
