package treadletype

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"strings"
	"syscall"
	"time"
)

// A Pause describes what a run waits for: the answer to a question, a time, or a
// signal.
type Pause struct {
	ID        string          `json:"id"`
	Value     json.RawMessage `json:"value"`               // the question; see Decode
	Node      string          `json:"node"`                // the node that asked
	Namespace []string        `json:"namespace,omitempty"` // of the node's graph; empty at the root
	Key       string          `json:"key,omitempty"`       // name of the question, if any, or of the signal
	Schema    json.RawMessage `json:"schema,omitempty"`    // schema of the answer or signal; if empty, any value is valid
	Kind      PauseKind       `json:"kind,omitempty"`
	Due       time.Time       `json:"due,omitzero"`      // end of a sleep, or the deadline; zero if none
	Default   json.RawMessage `json:"default,omitempty"` // used as the answer or signal after the deadline
}

// UnmarshalJSON also accepts the schema as response_schema, the name that servers use.
func (p *Pause) UnmarshalJSON(raw []byte) error {
	type stored Pause
	in := struct {
		*stored
		Response json.RawMessage `json:"response_schema"`
	}{stored: (*stored)(p)}
	if err := json.Unmarshal(raw, &in); err != nil {
		return err
	}
	if len(in.Response) > 0 && string(in.Response) != "null" {
		p.Schema = in.Response
	}
	return nil
}

// PauseKind identifies what ends a pause.
type PauseKind string

// Kinds of pauses.
const (
	QuestionPause PauseKind = ""       // an answer
	SleepPause    PauseKind = "sleep"  // the time Due
	SignalPause   PauseKind = "signal" // the signal Key
)

// String returns a description of what the pause waits for.
func (p Pause) String() string {
	switch p.Kind {
	case SleepPause:
		return fmt.Sprintf("node %q sleeps until %s", p.Node, p.Due.Format(time.RFC3339))
	case SignalPause:
		return fmt.Sprintf("node %q waits for signal %q%s", p.Node, p.Key, p.until())
	}
	return fmt.Sprintf("node %q asks %s (ID %s)%s", p.Node, p.Value, p.ID, p.until())
}

func (p Pause) until() string {
	if p.Due.IsZero() {
		return ""
	}
	return " until " + p.Due.Format(time.RFC3339)
}

// Decode unmarshals the question into v.
func (p Pause) Decode(v any) error { return json.Unmarshal(p.Value, v) }

// InterruptError reports that a run has stopped and waits. Pauses lists what it waits
// for: answer questions with Thread.Resume and send signals with Thread.Signal; when a
// time has come, treadle.Wake or a server continues the run. Before and After list the
// nodes whose breakpoint was reached; Thread.Continue continues past them. The name of
// a node in a subgraph includes the node that runs the subgraph: "research/search".
type InterruptError struct {
	Graph         string
	Pauses        []Pause
	Before, After []string
}

func (e *InterruptError) Error() string {
	var what []string
	for _, p := range e.Pauses {
		what = append(what, p.String())
	}
	if len(e.Before) > 0 {
		what = append(what, "breakpoint before "+strings.Join(e.Before, ", "))
	}
	if len(e.After) > 0 {
		what = append(what, "breakpoint after "+strings.Join(e.After, ", "))
	}
	return fmt.Sprintf("graph %q: interrupted: %s", e.Graph, strings.Join(what, "; "))
}

// Info describes the run that a node belongs to.
type Info struct {
	Graph  string
	Node   string
	Thread string // empty if the run has no thread
	RunID  string
	TaskID string
	// IdempotencyKey identifies the task to external systems, so that they can
	// distinguish a repeated request from a new one. It stays the same across retries,
	// resumes, and crashes, and differs on a fork. With durability Async, it survives a
	// crash only inside Do and tasks, and with Exit not at all, because the checkpoint
	// that it is derived from may be lost.
	IdempotencyKey string
	CheckpointID   string   // the checkpoint that the task runs from
	Namespace      []string // of the graph; empty for the root graph
	Step           int
	RemainingSteps int // until the step limit
	Attempt        int // starting at 1
	FirstAttempt   time.Time
	Deadline       time.Time // of the attempt; zero if none
	Tags           []string
	Metadata       map[string]any
	// Config is the run configuration from the server that runs the graph, in the
	// format of LangGraph's config: "configurable" contains the IDs of the thread, run,
	// and assistant, the values set by the client, and the request's x- headers. It is
	// nil without a server and must not be modified.
	Config map[string]any
}

// An Edit is one update of a thread, applied as if a node had written it.
type Edit struct {
	Values any    // any value that a node could return; nil writes nothing
	As     string // node name; empty means the last node that wrote, if there is only one
}

// A RetryPolicy controls when and how often a failed node or task is retried. Zero fields
// mean the defaults.
type RetryPolicy struct {
	Initial  time.Duration // wait after the first failure; 500ms by default
	Factor   float64       // growth factor of the wait; 2 by default
	Max      time.Duration // maximum wait, excluding jitter; 128s by default
	Attempts int           // including the first; 3 by default
	NoJitter bool          // disables the jitter of up to a second added to each wait
	// On reports whether to retry after an error; Transient by default.
	On func(error) bool
}

// Retryable reports whether the policy retries after err.
func (p RetryPolicy) Retryable(err error) bool {
	if p.On == nil {
		return Transient(err)
	}
	return p.On(err)
}

// Wait returns the wait after a failed attempt, starting at 1, and reports whether
// there is another attempt.
func (p RetryPolicy) Wait(attempt int) (time.Duration, bool) {
	if attempt >= cmp.Or(p.Attempts, 3) {
		return 0, false
	}
	initial, limit, factor := cmp.Or(p.Initial, 500*time.Millisecond), cmp.Or(p.Max, 128*time.Second), cmp.Or(p.Factor, 2)
	wait := math.Min(float64(limit), float64(initial)*math.Pow(factor, float64(attempt-1)))
	if !p.NoJitter {
		wait += rand.Float64() * float64(time.Second)
	}
	return time.Duration(wait), true
}

// Transient reports whether err is likely temporary, such as a network failure: network
// errors, timeouts, HTTP 429 and 5xx (from a method StatusCode() int), and errors whose
// Temporary or Timeout method returns true. It is the default of RetryPolicy.On.
func Transient(err error) bool {
	if errors.Is(err, context.Canceled) {
		return false
	}
	if e, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err); ok && e.Timeout() {
		return true
	}
	if e, ok := errors.AsType[interface {
		error
		Temporary() bool
	}](err); ok && e.Temporary() {
		return true
	}
	if e, ok := errors.AsType[interface {
		error
		StatusCode() int
	}](err); ok {
		return e.StatusCode() == 429 || e.StatusCode() >= 500
	}
	return isNetwork(err)
}

// isNetwork reports whether err is a connection error.
func isNetwork(err error) bool {
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return true
	}
	for _, e := range []error{io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.ECONNREFUSED, syscall.EPIPE, syscall.ETIMEDOUT} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
