package human_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/reduce"
)

// Trail lists the nodes that have run.
type Trail struct{ Names reduce.List[string] }

type visited struct{ Names reduce.List[string] }

func visitor(name string) func(context.Context, Trail) (visited, error) {
	return func(context.Context, Trail) (visited, error) { return visited{reduce.List[string]{name}}, nil }
}

// Breakpoints of a graph stop every run before or after nodes. While it is stopped the
// state can be edited; Continue runs the rest.
//
// Sample: B6.
func Example_breakpoints() {
	b := treadle.New[Trail]("stops")
	for _, name := range []string{"node_a", "node_b", "node_c"} {
		treadle.AddNode(b, name, visitor(name))
	}
	b.Edge(treadle.Start, "node_a")
	b.Edge("node_a", "node_b")
	b.Edge("node_a", "node_c") // alongside node_b
	g := treadle.Must(b.Compile(&treadle.Options{
		Saver:  checkpoint.NewMemory(),
		Before: []any{"node_a"},
		After:  []any{"node_b", "node_c"},
	}))

	ctx := context.Background()
	thread := g.Thread("some_thread")
	fmt.Println(thread.Run(ctx, Trail{}))

	_, err := thread.Update(ctx, visited{reduce.List[string]{"a person"}})
	fmt.Println("edited:", err)

	out, err := thread.Continue(ctx)
	stop, ok := errors.AsType[*treadle.InterruptError](err)
	fmt.Println(out, ok, stop.After)

	fmt.Println(thread.Continue(ctx))
	// Output:
	// {[]} graph "stops": interrupted: breakpoint before node_a
	// edited: <nil>
	// {[a person node_a node_b node_c]} true [node_b node_c]
	// {[a person node_a node_b node_c]} <nil>
}

// Breakpoints can also belong to a run: With binds them, and another handle on the same
// thread continues without them.
//
// Sample: B6.
func Example_breakpointsOfARun() {
	b := treadle.New[Trail]("stops")
	for _, name := range []string{"node_a", "node_b", "node_c"} {
		treadle.AddNode(b, name, visitor(name))
	}
	b.Sequence(treadle.Start, "node_a", "node_b", "node_c")
	g := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()}))

	ctx := context.Background()
	debug := g.With(treadle.Before("node_a"), treadle.After("node_b", "node_c")).Thread("some_thread")
	fmt.Println(debug.Run(ctx, Trail{}))
	fmt.Println(debug.Continue(ctx))
	fmt.Println(g.Thread("some_thread").Continue(ctx))
	// Output:
	// {[]} graph "stops": interrupted: breakpoint before node_a
	// {[node_a node_b]} graph "stops": interrupted: breakpoint after node_b
	// {[node_a node_b node_c]} <nil>
}

// A node can stop on a condition. It stops again while the condition holds; an update of
// the state, or one on behalf of the node, gets past it.
//
// Sample: B7.
func Example_conditionalBreakpoint() {
	type State struct{ Input, Output string }
	type input struct{ Input string }
	type output struct{ Output string }

	b := treadle.New[State]("short")
	treadle.AddNode(b, "my_node", func(ctx context.Context, s State) (output, error) {
		if len(s.Input) > 5 {
			_, err := treadle.Interrupt[any](ctx, "received input that is longer than 5 characters: "+s.Input)
			return output{}, err
		}
		return output{"took " + s.Input}, nil
	})
	treadle.AddNode(b, "next", func(_ context.Context, s State) (output, error) {
		return output{s.Output + ", then went on"}, nil
	})
	b.Sequence(treadle.Start, "my_node", "next")
	g := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()}))
	ctx := context.Background()

	edited := g.Thread("edited")
	report(edited.Run(ctx, State{Input: "hello world"}))
	report(edited.Continue(ctx)) // nothing has changed
	_, err := edited.Update(ctx, input{"foo"})
	fmt.Println("edited:", err)
	report(edited.Continue(ctx))

	skipped := g.Thread("skipped")
	report(skipped.Run(ctx, State{Input: "hello world"}))
	_, err = skipped.Update(ctx, nil, treadle.AsNode("my_node"))
	fmt.Println("skipped:", err)
	report(skipped.Continue(ctx))
	// Output:
	// my_node asks "received input that is longer than 5 characters: hello world"
	// my_node asks "received input that is longer than 5 characters: hello world"
	// edited: <nil>
	// {Input:foo Output:took foo, then went on}
	// my_node asks "received input that is longer than 5 characters: hello world"
	// skipped: <nil>
	// {Input:hello world Output:, then went on}
}
