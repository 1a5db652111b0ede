package treadle

import (
	"context"

	"github.com/treadle-go/treadle/internal/observe"
	"github.com/treadle-go/treadle/internal/pregel"
	"github.com/treadle-go/treadle/treadletype"
)

// The errors of a run. Each wraps its cause, so errors.Is and errors.As see through it.
// docs/errors.md lists when each occurs and what to do. They are defined in package
// treadletype, which the engine also uses; a program uses these names.
type (
	// NodeError reports the failure of a node after its retries. It wraps the error that
	// the node returned, or describes its panic. See [treadletype.NodeError].
	//
	//	Graph   string
	//	Node    string
	//	Path    string
	//	Step    int
	//	Attempt int
	//	Err     error
	//	Stack   []byte
	//
	// Fields:
	//   - Graph, Node, and Step locate the failure. Node is empty if a panic occurred in the
	//     graph itself between nodes.
	//   - Path is the namespace of a node in a subgraph; it is empty for the root graph.
	//   - Attempt is the number of the last attempt, starting at 1.
	//   - Err is the cause.
	//   - Stack is the stack trace of a panic.
	NodeError = treadletype.NodeError

	// InterruptError reports that a run has stopped and waits. The thread can be resumed,
	// continued, or signaled. See [treadletype.InterruptError].
	//
	//	Graph         string
	//	Pauses        []Pause
	//	Before, After []string
	//
	// Fields:
	//   - Graph is the name of the graph.
	//   - Pauses lists what the run waits for: answer questions with [Thread.Resume], and
	//     send signals with [Thread.Signal]. [Wake], or the server, ends sleeps.
	//   - Before and After list the nodes whose breakpoint was reached; [Thread.Continue]
	//     continues past them.
	InterruptError = treadletype.InterruptError

	// BuildError reports one problem that Compile found in a graph. Compile joins the
	// errors of all problems. See [treadletype.BuildError].
	//
	//	Graph string
	//	Node  string
	//	Field string
	//	Msg   string
	//
	// Fields:
	//   - Graph is the name of the graph.
	//   - Node and Field are empty if the problem does not concern a node or a field.
	//   - Msg describes the problem.
	BuildError = treadletype.BuildError

	// UpdateError reports an update that does not match the graph's fields. It occurs for
	// an input, the result of a node, or an edit of a thread. See
	// [treadletype.UpdateError].
	//
	//	Graph string
	//	Field string
	//	Msg   string
	//
	// Fields:
	//   - Graph is the name of the graph.
	//   - Field is empty if the update as a whole is invalid.
	//   - Msg describes the problem.
	UpdateError = treadletype.UpdateError

	// ConflictError reports that several tasks of one step wrote a field that holds only
	// one value. Give the field a reducer, or let one task write it. See
	// [treadletype.ConflictError].
	//
	//	Field     string
	//	Nodes     []string
	//	Overwrite bool
	//
	// Fields:
	//   - Field is the name of the field.
	//   - Nodes lists the nodes of the tasks.
	//   - Overwrite reports whether the writes were an [Overwrite] of a field with a reducer.
	ConflictError = treadletype.ConflictError

	// ValidationError reports a value that a Validate method rejected. It wraps the error
	// of the method. See [treadletype.ValidationError].
	//
	//	Graph string
	//	What  string
	//	Err   error
	//
	// Fields:
	//   - Graph is the name of the graph.
	//   - What names the value: input, state, context, or a field.
	//   - Err is the error of the method.
	ValidationError = treadletype.ValidationError

	// GotoError reports a goto or send to an invalid destination. It occurs for a branch,
	// the result of a node, or an edit of a thread. See [treadletype.GotoError].
	//
	//	Graph string
	//	To    string
	//	Msg   string
	//
	// Fields:
	//   - Graph is the name of the graph.
	//   - To is the destination; it may be empty.
	//   - Msg describes the problem.
	GotoError = treadletype.GotoError

	// StepLimitError reports that a run reached its step limit. On a thread, the state is
	// kept, and [Thread.Continue] continues with a new limit. See [StepLimit] and
	// [treadletype.StepLimitError].
	//
	//	Graph string
	//	Limit int
	//	Next  []string
	//
	// Fields:
	//   - Graph is the name of the graph.
	//   - Limit is the number of steps.
	//   - Next lists the nodes that would have run.
	StepLimitError = treadletype.StepLimitError

	// TimeoutError reports that an attempt of a node took too long. It occurs with
	// [Timeout] and [IdleTimeout], and [Retry] retries it. See [treadletype.TimeoutError].
	//
	//	Node      string
	//	Idle      bool
	//	Limit     time.Duration
	//	Abandoned bool
	//	func (e *TimeoutError) Timeout() bool
	//
	// Fields:
	//   - Node is the name of the node.
	//   - Idle reports whether the attempt showed no activity for Limit; otherwise, it ran
	//     longer than Limit.
	//   - Limit is the timeout.
	//   - Abandoned reports whether the attempt ignored its canceled context.
	TimeoutError = treadletype.TimeoutError

	// MutationError reports that a node modified its input. It occurs only if inputs are
	// checked; see [Options].Check and [treadletype.MutationError].
	//
	//	Node  string
	//	Field string
	//
	// Fields:
	//   - Node is the name of the node.
	//   - Field is the name of the modified field.
	MutationError = treadletype.MutationError

	// OrderError reports that a node or workflow, when run again, made different calls than
	// the recorded ones, or made them in a different order, so that the recorded results
	// cannot be matched. See [treadletype.OrderError].
	//
	//	Call     int
	//	Recorded string
	//	Made     string
	//	Input    bool
	//
	// Fields:
	//   - Call is the index of the call, starting at 1.
	//   - Recorded is the name of the recorded call.
	//   - Made is the name of the call made now.
	//   - Input reports whether the call is the same but has a different input.
	OrderError = treadletype.OrderError

	// AnswerError reports an answer or signal value that does not match its schema.
	// [Thread.Resume] and [Thread.Signal] return it and leave the thread unchanged.
	// [WaitFor] returns it for an invalid value sent earlier. See
	// [treadletype.AnswerError].
	//
	//	Pause  Pause
	//	Answer json.RawMessage
	//	Err    error
	//
	// Fields:
	//   - Pause describes the question or signal.
	//   - Answer is the rejected value.
	//   - Err is the mismatch.
	AnswerError = treadletype.AnswerError

	// DeadlineError reports that a question was not answered, or a signal not sent, before
	// its deadline, and that the deadline has no default. [Interrupt] or [WaitFor] returns
	// it to the node. Pause describes the question or signal. See
	// [treadletype.DeadlineError].
	//
	//	Pause Pause
	DeadlineError = treadletype.DeadlineError

	// InterruptChangedError reports that a node, when run again, asks a different question
	// than the one that was answered. It fails the run under [Options].Strict; otherwise, it
	// is logged as a warning. See [treadletype.InterruptChangedError].
	//
	//	Node            string
	//	Answered, Asked json.RawMessage
	//
	// Fields:
	//   - Node is the name of the node.
	//   - Answered and Asked are the previous and the current question.
	InterruptChangedError = treadletype.InterruptChangedError

	// SwallowedInterruptError reports that a node asked a question, or started to wait, but
	// did not return the error from Interrupt, Sleep, Until, or WaitFor. Pauses lists what
	// the node waits for. See [treadletype.SwallowedInterruptError].
	//
	//	Pauses []Pause
	SwallowedInterruptError = treadletype.SwallowedInterruptError

	// GraphError reports that a thread, or the state of a subgraph on it, belongs to
	// another graph. Nothing was changed. [Options].Was lists previous names of a renamed
	// graph. See [treadletype.GraphError].
	//
	//	Graph     string
	//	Thread    string
	//	Namespace string
	//	Of        string
	//
	// Fields:
	//   - Graph is the graph to run.
	//   - Thread is the thread's ID.
	//   - Namespace is the namespace of a subgraph; it is empty for the root graph.
	//   - Of is the graph that the state belongs to.
	GraphError = treadletype.GraphError

	// StoredValueError reports a saved field value that does not match the field's type in
	// this version of the program. Nothing was changed. See [treadletype.StoredValueError].
	//
	//	Graph      string
	//	Thread     string
	//	Namespace  string
	//	Checkpoint checkpoint.ID
	//	Field      string
	//	Stored     string
	//	Want       string
	//	Err        error
	//
	// Fields:
	//   - Graph, Thread, Namespace, and Checkpoint locate the value. Namespace is empty for
	//     the root graph.
	//   - Field is the field, with the path inside it if known.
	//   - Stored is a JSON type or the name of a codec.
	//   - Want is the Go type of the field.
	//   - Err is the error of the decoder.
	StoredValueError = treadletype.StoredValueError
)

// Sentinel errors, for use with errors.Is.
var (
	// ErrNoSaver is returned if the graph was compiled without Options.Saver.
	ErrNoSaver = treadletype.ErrNoSaver
	// ErrNoThread is returned if the call needs a thread with an ID.
	ErrNoThread = treadletype.ErrNoThread
	// ErrNilContext is returned if the context is nil.
	ErrNilContext = treadletype.ErrNilContext
	// ErrOutsideRun is returned if the context does not come from a node or task.
	ErrOutsideRun = treadletype.ErrOutsideRun
	// ErrAmbiguousResume is returned if several interrupts are pending and an answer has no
	// interrupt ID: use [Answers].
	ErrAmbiguousResume = treadletype.ErrAmbiguousResume
	// ErrNothingToResume is returned if no interrupt is pending.
	ErrNothingToResume = treadletype.ErrNothingToResume
	// ErrUnknownInterrupt is returned if no pending interrupt has the ID of an answer.
	ErrUnknownInterrupt = treadletype.ErrUnknownInterrupt
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
// A canceled context is not a pause, but it is not a failure either. After a pause or
// cancellation, tasks and [Do] do not start, so compensation written with them does not
// run, even if the node does not call IsPause.
func IsPause(err error) bool { return treadletype.IsPause(err) }

// Propagate returns the error that a node, tool, or middleware must propagate instead
// of handling err by a retry, a compensation, or a substitute result. It returns nil if
// the caller may handle err, or if err is nil.
//
//	if err := treadle.Propagate(ctx, err); err != nil {
//		return nil, err
//	}
//
// Propagate returns err if it is a pause (see [IsPause]), if ctx is done, or if err is a
// failure of a run itself, such as a failing saver. Otherwise, it returns the failure of
// the run that ctx belongs to, or the interrupt of the node, even if err hides it. The
// node ends with that error whatever its code returns.
func Propagate(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case IsPause(err) || ctx.Err() != nil || pregel.IsFault(err):
		return err
	}
	return observe.Failed(ctx)
}

// Transient reports whether err is likely temporary, such as a network failure: network
// errors, timeouts, HTTP 429 and 5xx (from a method StatusCode() int), and errors whose
// Temporary or Timeout method returns true. A [RetryPolicy] without On retries these errors.
func Transient(err error) bool { return treadletype.Transient(err) }
