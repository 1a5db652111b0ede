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

// Sleep lets a node wait for a duration, of seconds or of months. No process has to run
// meanwhile: until it is time, Sleep returns an error, which the node must return
// ([IsPause] distinguishes it from a failure). The run then ends as with [Interrupt].
// [Wake], or the server, continues the thread at its time: the node runs again from its
// top, and Sleep returns nil.
//
// The time at which the sleep ends is recorded once, so it stays the same if the node
// runs again earlier. Waits are identified by their order, like calls of [Do]: a node
// must wait in the same order each time it runs. Sleep returns an error if d is negative.
// Without a saver or a thread the run fails with [ErrNoSaver] or [ErrNoThread].
func Sleep(ctx context.Context, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("sleep: %v is negative: use treadle.Until for a time that may have passed", d)
	}
	return pregel.Sleep(ctx, func() time.Time { return time.Now().Add(d) })
}

// Until is [Sleep] until a point in time. It returns nil at once if the time has passed.
func Until(ctx context.Context, t time.Time) error {
	return pregel.Sleep(ctx, func() time.Time { return t })
}

// WaitOptions are the options of [WaitFor].
type WaitOptions struct {
	// Deadline ends the wait. After it the thread is continued, and WaitFor returns OnTimeout
	// or, if that is nil, a [*DeadlineError]. Whatever is stored first counts: WaitFor
	// returns a signal that arrives after the deadline and before the thread continues. The
	// time is recorded once, so it may be computed from the current time. If it has passed
	// already, the node does not wait. The zero time means no deadline.
	Deadline  time.Time
	OnTimeout any
}

// WaitFor lets a node wait for a signal, which [Thread.Signal] sends, and returns its value. It waits
// like [Sleep]. A signal that was sent before WaitFor is called is kept for it. Signals of one name are
// taken in the order in which they were sent, each once, and a node that runs again
// gets the same signal again. Nil options mean no deadline.
//
// If the thread already waits for a signal, sending one whose value does not fit T returns an error.
// Otherwise WaitFor fails with an [*AnswerError], and when the thread is
// continued it waits for the next signal.
func WaitFor[T any](ctx context.Context, signal string, opts *WaitOptions) (T, error) {
	var value T
	fits, err := answer.Schema(reflect.TypeFor[T]())
	if err != nil {
		return value, fmt.Errorf("wait for the signal %q: values of type %s: %w", signal, reflect.TypeFor[T](), err)
	}
	if opts == nil {
		opts = &WaitOptions{}
	}
	deadline, err := answer.Deadline(fits, opts.Deadline, opts.OnTimeout)
	if err != nil {
		return value, fmt.Errorf("wait for the signal %q: %w", signal, err)
	}
	raw, err := pregel.WaitFor(ctx, pregel.Asked{Key: signal, Schema: fits, Deadline: deadline})
	if err != nil {
		return value, err
	}
	if raw, err = answer.Fill(reflect.TypeFor[T](), raw); err == nil {
		err = json.Unmarshal(raw, &value)
	}
	if err != nil {
		return value, fmt.Errorf("the signal %q has %s, which is not a %s: %w", signal, raw, reflect.TypeFor[T](), err)
	}
	return value, nil
}
