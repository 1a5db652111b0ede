package treadle_test

import (
	"context"
	"fmt"

	"github.com/treadle-go/treadle"
)

// A graph is drawn as Mermaid for a document and as text for a terminal, and
// as DOT and SVG too. Nothing else needs to be installed.
func ExampleGraph_Shape() {
	type State struct{ Draft string }
	same := func(_ context.Context, s State) (State, error) { return s, nil }

	b := treadle.New[State]("essay")
	treadle.AddNode(b, "write", same)
	treadle.AddNode(b, "review", same)
	b.Edge(treadle.Start, "write")
	b.Edge("write", "review")
	treadle.AddBranch(b, "review", func(_ context.Context, s State) (treadle.Goto, error) {
		if s.Draft != "" {
			return treadle.To(treadle.End), nil
		}
		return treadle.To("write"), nil
	}, treadle.Label(treadle.End, "true"), treadle.Label("write", "false"))
	shape := treadle.Must(b.Compile(nil)).Shape()

	fmt.Println(shape.Mermaid())
	fmt.Println(shape.Text())
	// Output:
	// ---
	// config:
	//   flowchart:
	//     curve: linear
	// ---
	// graph TD;
	// 	__start__([<p>__start__</p>]):::first
	// 	write(write)
	// 	review(review)
	// 	__end__([<p>__end__</p>]):::last
	// 	__start__ --> write;
	// 	review -. &nbsp;true&nbsp; .-> __end__;
	// 	review -. &nbsp;false&nbsp; .-> write;
	// 	write --> review;
	// 	classDef default fill:#f2f0ff,line-height:1.2
	// 	classDef first fill-opacity:0
	// 	classDef last fill:#bfb6fc
	//
	// ╭───────────╮
	// │ __start__ │
	// ╰─────┬─────╯
	//       │
	//       ▼
	//   ┌───────┐
	//   │ write │
	//   └─────┬─┘
	//     ▲   │
	//     ┆   └┐
	//   false  │
	//     ┆    ▼
	//   ┌─┴──────┐
	//   │ review │
	//   └───┬────┘
	//       ┆
	//     true
	//       ▼
	//  ╭─────────╮
	//  │ __end__ │
	//  ╰─────────╯
}

// A closed subgraph is one box; Expand opens it.
func ExampleGraph_Shape_expand() {
	type State struct{ N int }
	same := func(_ context.Context, s State) (State, error) { return s, nil }

	child := treadle.New[State]("child")
	treadle.AddNode(child, "inner", same)
	child.Edge(treadle.Start, "inner")

	b := treadle.New[State]("parent")
	treadle.AddGraph(b, "sub", treadle.Must(child.Compile(nil)))
	b.Edge(treadle.Start, "sub")
	shape := treadle.Must(b.Compile(nil)).Shape()

	for _, n := range shape.Nodes {
		fmt.Println(n.ID)
	}
	for _, n := range shape.Expand(1).Nodes {
		fmt.Println("expanded:", n.ID)
	}
	// Output:
	// __start__
	// sub
	// __end__
	// expanded: __start__
	// expanded: sub:inner
	// expanded: __end__
}
