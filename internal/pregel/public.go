package pregel

import "github.com/treadle-go/treadle/treadletype"

// The public types, under the names that the engine uses. Package treadletype
// documents them.
type (
	AnswerError             = treadletype.AnswerError
	BuildError              = treadletype.BuildError
	ConflictError           = treadletype.ConflictError
	DeadlineError           = treadletype.DeadlineError
	Edit                    = treadletype.Edit
	GotoError               = treadletype.GotoError
	GraphError              = treadletype.GraphError
	Info                    = treadletype.Info
	InterruptChangedError   = treadletype.InterruptChangedError
	InterruptError          = treadletype.InterruptError
	MutationError           = treadletype.MutationError
	NodeError               = treadletype.NodeError
	OrderError              = treadletype.OrderError
	Pause                   = treadletype.Pause
	RetryPolicy             = treadletype.RetryPolicy
	StepLimitError          = treadletype.StepLimitError
	StoredValueError        = treadletype.StoredValueError
	SwallowedInterruptError = treadletype.SwallowedInterruptError
	TimeoutError            = treadletype.TimeoutError
	UpdateError             = treadletype.UpdateError
	ValidationError         = treadletype.ValidationError
)

// The kinds of pauses.
const (
	QuestionPause = treadletype.QuestionPause
	SleepPause    = treadletype.SleepPause
	SignalPause   = treadletype.SignalPause
)

// The public errors.
var (
	ErrNoSaver           = treadletype.ErrNoSaver
	ErrNoThread          = treadletype.ErrNoThread
	ErrNilContext        = treadletype.ErrNilContext
	ErrOutsideRun        = treadletype.ErrOutsideRun
	ErrAmbiguousResume   = treadletype.ErrAmbiguousResume
	ErrNothingToResume   = treadletype.ErrNothingToResume
	ErrUnknownInterrupt  = treadletype.ErrUnknownInterrupt
	ErrNothingToContinue = treadletype.ErrNothingToContinue
	ErrDrained           = treadletype.ErrDrained
)
