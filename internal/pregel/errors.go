package pregel

import (
	"context"
	"errors"
	"fmt"
)

// parentCommand is a command for the enclosing graph. It is passed as an error
// from a nested run to the task that started it.
type parentCommand struct { //nolint:errname // passed as an error, but not a failure
	cmd  Command
	node string
	// wrote are the task's writes to its own graph, and above the writes of that
	// graph to the enclosing one.
	wrote, above []write
}

// ToParent tells treadletype.IsSignal what it is.
func (*parentCommand) ToParent() {}

func (e *parentCommand) Error() string {
	return fmt.Sprintf("node %q commands the parent graph, but there is none: its graph does not run inside another one", e.node)
}

// cancelled wraps the reason why ctx ended so that errors.Is sees both the
// cause and the plain context error.
func cancelled(ctx context.Context, graph string, step int) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return fmt.Errorf("graph %q: cancelled at step %d: %w", graph, step, cause)
	}
	return fmt.Errorf("graph %q: cancelled at step %d: %w (%w)", graph, step, cause, err)
}
