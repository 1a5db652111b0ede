package threads_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/reduce"
)

// Continue on an earlier checkpoint runs the later nodes again, as a new branch. Earlier
// nodes do not run, and the old branch is kept.
//
// Sample: B3.
func Example_replay() {
	ctx := context.Background()
	thread := letters().Thread("1")
	if _, err := thread.Run(ctx, input{}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(thread.Continue(ctx)) // from the latest checkpoint there is nothing to run

	before, err := history(ctx, thread)
	if err != nil {
		fmt.Println(err)
		return
	}
	afterA := before[1]
	for ev, err := range thread.At(afterA.ID).ContinueStream(ctx) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if u, ok := ev.(treadle.Updated); ok {
			fmt.Println("ran again:", u.Node, u.Update)
		}
	}

	now, err := history(ctx, thread)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, snap := range now[:len(now)-len(before)] {
		fmt.Println("new:", snap.Source, snap.Step, snap.State, snap.Next)
	}
	fmt.Println("still there:", now[len(now)-len(before)].ID == before[0].ID)
	// Output:
	// {b [a b]} <nil>
	// ran again: node_b {"foo":"b","bar":["b"]}
	// new: loop 3 {"foo":"b","bar":["a","b"]} []
	// new: fork 2 {"foo":"a","bar":["a"]} [node_b]
	// still there: true
}

// An update is merged like the result of a node: accumulating fields grow.
//
// Sample: B4.
func Example_updateThroughReducers() {
	type State struct {
		Foo int                 `json:"foo"`
		Bar reduce.List[string] `json:"bar"`
	}
	type edit struct {
		Foo int
		Bar reduce.List[string]
	}

	b := treadle.New[State]("edited")
	treadle.AddNode(b, "node", func(context.Context, State) (edit, error) { return edit{1, reduce.List[string]{"a"}}, nil })
	b.Edge(treadle.Start, "node")
	g := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()}))

	ctx := context.Background()
	thread := g.Thread("1")
	fmt.Println(thread.Run(ctx, State{}))
	if _, err := thread.Update(ctx, edit{2, reduce.List[string]{"b"}}); err != nil {
		fmt.Println(err)
		return
	}
	snap, err := thread.State(ctx)
	fmt.Println(snap.State, snap.Source, err)
	// Output:
	// {1 [a]} <nil>
	// {"foo":2,"bar":["a","b"]} update <nil>
}

// An update of an earlier checkpoint creates a fork, and the thread continues there.
//
// Sample: B5.
func Example_fork() {
	ctx := context.Background()
	thread := letters().Thread("1")
	if _, err := thread.Run(ctx, input{}); err != nil {
		fmt.Println(err)
		return
	}
	all, err := history(ctx, thread)
	if err != nil {
		fmt.Println(err)
		return
	}
	afterA := all[1].ID

	fork, err := thread.At(afterA).Update(ctx, foobar{"updated state", reduce.List[string]{"by hand"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for ev, err := range thread.At(fork).ContinueStream(ctx, treadle.Modes(treadle.ModeValues)) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if v, ok := ev.(treadle.Values); ok {
			fmt.Println(v.State)
		}
	}
	old, err := thread.At(all[0].ID).State(ctx)
	fmt.Println("the old branch:", old.State, err)
	// Output:
	// {"foo":"updated state","bar":["a","by hand"]}
	// {"foo":"b","bar":["a","by hand","b"]}
	// the old branch: {"foo":"b","bar":["a","b"]} <nil>
}

// A thread can also return to a checkpoint inside a subgraph. It forks there: earlier
// nodes, including those of the subgraph, do not run again, and its question is asked
// again.
func Example_travelInsideNestedGraph() {
	type draft struct{ Text string }
	type State struct {
		Text string `json:"text"`
	}
	says := func(word string) func(context.Context, State) (draft, error) {
		return func(_ context.Context, s State) (draft, error) {
			fmt.Println("runs:", word)
			return draft{s.Text + " " + word}, nil
		}
	}

	inner := treadle.New[State]("review")
	treadle.AddNode(inner, "check", says("checked"))
	treadle.AddNode(inner, "ask", func(ctx context.Context, s State) (draft, error) {
		verdict, err := treadle.Interrupt[string](ctx, "what of it?")
		return draft{s.Text + " " + verdict}, err
	})
	inner.Sequence(treadle.Start, "check", "ask")

	b := treadle.New[State]("essay")
	treadle.AddNode(b, "write", says("written"))
	treadle.AddGraph(b, "review", treadle.Must(inner.Compile(nil)))
	treadle.AddNode(b, "print", says("printed"))
	b.Sequence(treadle.Start, "write", "review", "print")
	g := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()}))

	ctx := context.Background()
	thread := g.Thread("1")
	_, err := thread.Run(ctx, State{Text: "owls"})
	fmt.Println(err != nil)
	snap, err := thread.State(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	asking := snap.Tasks[0].Graph // the subgraph, waiting for an answer
	fmt.Println(thread.Resume(ctx, "good"))

	review, err := thread.Nested(asking.Namespace...)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = review.At(asking.ID).Continue(ctx)
	if stop, ok := errors.AsType[*treadle.InterruptError](err); ok {
		fmt.Printf("asked again: %s\n", stop.Pauses[0].Value)
	}
	fmt.Println(thread.Resume(ctx, "bad"))
	// Output:
	// runs: written
	// runs: checked
	// true
	// runs: printed
	// {owls written checked good printed} <nil>
	// asked again: "what of it?"
	// runs: printed
	// {owls written checked bad printed} <nil>
}
