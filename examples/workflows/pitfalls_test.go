package workflows_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

// An effect in the body of a workflow happens again when it is resumed. In a
// task it happens once.
//
// Sample: B24.
func Example_effectInATask() {
	var file []string
	write := func() int {
		file = append(file, "Side effect executed")
		return len(file)
	}
	wrong := func(ctx context.Context, _ string) (string, error) {
		write()
		return treadle.Interrupt[string](ctx, "question")
	}
	right := func(ctx context.Context, _ string) (string, error) {
		_, err := treadle.Do(ctx, "write_to_file", func(context.Context) (int, error) { return write(), nil })
		if err != nil {
			return "", err
		}
		return treadle.Interrupt[string](ctx, "question")
	}

	ctx := context.Background()
	for _, workflow := range []func(context.Context, string) (string, error){wrong, right} {
		file = nil
		thread := treadle.Must(treadle.NewWorkflow("my_workflow", workflow, &treadle.Options{Saver: checkpoint.NewMemory()})).Thread("1")
		_, err := thread.Run(ctx, "input")
		_, stopped := errors.AsType[*treadle.InterruptError](err)
		out, err := thread.Resume(ctx, "answer")
		fmt.Println(stopped, out, err, "- written", len(file))
	}
	// Output:
	// true answer <nil> - written 2
	// true answer <nil> - written 1
}

// A workflow that reads the clock may take another branch when it is resumed. The records
// then do not match, and the error names the call. If a task reads the clock, the workflow
// takes the same branch again.
//
// Sample: B25.
func Example_clockInATask() {
	now := time.Unix(0, 0) // so that the example need not wait
	slow := treadle.NewTask("slow_task", func(_ context.Context, n int) (int, error) { return n, nil })

	type inputs struct{ T0 time.Time }
	type answered struct {
		Result int
		Value  string
	}
	decide := func(ctx context.Context, in inputs, t1 time.Time) (answered, error) {
		n := 1
		if t1.Sub(in.T0) > time.Second {
			n = 2
		}
		result, err := slow.Run(ctx, n)
		if err != nil {
			return answered{}, err
		}
		value, err := treadle.Interrupt[string](ctx, "question")
		return answered{result, value}, err
	}
	wrong := func(ctx context.Context, in inputs) (answered, error) {
		return decide(ctx, in, now)
	}
	right := func(ctx context.Context, in inputs) (answered, error) {
		t1, err := treadle.Do(ctx, "get_time", func(context.Context) (time.Time, error) { return now, nil })
		if err != nil {
			return answered{}, err
		}
		return decide(ctx, in, t1)
	}

	ctx := context.Background()
	for _, workflow := range []func(context.Context, inputs) (answered, error){wrong, right} {
		thread := treadle.Must(treadle.NewWorkflow("my_workflow", workflow, &treadle.Options{Saver: checkpoint.NewMemory()})).Thread("1")
		_, err := thread.Run(ctx, inputs{now})
		_, stopped := errors.AsType[*treadle.InterruptError](err)
		now = now.Add(2 * time.Second) // a person thinks about the question
		out, err := thread.Resume(ctx, "answer")
		if order, ok := errors.AsType[*treadle.OrderError](err); ok {
			fmt.Printf("stopped %t: call %d, of %s, has another input: %t\n", stopped, order.Call, order.Made, order.Input)
			continue
		}
		fmt.Println("stopped", stopped, out, err)
	}
	// Output:
	// stopped true: call 1, of slow_task, has another input: true
	// stopped true {1 answer} <nil>
}

// A random number is the same after the question if a task made it.
//
// Sample: B26.
func Example_randomInATask() {
	var draws []int
	draw := func() int { // a random number, scripted
		n := draws[0]
		draws = draws[1:]
		return n
	}
	ask := func(ctx context.Context, n int) (int, error) {
		fmt.Println("drew", n)
		_, err := treadle.Interrupt[string](ctx, "question")
		return n, err
	}
	inTask := func(ctx context.Context, _ string) (int, error) {
		n, err := treadle.Do(ctx, "draw", func(context.Context) (int, error) { return draw(), nil })
		if err != nil {
			return 0, err
		}
		return ask(ctx, n)
	}
	notInTask := func(ctx context.Context, _ string) (int, error) {
		return ask(ctx, draw())
	}

	ctx := context.Background()
	for _, workflow := range []func(context.Context, string) (int, error){inTask, notInTask} {
		draws = []int{5, 7}
		thread := treadle.Must(treadle.NewWorkflow("my_workflow", workflow, &treadle.Options{Saver: checkpoint.NewMemory()})).Thread("1")
		_, err := thread.Run(ctx, "input")
		_, stopped := errors.AsType[*treadle.InterruptError](err)
		fmt.Println("stopped:", stopped)
		fmt.Println(thread.Resume(ctx, "answer"))
	}
	// Output:
	// drew 5
	// stopped: true
	// drew 5
	// 5 <nil>
	// drew 5
	// stopped: true
	// drew 7
	// 7 <nil>
}
