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

// Pause is what a run waits for: the answer to a question, a time, or a signal.
type Pause struct {
	ID        string          `json:"id"`
	Value     json.RawMessage `json:"value"`               // the question; see Decode
	Node      string          `json:"node"`                // the node that asked
	Namespace []string        `json:"namespace,omitempty"` // of the node's graph; empty at the root
	Key       string          `json:"key,omitempty"`       // the name of the question, if it has one; of a signal its name
	Schema    json.RawMessage `json:"schema,omitempty"`    // of the answer or signal; without one every value fits
	Kind      PauseKind       `json:"kind,omitempty"`
	Due       time.Time       `json:"due,omitzero"`      // when a sleep is over, or the deadline; zero if there is none
	Default   json.RawMessage `json:"default,omitempty"` // what counts as the answer or signal after the deadline
}

// UnmarshalJSON also reads the schema from response_schema, as servers name it.
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

// PauseKind says what ends a pause.
type PauseKind string

// The kinds of pauses.
const (
	QuestionPause PauseKind = ""       // an answer
	SleepPause    PauseKind = "sleep"  // the time Due
	SignalPause   PauseKind = "signal" // the signal Key
)

// describe says what the pause waits for.
func (p Pause) describe() string {
	switch p.Kind {
	case SleepPause:
		return fmt.Sprintf("node %q sleeps until %s", p.Node, p.Due.Format(time.RFC3339))
	case SignalPause:
		return fmt.Sprintf("node %q waits for the signal %q%s", p.Node, p.Key, p.until())
	}
	return fmt.Sprintf("node %q asks %s (id %s)%s", p.Node, p.Value, p.ID, p.until())
}

func (p Pause) until() string {
	if p.Due.IsZero() {
		return ""
	}
	return " until " + p.Due.Format(time.RFC3339)
}

// Decode reads the question into v.
func (p Pause) Decode(v any) error { return json.Unmarshal(p.Value, v) }

// InterruptError says that a run has stopped and waits. Pauses are what it waits
// for: questions are answered with Thread.Resume, signals sent with Thread.Signal,
// and treadle.Wake or a server goes on when a time has come. Before and After are the nodes whose
// breakpoint was reached; Thread.Continue passes them. A node of a nested graph
// is named with the node that runs the graph: "research/search".
type InterruptError struct {
	Graph         string
	Pauses        []Pause
	Before, After []string
}

func (e *InterruptError) Error() string {
	var what []string
	for _, p := range e.Pauses {
		what = append(what, p.describe())
	}
	if len(e.Before) > 0 {
		what = append(what, "breakpoint before "+strings.Join(e.Before, ", "))
	}
	if len(e.After) > 0 {
		what = append(what, "breakpoint after "+strings.Join(e.After, ", "))
	}
	return fmt.Sprintf("graph %q: interrupted: %s", e.Graph, strings.Join(what, "; "))
}

// Info describes the run that a node is part of.
type Info struct {
	Graph  string
	Node   string
	Thread string // empty if the run is on no thread
	RunID  string
	TaskID string
	// IdempotencyKey names the task for systems outside, so that they can tell
	// a repeated request from a new one. It is the same over retries, resumes
	// and crashes, and new on a fork. With durability Async it survives a crash
	// only inside Do and tasks, and with Exit not at all, because the checkpoint
	// that it is made from may be lost.
	IdempotencyKey string
	CheckpointID   string   // the checkpoint that the task runs from
	Namespace      []string // of the graph; empty at the root
	Step           int
	RemainingSteps int // until the step limit
	Attempt        int // counted from 1
	FirstAttempt   time.Time
	Deadline       time.Time // of the attempt; zero if it has none
	Tags           []string
	Metadata       map[string]any
	// Config is what the server that runs the graph says about the run, in the
	// shape of LangGraph's config: "configurable" has the ids of thread, run and
	// assistant, what the client put there, and the request's x- headers. It is nil
	// without a server, and it must not be changed.
	Config map[string]any
}

// Edit is one update of a thread, made as if a node had written it.
type Edit struct {
	Values any    // what a node could return; nil writes nothing
	As     string // the node; if it is empty, the node that wrote last, as long as there is only one
}

// RetryPolicy says when and how often a failed call is tried again. Zero fields
// have defaults.
type RetryPolicy struct {
	Initial  time.Duration // the wait after the first failure; 500ms by default
	Factor   float64       // by which the wait grows each time; 2 by default
	Max      time.Duration // the longest wait, without jitter; 128s by default
	Attempts int           // including the first; 3 by default
	NoJitter bool          // leaves out the random addition of up to a second to each wait
	// On reports whether an error is worth another attempt; Transient by default.
	On func(error) bool
}

// Retryable reports whether the policy takes an error for one that is worth
// another attempt.
func (p RetryPolicy) Retryable(err error) bool {
	if p.On == nil {
		return Transient(err)
	}
	return p.On(err)
}

// Wait returns how long to wait after a failed attempt, counted from 1, and
// whether there is another attempt.
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

// Transient reports errors that may be gone at the next attempt: errors of the
// network, timeouts, HTTP 429 and 5xx (by a method StatusCode() int), and errors
// whose method Temporary or Timeout returns true. It is the default of
// RetryPolicy.On.
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

// isNetwork reports errors of connections.
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
