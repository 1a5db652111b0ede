package treadle

import (
	"cmp"

	"github.com/treadle-go/treadle/treadletype"
)

// The errors that programs look for most. Each wraps its cause, so errors.Is and
// errors.As see through it. Package treadletype has the others, and docs/errors.md
// says what to do about each.
type (
	// NodeError is the failure of a node after its retries.
	NodeError = treadletype.NodeError
	// InterruptError says that a run has stopped to be resumed: with questions,
	// or at a breakpoint.
	InterruptError = treadletype.InterruptError
)

// Errors without data.
var (
	// ErrNoSaver says that the graph was compiled without Options.Saver.
	ErrNoSaver = treadletype.ErrNoSaver
	// ErrNoThread says that the call needs a thread with an id.
	ErrNoThread = treadletype.ErrNoThread
	// ErrOutsideRun says that the context does not come from a node or task.
	ErrOutsideRun = treadletype.ErrOutsideRun
	// ErrAmbiguousResume says that several questions are open: use [Answers].
	ErrAmbiguousResume = treadletype.ErrAmbiguousResume
	// ErrNothingToResume says that no question is open.
	ErrNothingToResume = treadletype.ErrNothingToResume
	// ErrUnknownPause says that no open question has the id of an answer.
	ErrUnknownPause = treadletype.ErrUnknownPause
	// ErrNothingToContinue says that the thread has no checkpoint.
	ErrNothingToContinue = treadletype.ErrNothingToContinue
	// ErrDrained says that the run ended early because it was asked to; see [Drain].
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

func cmpPairs(a, b, c, d string) int { return cmp.Or(cmp.Compare(a, b), cmp.Compare(c, d)) }
