package pregel

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// NodeError is a node's failure, after its retries.
type NodeError struct {
	Graph   string
	Node    string // "" if a panic came from what the graph does between its nodes, such as storing
	Path    string // the namespace of a nested graph's node, "" at the root
	Step    int
	Attempt int
	Err     error
	Stack   []byte // if a function of the user panicked or ended its goroutine
}

func (e *NodeError) Error() string {
	where := fmt.Sprintf("graph %q: node %q (step %d", e.Graph, e.Node, e.Step)
	if e.Node == "" {
		where = fmt.Sprintf("graph %q (step %d", e.Graph, e.Step)
	}
	if e.Attempt > 1 {
		where += fmt.Sprintf(", attempt %d", e.Attempt)
	}
	msg := e.Err.Error()
	if e.Node == "" {
		return where + "): " + strings.TrimPrefix(msg, fmt.Sprintf("graph %q: ", e.Graph))
	}
	switch e.Err.(type) { //nolint:errorlint // what wraps one of these does not begin with the graph
	case *UpdateError, *ValidationError: // they name the graph, too
		msg = strings.TrimPrefix(msg, fmt.Sprintf("graph %q: ", e.Graph))
	}
	return where + "): " + msg
}

func (e *NodeError) Unwrap() error { return e.Err }

// StepLimitError: the run reached its limit of steps. The state is kept.
type StepLimitError struct {
	Graph string
	Limit int
	Next  []string // what would have run
}

func (e *StepLimitError) Error() string {
	next := "it had just finished: a limit one higher is enough"
	if len(e.Next) > 0 {
		next = "next: " + strings.Join(e.Next, ", ")
	}
	return fmt.Sprintf("graph %q: step limit %d reached without an end (%s); raise it with treadle.StepLimit", e.Graph, e.Limit, next)
}

// ConflictError: two tasks of one step wrote a field that holds one value.
type ConflictError struct {
	Field     string
	Nodes     []string
	Overwrite bool
}

func (e *ConflictError) Error() string {
	who := "by " + strings.Join(e.Nodes, " and ")
	if len(e.Nodes) == 2 && e.Nodes[0] == e.Nodes[1] {
		who = "twice by " + e.Nodes[0]
	}
	if e.Overwrite {
		return fmt.Sprintf("field %s: overwritten %s in one step: only one overwrite can have the last word", e.Field, who)
	}
	return fmt.Sprintf("field %s: written %s in one step, but it holds one value: give its type a Reduce method", e.Field, who)
}

// UpdateError: an update does not fit the graph's fields.
type UpdateError struct {
	Graph string
	Field string
	Msg   string
}

func (e *UpdateError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("graph %q: update: %s", e.Graph, e.Msg)
	}
	return fmt.Sprintf("graph %q: update: field %s: %s", e.Graph, e.Field, e.Msg)
}

// GotoError: control was sent where it cannot go.
type GotoError struct {
	Graph string
	To    string
	Msg   string
}

func (e *GotoError) Error() string {
	if e.To == "" {
		return "goto: " + e.Msg
	}
	return fmt.Sprintf("goto %q: %s", e.To, e.Msg)
}

// TimeoutError: an attempt of a node took too long.
type TimeoutError struct {
	Node      string
	Idle      bool // it gave no sign of life, rather than ran too long
	Limit     time.Duration
	Abandoned bool // it ignored its cancelled context and was left behind
}

func (e *TimeoutError) Error() string {
	kind := "run longer than"
	if e.Idle {
		kind = "been idle for"
	}
	msg := fmt.Sprintf("has %s %v", kind, e.Limit)
	if e.Abandoned {
		msg += " and did not return when its context was cancelled"
	}
	return msg
}

// Timeout marks the error as one in the sense of package net.
func (e *TimeoutError) Timeout() bool { return true }

// MutationError: a node changed the input it was given.
type MutationError struct {
	Node  string
	Field string
}

func (e *MutationError) Error() string {
	return fmt.Sprintf("changed its input field %s in place: other nodes and old checkpoints share it; copy it first and return the copy", e.Field)
}

// ValidationError: the state did not pass its Validate method.
type ValidationError struct {
	Graph string
	What  string // what was validated
	Err   error
}

func (e *ValidationError) Error() string {
	return fmt.Sprintf("graph %q: %s is not valid: %v", e.Graph, e.What, e.Err)
}

func (e *ValidationError) Unwrap() error { return e.Err }

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
