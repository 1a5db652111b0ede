package treadle_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/reduce"
)

// A field without a Reduce method holds the last value written to it.
//
// Sample: A2.
func ExampleNew() {
	type State struct {
		Foo int      `json:"foo"`
		Bar []string `json:"bar"`
	}
	type foo struct{ Foo int }
	type bar struct{ Bar []string }

	b := treadle.New[State]("last value")
	treadle.AddNode(b, "node_1", func(context.Context, State) (foo, error) { return foo{2}, nil })
	treadle.AddNode(b, "node_2", func(context.Context, State) (bar, error) { return bar{[]string{"bye"}}, nil })
	b.Edge(treadle.Start, "node_1")
	b.Edge("node_1", "node_2")
	g := treadle.Must(b.Compile(nil))

	in := State{Foo: 1, Bar: []string{"hi"}}
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
	// {"foo":2,"bar":["bye"]}
}

// A graph may take and return its own types. Foo is only in the state, and Bar is private
// to two nodes, so neither is in the output.
//
// Sample: A1.
func ExampleCompile() {
	type Input struct{ UserInput string }
	type Output struct{ GraphOutput string }
	type State struct{ Foo, UserInput, GraphOutput string }
	type foo struct{ Foo string }
	type private struct{ Bar string } // not a field of State

	b := treadle.New[State]("schemas")
	treadle.AddNode(b, "node_1", func(_ context.Context, in Input) (foo, error) {
		return foo{in.UserInput + " name"}, nil // writes what its input does not have
	})
	treadle.AddNode(b, "node_2", func(_ context.Context, s State) (private, error) {
		return private{s.Foo + " is"}, nil
	})
	treadle.AddNode(b, "node_3", func(_ context.Context, p private) (Output, error) {
		return Output{p.Bar + " Lance"}, nil
	})
	b.Edge(treadle.Start, "node_1")
	b.Edge("node_1", "node_2")
	b.Edge("node_2", "node_3")
	b.Edge("node_3", treadle.End)
	g := treadle.Must(treadle.Compile[Input, Output](b, nil))

	out, err := g.Run(context.Background(), Input{UserInput: "My"})
	fmt.Printf("%+v %v\n", out, err)
	// Output:
	// {GraphOutput:My name is Lance} <nil>
}

// A state whose fields are known at run time only is a checked map. The node
// reads who is asking from the run.
//
// Sample: A6.
func ExampleAddField() {
	type Caller struct{ UserID string }

	b := treadle.New[treadle.Update]("dynamic")
	treadle.AddField[string](b, "input")
	treadle.AddField[string](b, "results")
	treadle.AddNode(b, "my_node", func(ctx context.Context, s treadle.Update) (treadle.Update, error) {
		caller, _ := treadle.ContextFrom[Caller](ctx)
		fmt.Println("In node:", caller.UserID)
		return treadle.Update{"results": fmt.Sprintf("Hello, %s!", s["input"])}, nil
	})
	treadle.AddNode(b, "other_node", func(_ context.Context, s treadle.Update) (treadle.Update, error) {
		return s, nil
	})
	b.Edge(treadle.Start, "my_node")
	b.Edge("my_node", "other_node")
	g := treadle.Must(b.Compile(nil)).With(treadle.Context(Caller{UserID: "user-1"}))

	fmt.Println(g.Run(context.Background(), treadle.Update{"input": "world"}))
	// Output:
	// In node: user-1
	// map[input:world results:Hello, world!] <nil>
}

// An Update is checked: an unknown field is rejected.
func ExampleUpdate() {
	type State struct{ Price, Total int }

	b := treadle.New[State]("checked")
	treadle.AddNode(b, "sum", func(_ context.Context, s State) (treadle.Update, error) {
		return treadle.Update{"Totl": s.Price * 2}, nil
	})
	b.Edge(treadle.Start, "sum")
	g := treadle.Must(b.Compile(nil))

	_, err := g.Run(context.Background(), State{Price: 4})
	if bad, ok := errors.AsType[*treadle.UpdateError](err); ok {
		fmt.Println("no such field:", bad.Field)
	}
	// Output:
	// no such field: Totl
}

// A node is a function under a name: the function's own or any other.
//
// Sample: A7.
func ExampleAddNode() {
	type State struct{ X int }
	myNode := func(_ context.Context, s State) (State, error) { return State{s.X + 1}, nil }

	for _, name := range []string{"my_node", "my_fair_node"} {
		b := treadle.New[State]("increment")
		node := treadle.AddNode(b, name, myNode)
		b.Edge(treadle.Start, node.Name())
		out, err := treadle.Must(b.Compile(nil)).Run(context.Background(), State{X: 1})
		fmt.Printf("%s: %+v %v\n", node.Name(), out, err)
	}
	// Output:
	// my_node: {X:2} <nil>
	// my_fair_node: {X:2} <nil>
}

// A field that is a pointer is an optional write: nil leaves the value alone,
// while a zero is written like any other value.
func ExampleAddNode_optional() {
	type State struct {
		Name  string
		Count int
	}
	type writes struct {
		Name  *string
		Count int
	}

	b := treadle.New[State]("optional")
	treadle.AddNode(b, "reset", func(_ context.Context, s State) (writes, error) {
		if s.Name == "keep" {
			return writes{}, nil
		}
		return writes{Name: new("renamed")}, nil
	})
	b.Edge(treadle.Start, "reset")
	g := treadle.Must(b.Compile(nil))

	fmt.Println(g.Run(context.Background(), State{Name: "keep", Count: 3}))
	fmt.Println(g.Run(context.Background(), State{Name: "other", Count: 3}))
	// Output:
	// {keep 0} <nil>
	// {renamed 0} <nil>
}

// A state that is not a struct is a single value, here a growing list.
func ExampleNew_value() {
	type Words = reduce.List[string]

	b := treadle.New[Words]("words")
	treadle.AddNode(b, "shout", func(_ context.Context, w Words) (Words, error) {
		return Words{strings.ToUpper(w[len(w)-1])}, nil
	})
	b.Edge(treadle.Start, "shout")
	g := treadle.Must(b.Compile(nil))

	fmt.Println(g.Run(context.Background(), Words{"hello"}))
	// Output:
	// [hello HELLO] <nil>
}

// A graph that a program builds once when it starts is best built with Must.
func ExampleMust() {
	type State struct{ Name string }

	g := treadle.Must(func() (*treadle.Graph[State, State], error) {
		b := treadle.New[State]("greeter")
		treadle.AddNode(b, "greet", func(_ context.Context, s State) (State, error) {
			return State{"Hello, " + s.Name}, nil
		})
		b.Edge(treadle.Start, "greet")
		return b.Compile(nil)
	}())

	out, err := g.Run(context.Background(), State{Name: "Ada"})
	fmt.Println(g.Name(), out.Name, err)
	// Output:
	// greeter Hello, Ada <nil>
}

// Tags control the lifetime of a field: an ephemeral field is cleared after the next step,
// and an untracked field is never saved.
func ExampleNew_tags() {
	type State struct {
		Signal string              `treadle:"ephemeral"`
		Secret string              `treadle:"untracked"`
		Seen   reduce.List[string] // kept
	}
	type seen struct{ Seen reduce.List[string] }

	b := treadle.New[State]("tags")
	for _, name := range []string{"first", "second"} {
		treadle.AddNode(b, name, func(_ context.Context, s State) (seen, error) {
			return seen{reduce.List[string]{fmt.Sprintf("%s: %q %q", name, s.Signal, s.Secret)}}, nil
		})
	}
	b.Sequence(treadle.Start, "first", "second")
	g := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()}))

	ctx := context.Background()
	thread := g.Thread("t")
	out, err := thread.Run(ctx, State{Signal: "go", Secret: "xyzzy"})
	for _, line := range out.Seen {
		fmt.Println(line)
	}
	fmt.Println(err)

	snap, err := thread.State(ctx)
	fmt.Println(snap.State.Names(), err)
	// Output:
	// first: "go" "xyzzy"
	// second: "" "xyzzy"
	// <nil>
	// [Seen] <nil>
}
