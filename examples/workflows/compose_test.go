package workflows_test

import (
	"context"
	"fmt"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

var addOne = treadle.NewTask("add_one", func(_ context.Context, n int) (int, error) { return n + 1, nil })

var addTwo = treadle.NewTask("add_two", func(_ context.Context, n int) (int, error) { return n + 2, nil })

// Tasks that are started before the first Wait run concurrently.
//
// Sample: B27.
func Example_parallelTasks() {
	g := treadle.Must(treadle.NewWorkflow("graph", func(ctx context.Context, numbers []int) ([]int, error) {
		futures := make([]*treadle.Future[int], len(numbers))
		for i, n := range numbers {
			futures[i] = addOne.Go(ctx, n)
		}
		results := make([]int, len(numbers))
		for i, f := range futures {
			var err error
			if results[i], err = f.Wait(); err != nil {
				return nil, err
			}
		}
		return results, nil
	}, &treadle.Options{Saver: checkpoint.NewMemory()}))

	fmt.Println(g.Thread("1").Run(context.Background(), []int{1, 2, 3}))
	// Output: [2 3 4] <nil>
}

// A workflow calls graphs as it calls functions.
//
// Sample: B28.
func Example_workflowCallsGraphs() {
	type State struct{ Text string }
	shout := func(name, suffix string) *treadle.Graph[State, State] {
		b := treadle.New[State](name)
		treadle.AddNode(b, "append", func(_ context.Context, s State) (State, error) { return State{s.Text + suffix}, nil })
		b.Edge(treadle.Start, "append")
		return treadle.Must(b.Compile(nil))
	}
	someGraph, anotherGraph := shout("some_graph", "!"), shout("another_graph", "?")

	type results struct{ Result1, Result2 string }
	g := treadle.Must(treadle.NewWorkflow("some_workflow", func(ctx context.Context, text string) (results, error) {
		first, err := someGraph.Run(ctx, State{text})
		if err != nil {
			return results{}, err
		}
		second, err := anotherGraph.Run(ctx, State{text})
		return results{first.Text, second.Text}, err
	}, nil, treadle.Uses(someGraph, anotherGraph)))

	out, err := g.Run(context.Background(), "well")
	fmt.Printf("%+v %v\n", out, err)
	// Output: {Result1:well! Result2:well?} <nil>
}

// A workflow that another one calls needs no saver: it may ask, and its results are saved
// by the caller's saver.
//
// Sample: B28.
func Example_workflowCallsWorkflow() {
	type inputs struct{ Value int }
	someOther := treadle.Must(treadle.NewWorkflow("some_other_workflow", func(ctx context.Context, in inputs) (int, error) {
		_, err := treadle.Do(ctx, "note", func(context.Context) (bool, error) {
			fmt.Println("noted once")
			return true, nil
		})
		if err != nil {
			return 0, err
		}
		if _, err := treadle.Interrupt[bool](ctx, "go on?"); err != nil {
			return 0, err
		}
		return in.Value, nil
	}, nil))
	g := treadle.Must(treadle.NewWorkflow("my_workflow", func(ctx context.Context, _ inputs) (int, error) {
		return someOther.Run(ctx, inputs{1})
	}, &treadle.Options{Saver: checkpoint.NewMemory()}))

	ctx := context.Background()
	_, err := g.Thread("1").Run(ctx, inputs{})
	fmt.Println("interrupted:", err != nil)
	fmt.Println(g.Thread("1").Resume(ctx, true))
	// Output:
	// noted once
	// interrupted: true
	// 1 <nil>
}

// Events arrive in the order in which they happen: events that the workflow emits, and the
// results of its tasks and of the workflow.
//
// Sample: B29.
func Example_streamOfAWorkflow() {
	type inputs struct{ Number int }
	g := treadle.Must(treadle.NewWorkflow("main", func(ctx context.Context, in inputs) (int, error) {
		treadle.Emit(ctx, "hello")
		if _, err := addOne.Run(ctx, in.Number); err != nil {
			return 0, err
		}
		treadle.Emit(ctx, "world")
		if _, err := addTwo.Run(ctx, in.Number); err != nil {
			return 0, err
		}
		return 5, nil
	}, &treadle.Options{Saver: checkpoint.NewMemory()}))

	modes := treadle.Modes(treadle.ModeCustom, treadle.ModeUpdates)
	for ev, err := range g.Thread("1").Stream(context.Background(), inputs{1}, modes) {
		if err != nil {
			fmt.Println(err)
			break
		}
		switch ev := ev.(type) {
		case treadle.Custom:
			fmt.Println(ev.Mode, ev.Value)
		case treadle.Updated:
			fmt.Println(ev.Mode, ev.Node, ev.Update)
		}
	}
	// Output:
	// custom hello
	// updates add_one 2
	// custom world
	// updates add_two 3
	// updates main 5
}
