package treadle_test

import (
	"context"
	"fmt"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/reduce"
)

// A graph is a node of another one if they share a field. What they do not
// share stays inside.
//
// Sample: A13.
func ExampleAddGraph() {
	type State struct{ Foo string }
	type SubgraphState struct {
		Foo string // shared with State
		Bar string
	}

	child := treadle.New[SubgraphState]("child")
	treadle.AddNode(child, "subgraph_node", func(_ context.Context, s SubgraphState) (SubgraphState, error) {
		return SubgraphState{Foo: s.Foo + "bar", Bar: "stays here"}, nil
	})
	child.Edge(treadle.Start, "subgraph_node")
	subgraph := treadle.Must(child.Compile(nil))

	b := treadle.New[State]("parent")
	treadle.AddGraph(b, "subgraph", subgraph)
	b.Edge(treadle.Start, "subgraph")
	g := treadle.Must(b.Compile(nil))

	out, err := g.Run(context.Background(), State{Foo: "foo"})
	fmt.Printf("%+v %v\n", out, err)
	// Output:
	// {Foo:foobar} <nil>
}

// A graph that shares no field is called in a node, which translates. Uses
// lets drawings see it.
//
// Sample: A14.
func ExampleUses() {
	type State struct{ Foo string }
	type SubgraphState struct{ Bar, Baz string }
	type bar struct{ Bar string }

	child := treadle.New[SubgraphState]("child")
	treadle.AddNode(child, "subgraph_node", func(_ context.Context, s SubgraphState) (bar, error) {
		return bar{s.Bar + "baz"}, nil
	})
	child.Edge(treadle.Start, "subgraph_node")
	subgraph := treadle.Must(child.Compile(nil))

	b := treadle.New[State]("parent")
	treadle.AddNode(b, "node", func(ctx context.Context, s State) (State, error) {
		out, err := subgraph.Run(ctx, SubgraphState{Bar: s.Foo})
		return State{out.Bar}, err
	}, treadle.Uses(subgraph))
	b.Edge(treadle.Start, "node")
	g := treadle.Must(b.Compile(nil))

	fmt.Println(g.Run(context.Background(), State{Foo: "foo"}))
	// Output:
	// {foobaz} <nil>
}

// Subgraphs are identified by the names of their nodes.
func ExampleGraph_Subgraphs() {
	type State struct{ N int }
	inc := func(_ context.Context, s State) (State, error) { return State{s.N + 1}, nil }

	inner := treadle.New[State]("inner")
	treadle.AddNode(inner, "inc", inc)
	inner.Edge(treadle.Start, "inc")

	middle := treadle.New[State]("middle")
	treadle.AddGraph(middle, "twice", treadle.Must(inner.Compile(nil)))
	middle.Edge(treadle.Start, "twice")

	b := treadle.New[State]("outer")
	treadle.AddGraph(b, "more", treadle.Must(middle.Compile(nil)))
	b.Edge(treadle.Start, "more")
	g := treadle.Must(b.Compile(nil))

	for path, inner := range g.Subgraphs() {
		fmt.Println(path, "runs", inner.Name())
	}
	fmt.Println(g.Run(context.Background(), State{N: 1}))
	// Output:
	// more runs middle
	// more/twice runs inner
	// {2} <nil>
}

// PerThread lets a subgraph continue where its last run ended. NoCheckpoints saves nothing
// of it.
func ExamplePerThread() {
	type Visits struct{ Visits reduce.Sum[int] }
	type visit struct{ Visits reduce.Sum[int] }
	type State struct{ Seen int }

	child := treadle.New[Visits]("counter")
	treadle.AddNode(child, "count", func(context.Context, Visits) (visit, error) { return visit{reduce.SumOf(1)}, nil })
	child.Edge(treadle.Start, "count")
	counter := treadle.Must(child.Compile(nil))

	ctx := context.Background()
	for _, option := range []treadle.RunOption{treadle.PerThread(), treadle.NoCheckpoints()} {
		b := treadle.New[State]("shop")
		treadle.AddNode(b, "enter", func(ctx context.Context, _ State) (State, error) {
			out, err := counter.With(option).Run(ctx, Visits{})
			return State{out.Visits.N}, err
		})
		b.Edge(treadle.Start, "enter")
		thread := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()})).Thread("ann")
		for range 2 {
			fmt.Println(thread.Run(ctx, State{}))
		}
	}
	// Output:
	// {1} <nil>
	// {2} <nil>
	// {1} <nil>
	// {1} <nil>
}
