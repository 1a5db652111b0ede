package threads_test

import (
	"context"
	"fmt"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

// Continue on an earlier checkpoint runs what came after it again, as a new
// branch. What came before does not run, and the old branch is kept.
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
		fmt.Println("new:", snap.Source, snap.Step, snap.Values, snap.Next)
	}
	fmt.Println("still there:", now[len(now)-len(before)].ID == before[0].ID)
	// Output:
	// {b [a b]} <nil>
	// ran again: node_b {"foo":"b","bar":["b"]}
	// new: loop 3 {"foo":"b","bar":["a","b"]} []
	// new: fork 2 {"foo":"a","bar":["a"]} [node_b]
	// still there: true
}

// An update is merged like what a node returns: a field that accumulates grows.
//
// Sample: B4.
func Example_updateThroughReducers() {
	type State struct {
		Foo int                  `json:"foo"`
		Bar treadle.List[string] `json:"bar"`
	}
	type edit struct {
		Foo int
		Bar treadle.List[string]
	}

	b := treadle.New[State]("edited")
	treadle.AddNode(b, "node", func(context.Context, State) (edit, error) { return edit{1, treadle.List[string]{"a"}}, nil })
	b.Edge(treadle.Start, "node")
	g := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()}))

	ctx := context.Background()
	thread := g.Thread("1")
	fmt.Println(thread.Run(ctx, State{}))
	if _, err := thread.Update(ctx, edit{2, treadle.List[string]{"b"}}); err != nil {
		fmt.Println(err)
		return
	}
	snap, err := thread.State(ctx)
	fmt.Println(snap.Values, snap.Source, err)
	// Output:
	// {1 [a]} <nil>
	// {"foo":2,"bar":["a","b"]} update <nil>
}

// An update of an earlier checkpoint begins a branch, and the thread goes on
// from there.
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

	fork, err := thread.At(afterA).Update(ctx, foobar{"updated state", treadle.List[string]{"by hand"}})
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
	fmt.Println("the old branch:", old.Values, err)
	// Output:
	// {"foo":"updated state","bar":["a","by hand"]}
	// {"foo":"b","bar":["a","by hand","b"]}
	// the old branch: {"foo":"b","bar":["a","b"]} <nil>
}
