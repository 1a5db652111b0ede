package workflows_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

// A failed task is retried according to its policy.
//
// Sample: B30.
func Example_retry() {
	errFailure := errors.New("failure")
	attempts := 0
	getInfo := treadle.NewTask("get_info", func(context.Context, struct{}) (string, error) {
		attempts++
		if attempts < 2 {
			return "", errFailure
		}
		return "OK", nil
	}, treadle.Retry(treadle.RetryPolicy{
		Initial:  time.Millisecond,
		NoJitter: true,
		On:       func(err error) bool { return errors.Is(err, errFailure) }, // the default is treadle.Transient
	}))
	g := treadle.Must(treadle.NewWorkflow("main", func(ctx context.Context, _ string) (string, error) {
		return getInfo.Run(ctx, struct{}{})
	}, &treadle.Options{Saver: checkpoint.NewMemory()}))

	fmt.Println(g.Thread("1").Run(context.Background(), "foobar"))
	fmt.Println(attempts, "attempts")
	// Output:
	// OK <nil>
	// 2 attempts
}

// Continue after an error runs the workflow again, but not the tasks that had
// finished.
//
// Sample: B31.
func Example_continueAfterAnError() {
	errFailure := errors.New("failure")
	attempts := 0
	getInfo := treadle.NewTask("get_info", func(context.Context, struct{}) (string, error) {
		attempts++
		if attempts < 2 {
			return "", errFailure
		}
		return "OK", nil
	})
	slowTask := treadle.NewTask("slow_task", func(context.Context, struct{}) (string, error) {
		fmt.Println("running the slow task")
		return "Ran slow task.", nil
	})
	g := treadle.Must(treadle.NewWorkflow("main", func(ctx context.Context, _ string) (string, error) {
		slow, err := slowTask.Run(ctx, struct{}{})
		if err != nil {
			return "", err
		}
		if _, err := getInfo.Run(ctx, struct{}{}); err != nil {
			return "", err
		}
		return slow, nil
	}, &treadle.Options{Saver: checkpoint.NewMemory()}))

	ctx := context.Background()
	thread := g.Thread("1")
	_, err := thread.Run(ctx, "foobar")
	fmt.Println("failed:", errors.Is(err, errFailure))
	fmt.Println(thread.Continue(ctx))
	// Output:
	// running the slow task
	// failed: true
	// Ran slow task. <nil>
}
