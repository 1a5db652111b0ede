package treadle_test

import (
	"context"
	"fmt"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/reduce"
)

// A command combines a write and a goto.
//
// Sample: A10.
func ExampleCommand() {
	type State struct{ Foo string }

	b := treadle.New[State]("command")
	treadle.AddNode(b, "my_node", func(context.Context, State) (treadle.Command[State], error) {
		return treadle.Command[State]{
			Update: &State{Foo: "bar"},          // state update
			Goto:   treadle.To("my_other_node"), // control flow
		}, nil
	}, treadle.Destinations("my_other_node"))
	treadle.AddNode(b, "my_other_node", func(_ context.Context, s State) (State, error) {
		return State{s.Foo + ", seen by my_other_node"}, nil
	})
	b.Edge(treadle.Start, "my_node")
	g := treadle.Must(b.Compile(nil))

	fmt.Println(g.Run(context.Background(), State{Foo: "foo"}))
	// Output:
	// {bar, seen by my_other_node} <nil>
}

// The zero Command writes nothing and leads nowhere.
//
// Sample: A10.
func ExampleCommand_conditional() {
	type State struct {
		Foo     string
		Visited bool
	}
	type foo struct{ Foo string }
	type visited struct{ Visited bool }

	b := treadle.New[State]("conditional")
	treadle.AddNode(b, "my_node", func(_ context.Context, s State) (treadle.Command[foo], error) {
		if s.Foo == "bar" {
			return treadle.Command[foo]{Update: &foo{"baz"}, Goto: treadle.To("my_other_node")}, nil
		}
		return treadle.Command[foo]{}, nil
	}, treadle.Destinations("my_other_node"))
	treadle.AddNode(b, "my_other_node", func(context.Context, State) (visited, error) { return visited{true}, nil })
	b.Edge(treadle.Start, "my_node")
	g := treadle.Must(b.Compile(nil))

	for _, in := range []string{"bar", "other"} {
		out, err := g.Run(context.Background(), State{Foo: in})
		fmt.Printf("%+v %v\n", out, err)
	}
	// Output:
	// {Foo:baz Visited:true} <nil>
	// {Foo:other Visited:false} <nil>
}

// Agents hand over to each other, and to themselves, by commands.
//
// Sample: A18.
func ExampleCommand_handoff() {
	type State struct {
		Turns int
		Log   reduce.List[string]
	}
	type turn struct {
		Turns int
		Log   reduce.List[string]
	}
	type command = treadle.Command[turn]

	b := treadle.New[State]("agents")
	treadle.AddNode(b, "agent", func(_ context.Context, s State) (command, error) {
		next := "agent" // again
		if s.Turns == 1 {
			next = "another_agent"
		}
		return command{Update: &turn{s.Turns + 1, reduce.List[string]{"agent → " + next}}, Goto: treadle.To(next)}, nil
	}, treadle.Destinations("agent", "another_agent"))
	treadle.AddNode(b, "another_agent", func(_ context.Context, s State) (command, error) {
		return command{Update: &turn{s.Turns + 1, reduce.List[string]{"another_agent is done"}}}, nil
	}, treadle.Destinations(treadle.End))
	b.Edge(treadle.Start, "agent")
	g := treadle.Must(b.Compile(nil))

	out, err := g.Run(context.Background(), State{})
	for _, line := range out.Log {
		fmt.Println(line)
	}
	fmt.Println(out.Turns, err)
	// Output:
	// agent → agent
	// agent → another_agent
	// another_agent is done
	// 3 <nil>
}

// A node inside alice sends the graph around alice to bob.
//
// Sample: A18.
func ExampleCommand_parent() {
	type State struct{ MyStateKey string }

	alice := treadle.New[State]("alice")
	treadle.AddNode(alice, "some_node", func(context.Context, State) (treadle.Command[State], error) {
		return treadle.Command[State]{
			Update: &State{"my_state_value"},
			Goto:   treadle.To("bob"),
			Parent: true,
		}, nil
	}, treadle.Handoff("bob"))
	alice.Edge(treadle.Start, "some_node")

	b := treadle.New[State]("team")
	treadle.AddGraph(b, "alice", treadle.Must(alice.Compile(nil)))
	treadle.AddNode(b, "bob", func(_ context.Context, s State) (State, error) {
		return State{"bob got " + s.MyStateKey}, nil
	})
	b.Edge(treadle.Start, "alice")
	g := treadle.Must(b.Compile(nil))

	fmt.Println(g.Run(context.Background(), State{}))
	// Output:
	// {bob got my_state_value} <nil>
}

// A declared hand-off is checked when the graphs are put together, and drawn.
//
// Sample: A18.
func ExampleHandoff() {
	type State struct{ MyStateKey string }

	alice := treadle.New[State]("alice")
	treadle.AddNode(alice, "some_node", func(context.Context, State) (treadle.Command[State], error) {
		return treadle.Command[State]{Update: &State{"my_state_value"}, Goto: treadle.To("bob"), Parent: true}, nil
	}, treadle.Handoff("bob"))
	alice.Edge(treadle.Start, "some_node")

	b := treadle.New[State]("team")
	treadle.AddGraph(b, "alice", treadle.Must(alice.Compile(nil)))
	treadle.AddNode(b, "bob", func(_ context.Context, s State) (State, error) { return s, nil })
	b.Edge(treadle.Start, "alice")
	b.Edge("bob", treadle.End)

	fmt.Print(treadle.Must(b.Compile(nil)).Shape().Text())
	// Output:
	// ╭───────────╮
	// │ __start__ │
	// ╰─────┬─────╯
	//       │
	//       ▼
	//   ┌───────┐
	//   │ alice │
	//   └───┬───┘
	//       ┆
	//       ▼
	//    ┌─────┐
	//    │ bob │
	//    └──┬──┘
	//       │
	//       ▼
	//  ╭─────────╮
	//  │ __end__ │
	//  ╰─────────╯
}

// A node that calls another agent's graph declares where its commands may lead.
//
// Sample: A18.
func ExampleDestinations() {
	type State struct{ MyStateKey string }

	a := treadle.New[State]("alice")
	treadle.AddNode(a, "some_node", func(context.Context, State) (treadle.Command[State], error) {
		return treadle.Command[State]{Update: &State{"my_state_value"}, Goto: treadle.To("bob"), Parent: true}, nil
	}, treadle.Handoff("bob"))
	a.Edge(treadle.Start, "some_node")
	alice := treadle.Must(a.Compile(nil))

	b := treadle.New[State]("team")
	treadle.AddNode(b, "alice", func(ctx context.Context, s State) (State, error) {
		return alice.Run(ctx, s)
	}, treadle.Destinations("bob"), treadle.Uses(alice))
	treadle.AddNode(b, "bob", func(_ context.Context, s State) (State, error) {
		return State{"bob got " + s.MyStateKey}, nil
	})
	b.Edge(treadle.Start, "alice")
	b.Edge("bob", treadle.End)
	g := treadle.Must(b.Compile(nil))

	for _, e := range g.Shape().Edges {
		fmt.Println(e.From, "→", e.To, e.Conditional)
	}
	fmt.Println(g.Run(context.Background(), State{}))
	// Output:
	// __start__ → alice false
	// alice → bob true
	// bob → __end__ false
	// {bob got my_state_value} <nil>
}

// A destination can have a label, which is drawn on its edge.
func ExampleDestinations_label() {
	type State struct{ Draft string }

	b := treadle.New[State]("review")
	treadle.AddNode(b, "review", func(_ context.Context, s State) (treadle.Goto, error) {
		if s.Draft == "" {
			return treadle.To("write"), nil
		}
		return nil, nil
	}, treadle.Destinations(treadle.Label("write", "rejected"), treadle.Label(treadle.End, "accepted")))
	treadle.AddNode(b, "write", func(context.Context, State) (State, error) { return State{"It was a dark night."}, nil })
	b.Edge(treadle.Start, "review")
	b.Edge("write", "review")
	g := treadle.Must(b.Compile(nil))

	for _, e := range g.Shape().Edges {
		fmt.Printf("%s → %s %q\n", e.From, e.To, e.Label)
	}
	// Output:
	// __start__ → review ""
	// review → __end__ "accepted"
	// review → write "rejected"
	// write → review ""
}

// A goto adds to a node's static edges; it does not replace them. Compile warns
// about the combination unless Additive declares it intentional.
func ExampleAdditive() {
	type State struct{ Log reduce.List[string] }
	type entry struct{ Log reduce.List[string] }

	build := func(opts ...treadle.NodeOption) *treadle.Graph[State, State] {
		b := treadle.New[State]("order")
		treadle.AddNode(b, "pay", func(context.Context, State) (treadle.Goto, error) {
			return treadle.To("gift"), nil
		}, append(opts, treadle.Destinations("gift"))...)
		for _, name := range []string{"gift", "ship"} {
			treadle.AddNode(b, name, func(context.Context, State) (entry, error) { return entry{reduce.List[string]{name}}, nil })
		}
		b.Edge(treadle.Start, "pay")
		b.Edge("pay", "ship") // always
		return treadle.Must(b.Compile(nil))
	}

	fmt.Println(len(build().Warnings()), "warning")
	g := build(treadle.Additive())
	fmt.Println(len(g.Warnings()), "warnings")
	fmt.Println(g.Run(context.Background(), State{}))
	// Output:
	// 1 warning
	// 0 warnings
	// {[gift ship]} <nil>
}

// A node may return several commands, which are applied in order.
func ExampleCommand_several() {
	type State struct{ Log reduce.List[string] }
	type entry struct{ Log reduce.List[string] }
	type command = treadle.Command[entry]
	log := func(line string) *entry { return &entry{reduce.List[string]{line}} }

	b := treadle.New[State]("several")
	treadle.AddNode(b, "dispatch", func(context.Context, State) ([]command, error) {
		return []command{
			{Update: log("ordered"), Goto: treadle.To("pack")},
			{Update: log("paid"), Goto: treadle.To("invoice")},
		}, nil
	}, treadle.Destinations("pack", "invoice"))
	for _, name := range []string{"pack", "invoice"} {
		treadle.AddNode(b, name, func(context.Context, State) (*entry, error) { return log(name), nil })
	}
	b.Edge(treadle.Start, "dispatch")
	g := treadle.Must(b.Compile(nil))

	fmt.Println(g.Run(context.Background(), State{}))
	// Output:
	// {[ordered paid invoice pack]} <nil>
}
