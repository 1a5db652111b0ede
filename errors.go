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

func cmpPairs(a, b, c, d string) int { return cmp.Or(cmp.Compare(a, b), cmp.Compare(c, d)) }
