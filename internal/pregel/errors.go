package pregel

import (
	"context"
	"errors"
	"fmt"
)

// parentCommand travels as an error from a nested run to the task that
// started it.
type parentCommand struct { //nolint:errname // on its way as an error, and no failure
	cmd  Command
	node string
	// wrote is what the commanding task has written to its own graph, and above
	// what that graph hands up besides the command.
	wrote, above []write
}

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
