package treadletype

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/treadle-go/treadle/checkpoint"
)

// Errors without data. Package treadle has the same variables.
var (
	// ErrNoSaver says that the graph was compiled without Options.Saver.
	ErrNoSaver = errors.New("treadle: the graph has no saver: set Options.Saver")
	// ErrNoThread says that the call needs a thread with an id.
	ErrNoThread = errors.New("treadle: the run is on no thread: use g.Thread(id)")
	// ErrNilContext says that a nil context was passed.
	ErrNilContext = errors.New("treadle: the context is nil: pass context.Background() if there is no other")
	// ErrOutsideRun says that the context does not come from a node or task.
	ErrOutsideRun = errors.New("treadle: called outside a run: pass the context that the node was given")
	// ErrAmbiguousResume says that several questions are open and one answer
	// was given without the id of its question.
	ErrAmbiguousResume = errors.New("several questions are open: answer by id")
	// ErrNothingToResume says that no question is open.
	ErrNothingToResume = errors.New("no question is open")
	// ErrUnknownPause says that no open question has the id of an answer.
	ErrUnknownPause = errors.New("no open question has this id")
	// ErrNothingToContinue says that the thread has no checkpoint.
	ErrNothingToContinue = errors.New("nothing to continue: the thread has no checkpoint; run it with an input first")
	// ErrDrained says that the run ended early because it was drained.
	ErrDrained = errors.New("drained: the run ended early, after a finished step; continue it later")
)

// BuildError is one problem that Compile found in a graph.
type BuildError struct {
	Graph string
	Node  string // empty if the problem is not about a node
	Field string // empty if the problem is not about a field
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

// NodeError is the failure of a node after its retries.
type NodeError struct {
	Graph   string
	Node    string // empty if a panic came from the graph's own work between nodes, such as storing
	Path    string // the namespace of a nested graph's node; empty at the root
	Step    int
	Attempt int // counted from 1
	Err     error
	Stack   []byte // set if a function of the user panicked or ended its goroutine
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

// StepLimitError says that a run reached its limit of steps. On a thread the
// state is kept, and Continue goes on with a new limit.
type StepLimitError struct {
	Graph string
	Limit int
	Next  []string // the nodes that would have run
}

func (e *StepLimitError) Error() string {
	next := "it had just finished: a limit one higher is enough"
	if len(e.Next) > 0 {
		next = "next: " + strings.Join(e.Next, ", ")
	}
	return fmt.Sprintf("graph %q: step limit %d reached without an end (%s); raise it with treadle.StepLimit", e.Graph, e.Limit, next)
}

// ConflictError says that several tasks of one step wrote a field that holds
// one value.
type ConflictError struct {
	Field     string
	Nodes     []string
	Overwrite bool // the writes were overwrites of an accumulating field
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

// UpdateError says that an update does not fit the graph's fields.
type UpdateError struct {
	Graph string
	Field string // empty if the update as a whole does not fit
	Msg   string
}

func (e *UpdateError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("graph %q: update: %s", e.Graph, e.Msg)
	}
	return fmt.Sprintf("graph %q: update: field %s: %s", e.Graph, e.Field, e.Msg)
}

// GotoError says that a goto or send named a place where control cannot go.
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

// TimeoutError says that an attempt of a node took too long.
type TimeoutError struct {
	Node      string
	Idle      bool // it gave no sign of life for Limit; otherwise it ran longer than Limit
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

// Timeout reports true, as errors of package net do.
func (e *TimeoutError) Timeout() bool { return true }

// MutationError says that a node changed the input it was given.
type MutationError struct {
	Node  string
	Field string
}

func (e *MutationError) Error() string {
	return fmt.Sprintf("changed its input field %s in place: other nodes and old checkpoints share it; copy it first and return the copy", e.Field)
}

// ValidationError says that a Validate method refused a value.
type ValidationError struct {
	Graph string
	What  string // the input, the state or a node's input
	Err   error
}

func (e *ValidationError) Error() string {
	return fmt.Sprintf("graph %q: %s is not valid: %v", e.Graph, e.What, e.Err)
}

func (e *ValidationError) Unwrap() error { return e.Err }

// StoredValueError says that the stored value of a field does not fit the type
// that the field has in this version of the program. Nothing was changed.
type StoredValueError struct {
	Graph      string
	Thread     string
	Namespace  string // of a nested graph; empty at the root
	Checkpoint checkpoint.ID
	Field      string // with the path inside the field, if it is known
	Stored     string // a kind of JSON, or the name of a codec
	Want       string // the Go type of the field
	Err        error
}

func (e *StoredValueError) Error() string {
	return fmt.Sprintf("graph %q: thread %q: checkpoint %s: field %s: the stored value is %s, which is not a %s: %v; "+
		"nothing was changed: give the type an UnmarshalJSON that reads the old form too, or rename the field, which then starts without a value",
		e.Graph, e.Thread, e.Checkpoint, e.Field, e.Stored, e.Want, e.Err)
}

func (e *StoredValueError) Unwrap() error { return e.Err }

// OrderError says that a node or workflow, run again, made other calls than the
// recorded ones, or made them in another order, so that the recorded results
// cannot be matched.
type OrderError struct {
	Call     int    // which call of the task, counted from 1
	Recorded string // the name of the recorded call
	Made     string // the name of the call that was made now
	Input    bool   // the call is the same but has another input
}

func (e *OrderError) Error() string {
	if e.Input {
		return fmt.Sprintf("call %d, of %q, has another input now than when it was recorded: calls must be the same each time; put what the input comes from (the time, a random number) into a task", e.Call, e.Made)
	}
	return fmt.Sprintf("call %d is %q now and was %q when it was recorded: calls must be made in the same order each time; put what decides the order (the time, a random number) into a task", e.Call, e.Made, e.Recorded)
}

// AnswerError says that an answer does not fit the schema of its question.
type AnswerError struct {
	Pause  Pause
	Answer json.RawMessage
	Err    error
}

func (e *AnswerError) Error() string {
	return fmt.Sprintf("resume: the answer %s to %s (node %q) does not fit: %v", e.Answer, e.Pause.Value, e.Pause.Node, e.Err)
}

func (e *AnswerError) Unwrap() error { return e.Err }

// DeadlineError says that nobody answered a question, or sent a signal, until its
// deadline, and that the deadline has no default. The node gets it from Interrupt or
// treadle.WaitFor.
type DeadlineError struct{ Pause Pause }

func (e *DeadlineError) Error() string {
	if e.Pause.Kind == SignalPause {
		return fmt.Sprintf("the signal %q did not come until %s", e.Pause.Key, e.Pause.Due.Format(time.RFC3339))
	}
	return fmt.Sprintf("%s was not answered until %s", e.Pause.Value, e.Pause.Due.Format(time.RFC3339))
}

// GraphError says that a thread, or the state of a nested graph on it, belongs to
// another graph. Nothing was changed.
type GraphError struct {
	Graph     string // the graph that was to run
	Thread    string
	Namespace string // of a nested graph; empty at the root
	Of        string // the graph that the state belongs to
}

func (e *GraphError) Error() string {
	if e.Namespace != "" {
		return fmt.Sprintf("graph %q: thread %q: the state at %q is of graph %q: a node must run the same graphs in the same order each time; if the graph was renamed, give its old name in Options.Was", e.Graph, e.Thread, e.Namespace, e.Of)
	}
	return fmt.Sprintf("graph %q: thread %q is of graph %q: use another thread; if the graph was renamed, give its old name in Options.Was", e.Graph, e.Thread, e.Of)
}

// SwallowedInterruptError says that a node asked a question, or was to wait, and
// did not return the error of Interrupt, Sleep, Until, or WaitFor.
type SwallowedInterruptError struct{ Pauses []Pause }

func (e *SwallowedInterruptError) Error() string {
	switch p := e.Pauses[0]; p.Kind {
	case SleepPause:
		return fmt.Sprintf("was to sleep until %s and went on: return the error that treadle.Sleep or treadle.Until gives", p.Due.Format(time.RFC3339))
	case SignalPause:
		return fmt.Sprintf("was to wait for the signal %q and went on without it: return the error that treadle.WaitFor gives", p.Key)
	}
	return fmt.Sprintf("asked %s and went on without an answer: return the error that Interrupt gives", e.Pauses[0].Value)
}

// InterruptChangedError says that a node, run again, asks another question than
// the one that was answered. It fails the run under Options.Strict and is a
// warning in the log otherwise.
type InterruptChangedError struct {
	Node            string
	Answered, Asked json.RawMessage
}

func (e *InterruptChangedError) Error() string {
	return fmt.Sprintf("asks %s where %s was answered: the order of questions has changed; give them a Key in treadle.Question", e.Asked, e.Answered)
}

// IsPause reports whether err means that the run stops here and resumes later, not
// that something failed: an interrupt, a sleep, a wait for a signal, a command to the
// parent graph, or a drained run. Code that handles errors must return such an error
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
