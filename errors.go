package treadle

import (
	"cmp"

	"github.com/treadle-go/treadle/internal/pregel"
)

// The typed errors of a run. Each wraps its cause, so errors.Is and errors.As
// see through them. docs/errors.md says of each what to do.
type (
	// BuildError is one problem that Compile found: its Graph, and the Node
	// and Field where there is one.
	BuildError = pregel.BuildError
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
	// StoredValueError: what a Checkpoint of a Thread has Stored of a Field is
	// not of the type that it has now. Nothing was changed.
	StoredValueError = pregel.StoredValueError
	// OrderError: a node or workflow that runs again does not make its calls in
	// the recorded order.
	OrderError = pregel.OrderError
	// AnswerError: an Answer does not have the type that the Pause wants.
	AnswerError = pregel.AnswerError
	// SwallowedInterruptError: a node asked and did not return Interrupt's error.
	SwallowedInterruptError = pregel.SwallowedInterruptError
	// InterruptChangedError: the question Asked is not the one Answered. It is
	// an error under Options.Strict and a warning in the log otherwise.
	InterruptChangedError = pregel.InterruptChangedError
)

// Errors without data of their own.
var (
	// ErrNoSaver: the graph was compiled without Options.Saver.
	ErrNoSaver = pregel.ErrNoSaver
	// ErrNoThread: the call needs a thread, and one with an id.
	ErrNoThread = pregel.ErrNoThread
	// ErrOutsideRun: the context does not come from a node or task.
	ErrOutsideRun = pregel.ErrOutsideRun
	// ErrAmbiguousResume: several questions are open; answer with [Answers].
	ErrAmbiguousResume = pregel.ErrAmbiguousResume
	// ErrNothingToResume: no question is open.
	ErrNothingToResume = pregel.ErrNothingToResume
	// ErrUnknownPause: no open question has the id of an answer.
	ErrUnknownPause = pregel.ErrUnknownPause
	// ErrNothingToContinue: the thread has no checkpoint to go on from.
	ErrNothingToContinue = pregel.ErrNothingToContinue
	// ErrDrained: the run ended early because it was asked to; see [Drain].
	ErrDrained = pregel.ErrDrained
)

func cmpPairs(a, b, c, d string) int { return cmp.Or(cmp.Compare(a, b), cmp.Compare(c, d)) }

// IsSignal reports errors that are no failures but on their way to an enclosing
// level: a question, a command to the parent, the end of a drained run. Code that
// handles errors of what it calls must return them as they are.
func IsSignal(err error) bool { return pregel.Bubbles(err) }
