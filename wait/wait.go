// Package wait lets a node wait for a time or for a signal, for seconds or for months.
// No process has to run meanwhile.
//
//	if err := wait.Sleep(ctx, 24*time.Hour); err != nil {
//		return Order{}, err
//	}
//	paid, err := wait.For[Payment](ctx, "payment", nil)
//
// Until it is time, the functions of this package return an error, which the node must
// return; treadle.IsPause distinguishes it from a failure. After it, tasks and further
// waits of the node return the same error without running. The run then ends as with an
// interrupt, and the process can end too.
// treadle.Wake, or the server, continues the thread: the node runs again from its top,
// and the call that waited returns. Without a saver or a thread the run fails with
// treadle.ErrNoSaver or treadle.ErrNoThread.
//
// Calls are told apart by their order, like those of treadle.Do: a node must make them in
// the same order each time it runs.
package wait

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/treadle-go/treadle/internal/answer"
	"github.com/treadle-go/treadle/internal/pregel"
)

// Sleep waits for a duration. When the sleep ends is recorded once, so it does not move
// when the node runs again before. A negative duration is an error.
func Sleep(ctx context.Context, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("sleep: %v is negative: use wait.Until for a time that may have passed", d)
	}
	return pregel.Sleep(ctx, func() time.Time { return time.Now().Add(d) })
}

// Until waits until a time. It returns nil at once if the time has passed.
func Until(ctx context.Context, t time.Time) error {
	return pregel.Sleep(ctx, func() time.Time { return t })
}

// Options are the options of [For].
type Options struct {
	// Deadline ends the wait. After it the thread is continued and For returns OnTimeout
	// or, if that is nil, a *treadletype.DeadlineError. What was stored first counts: a
	// signal that comes after the deadline and before the thread has gone on is still
	// taken. The time is recorded once, so it may be computed from the present time. If it
	// has passed already, the node does not wait. Zero: for ever.
	Deadline  time.Time
	OnTimeout any
}

// For waits for a signal, which Thread.Signal sends, and returns its value. A signal that
// was sent before For is called waits for it. Signals of one name are taken in the order
// in which they were sent, each once, and a node that runs again gets the same signal
// again. No options are nil.
//
// A signal whose value does not fit T is refused when it is sent, if the thread waits for
// it then. Otherwise For fails with a *treadletype.AnswerError, and when the thread is
// continued it waits for the next one.
func For[T any](ctx context.Context, signal string, o *Options) (T, error) {
	var value T
	fits, err := answer.Schema(reflect.TypeFor[T]())
	if err != nil {
		return value, fmt.Errorf("wait for the signal %q: values of type %s: %w", signal, reflect.TypeFor[T](), err)
	}
	if o == nil {
		o = &Options{}
	}
	deadline, err := answer.Deadline(fits, o.Deadline, o.OnTimeout)
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
