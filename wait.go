package treadle

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/treadle-go/treadle/internal/answer"
	"github.com/treadle-go/treadle/internal/pregel"
)

// Sleep stops a node for a duration, from seconds to months. No process needs to run while
// the node sleeps. Until the time has come, Sleep returns an error, which the node must
// return ([IsPause] distinguishes it from a failure), and the run ends as with [Interrupt].
// [Wake], or the server, then continues the thread: the node runs again from the top, and
// Sleep returns nil.
//
// The time at which the sleep ends is recorded once, so it stays the same if the node
// runs again earlier. Waits are identified by their order, like calls of [Do]: a node
// must wait in the same order each time it runs. Sleep returns an error if d is negative.
// Without a saver or a thread, the run fails with [ErrNoSaver] or [ErrNoThread].
func Sleep(ctx context.Context, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("sleep: negative duration %v: use treadle.Until for a time that may have passed", d)
	}
	return pregel.Sleep(ctx, func() time.Time { return time.Now().Add(d) })
}

// Until is like [Sleep], but takes a point in time. It returns nil immediately if the time
// has passed.
func Until(ctx context.Context, t time.Time) error {
	return pregel.Sleep(ctx, func() time.Time { return t })
}

// WaitOptions configures [WaitFor]. A nil *WaitOptions means no deadline.
type WaitOptions struct {
	// Deadline ends the wait. [Wake], or the server, then continues the thread, and WaitFor
	// returns OnTimeout or, if that is nil, a [*DeadlineError]. A signal that arrives after the
	// deadline and before the thread continues is still accepted. The time is recorded once, so
	// it may be computed from the current time. If it has already passed, the node does not
	// wait. The zero time means no deadline.
	Deadline time.Time
	// OnTimeout is the value that WaitFor returns if no signal arrives before the Deadline.
	OnTimeout any
}

// WaitFor waits for a signal sent with [Thread.Signal] and returns its value. It stops the
// node like [Sleep]. A signal sent before the call to WaitFor is kept for it. Signals with the
// same name are taken in the order in which they were sent, each once, and a node that runs
// again gets the same signal again.
//
// While a thread waits, Thread.Signal rejects a value that does not match T. If an invalid
// value was sent earlier, WaitFor returns an [*AnswerError], and when the thread is continued,
// it waits for the next signal.
func WaitFor[T any](ctx context.Context, signal string, opts *WaitOptions) (T, error) {
	var value T
	fits, err := answer.Schema(reflect.TypeFor[T]())
	if err != nil {
		return value, fmt.Errorf("wait for signal %q: value type %s: %w", signal, reflect.TypeFor[T](), err)
	}
	if opts == nil {
		opts = &WaitOptions{}
	}
	deadline, err := answer.Deadline(fits, opts.Deadline, opts.OnTimeout)
	if err != nil {
		return value, fmt.Errorf("wait for signal %q: %w", signal, err)
	}
	raw, err := pregel.WaitFor(ctx, pregel.Asked{Key: signal, Schema: fits, Deadline: deadline})
	if err != nil {
		return value, err
	}
	if raw, err = answer.Fill(reflect.TypeFor[T](), raw); err == nil {
		err = json.Unmarshal(raw, &value)
	}
	if err != nil {
		return value, fmt.Errorf("signal %q: value %s is not a %s: %w", signal, raw, reflect.TypeFor[T](), err)
	}
	return value, nil
}
