package pregel

import (
	"context"
	"errors"
	"fmt"
)

// parentCommand is a command for the parent graph. A subgraph run passes it as an
// error to the task that started it.
type parentCommand struct { //nolint:errname // passed as an error, but not a failure
	cmd  Command
	node string
	// wrote holds the task's writes to its own graph, and above holds that graph's
	// writes to the parent graph.
	wrote, above []write
}

// ToParent marks the error for [treadletype.IsPause].
func (*parentCommand) ToParent() {}

func (e *parentCommand) Error() string {
	return fmt.Sprintf("node %q sent a command to the parent graph, but its graph does not run inside another graph", e.node)
}

// abortError is the cause of a task's canceled context when another task has
// failed: a sibling, or the task that called it.
type abortError struct{ failed string }

func (e *abortError) Error() string {
	return fmt.Sprintf("canceled because %q failed: %v", e.failed, context.Canceled)
}

func (*abortError) Unwrap() error { return context.Canceled }

// aborted reports whether a task whose context is ctx ended with err because
// another task has failed. Such a task did not fail itself: its error is neither
// saved nor streamed, and it runs again when the run continues.
func aborted(ctx context.Context, err error) bool {
	if err == nil || !errors.Is(err, context.Canceled) || ctx.Err() == nil {
		return false
	}
	_, ok := errors.AsType[*abortError](context.Cause(ctx))
	return ok
}

// canceled returns the error of a run whose context has ended.
func canceled(ctx context.Context, graph string, step int) error {
	return fmt.Errorf("graph %q: canceled at step %d: %w", graph, step, causeOf(ctx))
}

// causeOf returns the reason that ctx ended. errors.Is matches both the cause and
// ctx.Err().
func causeOf(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w (%w)", cause, err)
}
