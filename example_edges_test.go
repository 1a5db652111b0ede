package treadle_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/reduce"
)

// An edge from Start selects the first node, an edge between nodes the next node, and an
// edge to End ends the run.
//
// Sample: A8.
func ExampleBuilder_Edge() {
	type Path = reduce.List[string]

	b := treadle.New[Path]("edges")
	for _, name := range []string{"node_a", "node_b"} {
		treadle.AddNode(b, name, func(context.Context, Path) (Path, error) { return Path{name}, nil })
	}
	b.Edge(treadle.Start, "node_a")
	b.Edge("node_a", "node_b")
	b.Edge("node_b", treadle.End)
	g := treadle.Must(b.Compile(nil))

	fmt.Println(g.Run(context.Background(), nil))
	// Output:
	// [node_a node_b] <nil>
}

// A router returns the nodes to run next, which run in parallel, or End to stop.
//
// Sample: A8.
func ExampleAddBranch() {
	type State struct {
		Level int
		Path  reduce.List[string]
	}
	type visit struct{ Path reduce.List[string] }

	b := treadle.New[State]("branch")
	for _, name := range []string{"node_a", "node_b", "node_c"} {
		treadle.AddNode(b, name, func(context.Context, State) (visit, error) {
			return visit{reduce.List[string]{name}}, nil
		})
	}
	b.Edge(treadle.Start, "node_a")
	treadle.AddBranch(b, "node_a", func(_ context.Context, s State) (treadle.Goto, error) {
		switch {
		case s.Level > 5:
			return treadle.To("node_b", "node_c"), nil
		case s.Level > 0:
			return treadle.To("node_b"), nil
		}
		return treadle.To(treadle.End), nil
	})
	g := treadle.Must(b.Compile(nil))

	for _, level := range []int{0, 1, 9} {
		out, err := g.Run(context.Background(), State{Level: level})
		fmt.Println(level, out.Path, err)
	}
	// Output:
	// 0 [node_a] <nil>
	// 1 [node_a node_b] <nil>
	// 9 [node_a node_b node_c] <nil>
}

// A branch from Start selects the first node. The destinations after the router appear in
// diagrams.
//
// Sample: A8.
func ExampleAddBranch_entry() {
	type State struct {
		Lang  string
		Greet string
	}
	type greeting struct{ Greet string }

	b := treadle.New[State]("entry")
	treadle.AddNode(b, "english", func(context.Context, State) (greeting, error) { return greeting{"hello"}, nil })
	treadle.AddNode(b, "french", func(context.Context, State) (greeting, error) { return greeting{"bonjour"}, nil })
	treadle.AddBranch(b, treadle.Start, func(_ context.Context, s State) (treadle.Goto, error) {
		if s.Lang == "fr" {
			return treadle.To("french"), nil
		}
		return treadle.To("english"), nil
	}, "english", "french")
	g := treadle.Must(b.Compile(nil))

	fmt.Println(g.Run(context.Background(), State{Lang: "fr"}))
	fmt.Println(g.Run(context.Background(), State{Lang: "en"}))
	// Output:
	// {fr bonjour} <nil>
	// {en hello} <nil>
}

// A router that reads one field takes a struct of that field.
func ExampleAddBranch_fields() {
	type State struct {
		Score int
		Grade string
	}
	type grade struct{ Grade string }
	type score struct{ Score int }

	b := treadle.New[State]("grades")
	treadle.AddNode(b, "pass", func(context.Context, State) (grade, error) { return grade{"pass"}, nil })
	treadle.AddNode(b, "fail", func(context.Context, State) (grade, error) { return grade{"fail"}, nil })
	treadle.AddBranch(b, treadle.Start, func(_ context.Context, s score) (treadle.Goto, error) {
		if s.Score >= 50 {
			return treadle.To("pass"), nil
		}
		return treadle.To("fail"), nil
	}, "pass", "fail")
	g := treadle.Must(b.Compile(nil))

	fmt.Println(g.Run(context.Background(), State{Score: 71}))
	// Output:
	// {71 pass} <nil>
}

// Labels show in diagrams when a branch leads to a node.
//
// Sample: A8.
func ExampleLabel() {
	type State struct {
		Text string
		Path reduce.List[string]
	}
	type visit struct{ Path reduce.List[string] }

	b := treadle.New[State]("labels")
	for _, name := range []string{"node_a", "node_b", "node_c"} {
		treadle.AddNode(b, name, func(context.Context, State) (visit, error) {
			return visit{reduce.List[string]{name}}, nil
		})
	}
	b.Edge(treadle.Start, "node_a")
	treadle.AddBranch(b, "node_a", func(_ context.Context, s State) (treadle.Goto, error) {
		if len(s.Text) > 5 {
			return treadle.To("node_b"), nil
		}
		return treadle.To("node_c"), nil
	}, treadle.Label("node_b", "long"), treadle.Label("node_c", "short"))
	g := treadle.Must(b.Compile(nil))

	for _, text := range []string{"hi", "good morning"} {
		out, err := g.Run(context.Background(), State{Text: text})
		fmt.Println(text, out.Path, err)
	}
	fmt.Println(g.Shape().Text())
	// Output:
	// hi [node_a node_c] <nil>
	// good morning [node_a node_b] <nil>
	//     ╭───────────╮
	//     │ __start__ │
	//     ╰─────┬─────╯
	//           │
	//           ▼
	//       ┌────────┐
	//       │ node_a │
	//       └─┬───┬──┘
	//     ┌╌╌╌┘   ┆
	//   long    short
	//     ┆       └╌╌╌╌┐
	//     ▼            ▼
	// ┌────────┐   ┌────────┐
	// │ node_b │   │ node_c │
	// └───┬────┘   └───┬────┘
	//     │   ┌────────┘
	//     ▼   ▼
	//  ╭─────────╮
	//  │ __end__ │
	//  ╰─────────╯
}

// A join waits for all of its sources, even if they take a different number of
// steps.
//
// Sample: A17.
func ExampleBuilder_Join() {
	type State struct{ Log reduce.List[string] }
	type entry struct{ Log reduce.List[string] }

	b := treadle.New[State]("join")
	for _, name := range []string{"quick", "slow_1", "slow_2", "report"} {
		treadle.AddNode(b, name, func(context.Context, State) (entry, error) {
			return entry{reduce.List[string]{name}}, nil
		})
	}
	b.Edge(treadle.Start, "quick")
	b.Edge(treadle.Start, "slow_1")
	b.Edge("slow_1", "slow_2")
	b.Join([]any{"quick", "slow_2"}, "report")
	g := treadle.Must(b.Compile(nil))

	out, err := g.Run(context.Background(), State{})
	fmt.Println(out.Log, err)
	// Output:
	// [quick slow_1 slow_2 report] <nil>
}

// A sequence is an edge between each node and the next.
//
// Sample: A17.
func ExampleBuilder_Sequence() {
	type State struct{ Text string }

	b := treadle.New[State]("sequence")
	for _, word := range []string{"one", "two", "three"} {
		treadle.AddNode(b, word, func(_ context.Context, s State) (State, error) {
			return State{s.Text + " " + word}, nil
		})
	}
	b.Sequence(treadle.Start, "one", "two", "three")
	g := treadle.Must(b.Compile(nil))

	fmt.Println(g.Run(context.Background(), State{Text: "zero"}))
	// Output:
	// {zero one two three} <nil>
}

// Compile reports all problems together, here an empty sequence and a sequence with a
// duplicate node.
//
// Sample: A17.
func ExampleBuildError() {
	type State struct{ Text string }

	b := treadle.New[State]("mistakes")
	treadle.AddNode(b, "one", func(_ context.Context, s State) (State, error) { return s, nil })
	b.Edge(treadle.Start, "one")
	b.Sequence()
	b.Sequence("one", "one")
	_, err := b.Compile(nil)
	fmt.Println(err)

	first, ok := errors.AsType[*treadle.BuildError](err)
	fmt.Println(ok, first.Graph)
	// Output:
	// graph "mistakes": sequence: no nodes: pass at least one
	// graph "mistakes": sequence: duplicate node "one"
	// true mistakes
}

// A deferred node waits until nothing else is left to run, so branches of any
// length can be summed up without naming their ends.
func ExampleDefer() {
	type State struct{ Log reduce.List[string] }
	type entry struct{ Log reduce.List[string] }

	b := treadle.New[State]("defer")
	add := func(name string, opts ...treadle.NodeOption) {
		treadle.AddNode(b, name, func(context.Context, State) (entry, error) {
			return entry{reduce.List[string]{name}}, nil
		}, opts...)
	}
	add("short")
	add("long_1")
	add("long_2")
	add("sum", treadle.Defer())
	b.Sequence(treadle.Start, "short", "sum")
	b.Sequence(treadle.Start, "long_1", "long_2", "sum")
	g := treadle.Must(b.Compile(nil))

	out, err := g.Run(context.Background(), State{})
	fmt.Println(out.Log, err)
	// Output:
	// [long_1 short long_2 sum] <nil>
}
