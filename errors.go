package treadle

import (
	"cmp"
	"errors"

	"github.com/treadle-go/treadle/internal/pregel"
)

// The typed errors of a run. Each wraps its cause, so errors.Is and errors.As
// see through them. docs/errors.md says of each what to do.
type (
	// BuildError is one problem that Compile found: its Graph, and the Node
	// and Field where there is one.
	BuildError = pregel.Problem
	// NodeError is a node's failure after its retries: its Graph, Node, Path
	// (the namespace of a nested graph), Step, Attempt, Err, and the Stack if
	// the node panicked.
	NodeError = pregel.NodeError
	// StepLimitError: the run reached its Limit of steps; Next would have run.
	StepLimitError = pregel.StepLimitError
	// ConflictError: Nodes wrote one Field in one step, and it holds one value.
	ConflictError = pregel.ConflictError
	// UpdateError: an update does not fit; Field says where.
	UpdateError = pregel.UpdateError
	// GotoError: control cannot go To there.
	GotoError = pregel.GotoError
	// TimeoutError: an attempt ran, or was Idle, for longer than Limit.
	TimeoutError = pregel.TimeoutError
	// MutationError: a node changed the Field of its input in place.
	MutationError = pregel.MutationError
	// ValidationError: a Validate method refused What.
	ValidationError = pregel.ValidationError
)

// Errors without data of their own.
var (
	// ErrNoSaver: the graph was compiled without Options.Saver.
	ErrNoSaver = errors.New("treadle: the graph has no saver: set Options.Saver")
	// ErrNoThread: the call needs a thread.
	ErrNoThread = errors.New("treadle: a thread needs an id: use g.Thread(id)")
	// ErrNothingToContinue: the thread has no checkpoint to go on from.
	ErrNothingToContinue = pregel.ErrNothingToContinue
	// ErrDrained: the run ended early because it was asked to; see [Drain].
	ErrDrained = pregel.ErrDrained
)

func cmpPairs(a, b, c, d string) int { return cmp.Or(cmp.Compare(a, b), cmp.Compare(c, d)) }
