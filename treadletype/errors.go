package treadletype

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/treadle-go/treadle/checkpoint"
)

// Sentinel errors, for use with errors.Is. Package treadle defines the same variables.
var (
	// ErrNoSaver is returned if the graph was compiled without Options.Saver.
	ErrNoSaver = errors.New("treadle: graph has no saver: set Options.Saver")
	// ErrNoThread is returned if a call needs a thread with an ID.
	ErrNoThread = errors.New("treadle: run has no thread: use g.Thread(id)")
	// ErrNilContext is returned if the context is nil.
	ErrNilContext = errors.New("treadle: nil context: pass context.Background() if you have no other")
	// ErrOutsideRun is returned if the context does not come from a node or task.
	ErrOutsideRun = errors.New("treadle: called outside a run: pass the node's context")
	// ErrAmbiguousResume is returned if several interrupts are pending and an answer has
	// no interrupt ID.
	ErrAmbiguousResume = errors.New("treadle: multiple interrupts pending: resume by ID with Answers")
	// ErrNothingToResume is returned if no interrupt is pending.
	ErrNothingToResume = errors.New("treadle: no pending interrupt")
	// ErrUnknownInterrupt is returned if no pending interrupt has the ID of an answer.
	ErrUnknownInterrupt = errors.New("treadle: no pending interrupt has this ID")
	// ErrNothingToContinue is returned if the thread has no checkpoint.
	ErrNothingToContinue = errors.New("treadle: nothing to continue: thread has no checkpoint: run it with an input first")
	// ErrDrained is returned if the run ended early because it was drained.
	ErrDrained = errors.New("treadle: drained: run ended early after a finished step: continue it later")
)

// BuildError reports one problem that Compile found in a graph.
type BuildError struct {
	Graph string
	Node  string // empty if the problem does not concern a node
	Field string // empty if the problem does not concern a field
	Msg   string
}

func (e *BuildError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "graph %q", e.Graph)
	if e.Node != "" {
		fmt.Fprintf(&b, ": node %q", e.Node)
	}
	if e.Field != "" {
		fmt.Fprintf(&b, ": field %s", e.Field)
	}
	return b.String() + ": " + e.Msg
}

// NodeError reports the failure of a node after its retries.
type NodeError struct {
	Graph   string
	Node    string // empty if a panic occurred in the graph itself between nodes, such as while saving
	Path    string // namespace of a node in a subgraph; empty for the root graph
	Step    int
	Attempt int // starting at 1
	Err     error
	Stack   []byte // set if a user function panicked or exited its goroutine
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
	switch e.Err.(type) { //nolint:errorlint // an error that wraps one of these does not begin with the graph
	case *UpdateError, *ValidationError: // both name the graph too
		msg = strings.TrimPrefix(msg, fmt.Sprintf("graph %q: ", e.Graph))
	}
	return where + "): " + msg
}

func (e *NodeError) Unwrap() error { return e.Err }

// StepLimitError reports that a run reached its step limit. On a thread, the state is
// kept, and Continue continues with a new limit.
type StepLimitError struct {
	Graph string
	Limit int
	Next  []string // the nodes that would have run
}

func (e *StepLimitError) Error() string {
	next := "next: the end, so one more step is enough"
	if len(e.Next) > 0 {
		next = "next: " + strings.Join(e.Next, ", ")
	}
	return fmt.Sprintf("graph %q: step limit %d reached before the end (%s): raise it with treadle.StepLimit", e.Graph, e.Limit, next)
}

// ConflictError reports that several tasks of one step wrote a field that holds only
// one value.
type ConflictError struct {
	Field     string
	Nodes     []string
	Overwrite bool // the writes were overwrites of a field with a reducer
}

func (e *ConflictError) Error() string {
	who := "by " + strings.Join(e.Nodes, " and ")
	if len(e.Nodes) == 2 && e.Nodes[0] == e.Nodes[1] {
		who = "twice by " + e.Nodes[0]
	}
	if e.Overwrite {
		return fmt.Sprintf("field %s: overwritten %s in one step: a step may overwrite a field only once", e.Field, who)
	}
	return fmt.Sprintf("field %s: written %s in one step without a reducer: give its type a Reduce method", e.Field, who)
}

// UpdateError reports an update that does not match the graph's fields.
type UpdateError struct {
	Graph string
	Field string // empty if the update as a whole is invalid
	Msg   string
}

func (e *UpdateError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("graph %q: update: %s", e.Graph, e.Msg)
	}
	return fmt.Sprintf("graph %q: update: field %s: %s", e.Graph, e.Field, e.Msg)
}

// GotoError reports a goto or send to an invalid destination.
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

// TimeoutError reports that an attempt of a node took too long.
type TimeoutError struct {
	Node      string
	Idle      bool // the attempt showed no activity for Limit; otherwise, it ran longer than Limit
	Limit     time.Duration
	Abandoned bool // the attempt ignored its canceled context and was abandoned
}

func (e *TimeoutError) Error() string {
	msg := fmt.Sprintf("timed out after %v", e.Limit)
	if e.Idle {
		msg += " without activity"
	}
	if e.Abandoned {
		msg += " and did not return after its context was canceled"
	}
	return msg
}

// Timeout returns true, as for timeouts in package net.
func (e *TimeoutError) Timeout() bool { return true }

// MutationError reports that a node modified its input.
type MutationError struct {
	Node  string
	Field string
}

func (e *MutationError) Error() string {
	return fmt.Sprintf("modified its input field %s, which other nodes and old checkpoints share: copy it and return the copy", e.Field)
}

// ValidationError reports a value that a Validate method rejected.
type ValidationError struct {
	Graph string
	What  string // input, state, context, or a field
	Err   error
}

func (e *ValidationError) Error() string {
	return fmt.Sprintf("graph %q: invalid %s: %v", e.Graph, e.What, e.Err)
}

func (e *ValidationError) Unwrap() error { return e.Err }

// StoredValueError reports a saved field value that does not match the field's type in
// this version of the program. Nothing was changed.
type StoredValueError struct {
	Graph      string
	Thread     string
	Namespace  string // of a subgraph; empty for the root graph
	Checkpoint checkpoint.ID
	Field      string // includes the path inside the field, if known
	Stored     string // a JSON type, or the name of a codec
	Want       string // the Go type of the field
	Err        error
}

func (e *StoredValueError) Error() string {
	return fmt.Sprintf("graph %q: thread %q: checkpoint %s: field %s: saved value is %s, want %s: %v; "+
		"thread unchanged: give the type an UnmarshalJSON that also reads the old form, or rename the field, which then starts without a value",
		e.Graph, e.Thread, e.Checkpoint, e.Field, e.Stored, e.Want, e.Err)
}

func (e *StoredValueError) Unwrap() error { return e.Err }

// OrderError reports that a node or workflow, when run again, made different calls than
// the recorded ones, or made them in a different order, so that the recorded results
// cannot be matched.
type OrderError struct {
	Call     int    // index of the task's call, starting at 1
	Recorded string // the name of the recorded call
	Made     string // the name of the call made now
	Input    bool   // the call is the same but has a different input
}

func (e *OrderError) Error() string {
	if e.Input {
		return fmt.Sprintf("call %d (%q) has a different input than when it was recorded: calls must be the same each time: get the values that determine the input, such as the time or a random number, from a task", e.Call, e.Made)
	}
	return fmt.Sprintf("call %d is %q, but %q was recorded: calls must be made in the same order each time: get the values that determine the order, such as the time or a random number, from a task", e.Call, e.Made, e.Recorded)
}

// AnswerError reports an answer or signal value that does not match its schema.
type AnswerError struct {
	Pause  Pause
	Answer json.RawMessage
	Err    error
}

func (e *AnswerError) Error() string {
	if e.Pause.Kind == SignalPause {
		return fmt.Sprintf("treadle: invalid value of signal %q: %v: node %q got %s", e.Pause.Key, e.Err, e.Pause.Node, excerpt(e.Answer))
	}
	return fmt.Sprintf("treadle: invalid answer: %v: node %q asked %s and got %s", e.Err, e.Pause.Node, excerpt(e.Pause.Value), excerpt(e.Answer))
}

// excerpt returns the start of a JSON value.
func excerpt(raw json.RawMessage) string {
	const most = 200
	if len(raw) <= most {
		return string(raw)
	}
	return strings.ToValidUTF8(string(raw[:most]), "") + "…"
}

func (e *AnswerError) Unwrap() error { return e.Err }

// DeadlineError reports that a question was not answered, or a signal not sent, before
// its deadline, and that the deadline has no default. Interrupt or treadle.WaitFor
// returns it to the node.
type DeadlineError struct{ Pause Pause }

func (e *DeadlineError) Error() string {
	if e.Pause.Kind == SignalPause {
		return fmt.Sprintf("signal %q not received by %s", e.Pause.Key, e.Pause.Due.Format(time.RFC3339))
	}
	return fmt.Sprintf("%s not answered by %s", e.Pause.Value, e.Pause.Due.Format(time.RFC3339))
}

// GraphError reports that a thread, or the state of a subgraph on it, belongs to
// another graph. Nothing was changed.
type GraphError struct {
	Graph     string // the graph to run
	Thread    string
	Namespace string // of a subgraph; empty for the root graph
	Of        string // the graph that the state belongs to
}

func (e *GraphError) Error() string {
	if e.Namespace != "" {
		return fmt.Sprintf("graph %q: thread %q: state at %q belongs to graph %q: a node must run the same graphs in the same order each time; if the graph was renamed, list its old name in Options.Was", e.Graph, e.Thread, e.Namespace, e.Of)
	}
	return fmt.Sprintf("graph %q: thread %q belongs to graph %q: use another thread; if the graph was renamed, list its old name in Options.Was", e.Graph, e.Thread, e.Of)
}

// SwallowedInterruptError reports that a node asked a question, or started to wait, but
// did not return the error from Interrupt, Sleep, Until, or WaitFor.
type SwallowedInterruptError struct{ Pauses []Pause }

func (e *SwallowedInterruptError) Error() string {
	switch p := e.Pauses[0]; p.Kind {
	case SleepPause:
		return fmt.Sprintf("did not sleep until %s: return the error of treadle.Sleep or treadle.Until", p.Due.Format(time.RFC3339))
	case SignalPause:
		return fmt.Sprintf("did not wait for signal %q: return the error of treadle.WaitFor", p.Key)
	}
	return fmt.Sprintf("did not wait for the answer to %s: return the error of Interrupt", e.Pauses[0].Value)
}

// InterruptChangedError reports that a node, when run again, asks a different question
// than the one that was answered. It fails the run under Options.Strict; otherwise, it
// is logged as a warning.
type InterruptChangedError struct {
	Node            string
	Answered, Asked json.RawMessage
}

func (e *InterruptChangedError) Error() string {
	return fmt.Sprintf("asks %s where %s was answered: the order of questions has changed: set Key in treadle.Question", e.Asked, e.Answered)
}

// IsPause reports whether err means that the run stops here and resumes later, not that
// something failed: an interrupt, a sleep, a wait for a signal, a command to the parent
// graph, or a drained run. Code that handles errors must return such an error
// unchanged.
func IsPause(err error) bool {
	if _, ok := errors.AsType[interface {
		error
		ToParent() // a command to the parent graph
	}](err); ok {
		return true
	}
	_, ok := errors.AsType[*InterruptError](err)
	return ok || errors.Is(err, ErrDrained)
}
