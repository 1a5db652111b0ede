package workflows_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

// inputs is a workflow's one input; a struct holds several values.
type inputs struct{ Value, AnotherValue int }

func add(_ context.Context, in inputs) (int, error) { return in.Value + in.AnotherValue, nil }

// A workflow is a graph like any other: it runs alone or on a thread, and it
// streams.
//
// Sample: B21.
func Example_workflow() {
	g := treadle.Must(treadle.NewWorkflow("my_workflow", add, &treadle.Options{Saver: checkpoint.NewMemory()}))

	ctx := context.Background()
	fmt.Println(g.Run(ctx, inputs{Value: 1, AnotherValue: 2}))
	fmt.Println(g.Thread("some_thread_id").Run(ctx, inputs{3, 4}))
	for ev, err := range g.Stream(ctx, inputs{5, 6}) {
		if err != nil {
			fmt.Println(err)
			break
		}
		switch ev := ev.(type) {
		case treadle.Updated:
			fmt.Println(ev.Node, "wrote", ev.Update)
		case treadle.Finished[int]:
			fmt.Println("finished:", ev.Output)
		}
	}
	// Output:
	// 3 <nil>
	// 7 <nil>
	// my_workflow wrote 11
	// finished: 11
}

// Resume gives an answer; Continue runs again after an error.
//
// Sample: B21.
func Example_resumeAndContinue() {
	down := true
	g := treadle.Must(treadle.NewWorkflow("my_workflow", func(ctx context.Context, n int) (int, error) {
		factor, err := treadle.Interrupt[int](ctx, "which factor?")
		if err != nil {
			return 0, err
		}
		if down {
			return 0, errors.New("the multiplier is down")
		}
		return n * factor, nil
	}, &treadle.Options{Saver: checkpoint.NewMemory()}))

	ctx := context.Background()
	thread := g.Thread("some_thread_id")
	_, err := thread.Run(ctx, 6)
	if stop, ok := errors.AsType[*treadle.InterruptError](err); ok {
		fmt.Printf("asks %s\n", stop.Pauses[0].Value)
	}
	_, err = thread.Resume(ctx, 7)
	fmt.Println(err)
	down = false
	fmt.Println(thread.Continue(ctx)) // the answer is still known
	// Output:
	// asks "which factor?"
	// graph "my_workflow": node "my_workflow" (step 1): the multiplier is down
	// 42 <nil>
}

// A workflow's result can be read in its next run on the thread.
//
// Sample: B22.
func Example_previous() {
	g := treadle.Must(treadle.NewWorkflow("my_workflow", func(ctx context.Context, number int) (int, error) {
		previous, _ := treadle.PreviousFrom[int](ctx) // 0 in the first run
		return number + previous, nil
	}, &treadle.Options{Saver: checkpoint.NewMemory()}))

	ctx := context.Background()
	thread := g.Thread("some_thread_id")
	fmt.Println(thread.Run(ctx, 1))
	fmt.Println(thread.Run(ctx, 2))
	// Output:
	// 1 <nil>
	// 3 <nil>
}

// A workflow may save a value that differs from its result.
//
// Sample: B22.
func Example_final() {
	g := treadle.Must(treadle.NewFinalWorkflow("my_workflow", func(ctx context.Context, number int) (treadle.Final[int, int], error) {
		previous, _ := treadle.PreviousFrom[int](ctx)
		return treadle.Final[int, int]{Value: previous, Save: 2 * number}, nil
	}, &treadle.Options{Saver: checkpoint.NewMemory()}))

	ctx := context.Background()
	thread := g.Thread("1")
	fmt.Println(thread.Run(ctx, 3))
	fmt.Println(thread.Run(ctx, 1))
	// Output:
	// 0 <nil>
	// 6 <nil>
}

// slowComputation is a function as a task.
var slowComputation = treadle.NewTask("slow_computation", func(_ context.Context, n int) (int, error) {
	return n * n, nil
})

// Go starts a task and returns a future immediately; Run waits for the result. Both work
// only in workflows, tasks, and nodes.
//
// Sample: B23.
func Example_task() {
	g := treadle.Must(treadle.NewWorkflow("my_workflow", func(ctx context.Context, n int) (int, error) {
		future := slowComputation.Go(ctx, n)
		// ... do other work ...
		return future.Wait()
	}, &treadle.Options{Saver: checkpoint.NewMemory()}))

	ctx := context.Background()
	fmt.Println(g.Thread("1").Run(ctx, 12))
	_, err := slowComputation.Run(ctx, 12)
	fmt.Println(errors.Is(err, treadle.ErrOutsideRun))
	// Output:
	// 144 <nil>
	// true
}
