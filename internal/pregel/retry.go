package pregel

import (
	"context"
	"fmt"
	"time"

	"github.com/treadle-go/treadle/internal/caught"
	"github.com/treadle-go/treadle/internal/delay"
	"github.com/treadle-go/treadle/internal/observe"
)

// Tried describes the attempts of a task that was attempted more than once.
type Tried struct {
	Attempts int     `json:"attempts"`
	Retries  []Retry `json:"retries"` // the first failed attempts, at most maxRetries
}

// Retry is a failed attempt that was retried.
type Retry struct {
	Error string    `json:"error"`
	Began time.Time `json:"started_at"`
	Ended time.Time `json:"ended_at"`
}

// maxRetries limits the failed attempts recorded per task. A policy may allow many
// more.
const maxRetries = 20

// retry waits for the backoff after err and returns the scope of the next attempt.
// If there is no next attempt, the scope is nil and bad is the task's error. The
// span is nil if the run is not traced.
func (t *Task) retry(ctx context.Context, sc *scope, err error) (next *scope, span observe.Span, bad error) {
	ended := time.Now()
	pause, again, err := t.node.retryAfter(err, int(sc.attempt))
	if !again || delay.For(ctx, pause) != nil {
		return nil, nil, err
	}
	t.noteRetry(sc, err, ended)
	next = &scope{Context: ctx, task: t, attempt: sc.attempt + 1, span: sc.span}
	return next, t.traceRetry(next, err, pause), nil
}

// noteRetry records a failed attempt for the task's events and its saved result.
func (t *Task) noteRetry(sc *scope, err error, ended time.Time) {
	a := t.needExtras()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.tried == nil {
		a.tried, a.since = &Tried{}, ended
		if t.began != 0 {
			a.since = time.Unix(0, t.began)
		}
	}
	a.tried.Attempts = int(sc.attempt) + 1
	if len(a.tried.Retries) < maxRetries {
		a.tried.Retries = append(a.tried.Retries, Retry{textOf(err), a.since.UTC(), ended.UTC()})
	}
	a.since = time.Now()
}

// tried returns the attempts of the task, or nil if there was only one.
func (t *Task) tried() *Tried {
	a := t.extras.Load()
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.tried == nil {
		return nil
	}
	out := *a.tried // an abandoned attempt may still be running
	return &out
}

// retryAfter reports whether to retry after err, and after what delay. The first
// policy that matches the error decides. bad is err, or the error of a policy that
// panicked.
func (n *node) retryAfter(err error, attempt int) (wait time.Duration, again bool, bad error) {
	defer func() {
		if p := recover(); p != nil {
			wait, again, bad = 0, false, &undecidedError{caught.New("retry policy: ", p), err}
		}
	}()
	for i := range n.Retry {
		if p := n.Retry[i]; p.Retryable(err) {
			wait, again = p.Wait(attempt)
			return wait, again, err
		}
	}
	return 0, false, err
}

// undecidedError reports the panic of a retry policy, together with the node's
// failure.
type undecidedError struct{ err, failure error }

func (e *undecidedError) Error() string { return fmt.Sprintf("%v (asked about: %v)", e.err, e.failure) }

func (e *undecidedError) Unwrap() []error { return []error{e.err, e.failure} }
