package treadle

import (
	"cmp"

	"github.com/treadle-go/treadle/treadletype"
)

// The errors of a run. Each wraps its cause, so errors.Is and errors.As see through it.
// docs/errors.md lists when each occurs and what to do. They are defined in package
// treadletype, which the engine also uses.
type (
	// NodeError is the failure of a node after its retries.
	NodeError = treadletype.NodeError
	// InterruptError means that a run has stopped and can be resumed: it waits, or it has
	// reached a breakpoint.
	InterruptError = treadletype.InterruptError
	// BuildError is a mistake in the definition of a graph.
	BuildError = treadletype.BuildError
	// UpdateError is an update that does not fit the state.
	UpdateError = treadletype.UpdateError
	// ConflictError means that two tasks of a step wrote a field that holds one value.
	ConflictError = treadletype.ConflictError
	// ValidationError is a value that its own Validate method refuses.
	ValidationError = treadletype.ValidationError
	// GotoError is a branch or command to a node that does not exist.
	GotoError = treadletype.GotoError
	// StepLimitError means that a run has reached its limit of steps.
	StepLimitError = treadletype.StepLimitError
	// TimeoutError means that a node has exceeded its time.
	TimeoutError = treadletype.TimeoutError
	// MutationError means that a node has changed its input.
	MutationError = treadletype.MutationError
	// OrderError means that a node made its calls in another order than before.
	OrderError = treadletype.OrderError
	// AnswerError is an answer or a signal that does not fit what waits for it.
	AnswerError = treadletype.AnswerError
	// DeadlineError means that no answer or signal came before its deadline.
	DeadlineError = treadletype.DeadlineError
	// InterruptChangedError means that a question has changed since it was answered.
	InterruptChangedError = treadletype.InterruptChangedError
	// SwallowedInterruptError means that a node did not return the error of a wait.
	SwallowedInterruptError = treadletype.SwallowedInterruptError
	// GraphError means that a thread belongs to another graph.
	GraphError = treadletype.GraphError
	// StoredValueError is a stored value that cannot be read.
	StoredValueError = treadletype.StoredValueError
)

// Errors without data.
var (
	// ErrNoSaver is returned if the graph was compiled without Options.Saver.
	ErrNoSaver = treadletype.ErrNoSaver
	// ErrNoThread is returned if the call needs a thread with an ID.
	ErrNoThread = treadletype.ErrNoThread
	// ErrOutsideRun is returned if the context does not come from a node or task.
	ErrOutsideRun = treadletype.ErrOutsideRun
	// ErrAmbiguousResume is returned if several questions are open: use [Answers].
	ErrAmbiguousResume = treadletype.ErrAmbiguousResume
	// ErrNothingToResume is returned if no question is open.
	ErrNothingToResume = treadletype.ErrNothingToResume
	// ErrUnknownPause is returned if no open question has the ID of an answer.
	ErrUnknownPause = treadletype.ErrUnknownPause
	// ErrNothingToContinue is returned if the thread has no checkpoint.
	ErrNothingToContinue = treadletype.ErrNothingToContinue
	// ErrDrained is returned if [Drain] ended the run early.
	ErrDrained = treadletype.ErrDrained
)

// IsPause reports whether err means that the run stops here and resumes later, not
// that something failed: an interrupt, a sleep, a wait for a signal, a command to the
// parent graph, or a drained run. A node must return such an error:
//
//	if err := ship(ctx, order); treadle.IsPause(err) {
//		return Order{}, err
//	} else if err != nil {
//		// compensate
//	}
//
// A canceled context is not a pause, but it is not a failure either. Tasks and [Do] start
// neither after a pause nor on a canceled context, so compensation made of them does not
// run in these cases even if the node does not call IsPause.
func IsPause(err error) bool { return treadletype.IsPause(err) }

// Transient reports whether an error may go away by itself, such as a failure of the
// network. A [RetryPolicy] without On retries these errors.
func Transient(err error) bool { return treadletype.Transient(err) }

func cmpPairs(a, b, c, d string) int { return cmp.Or(cmp.Compare(a, b), cmp.Compare(c, d)) }
