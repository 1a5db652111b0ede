package treadle

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"reflect"
	"time"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/pregel"
)

// Sleep waits, for seconds or for months, and costs nothing meanwhile: until the time
// has come it returns an error, which the node must return. The run then ends as with a
// question, and the process may end too. [Wake], or the server, continues the
// thread when the time has come: the node runs again from its top and Sleep returns
// nil. When the sleep ends is recorded once, so it does not move when the node runs
// again before. Without a saver or a thread the run fails with [ErrNoSaver] or
// [ErrNoThread]. A negative duration is an error.
//
// Calls of Sleep and of [WaitFor] count as those of [Do]: a node must make them in the
// same order each time it runs.
func Sleep(ctx context.Context, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("sleep: %v is negative: use SleepUntil for a time that may have passed", d)
	}
	return pregel.Sleep(ctx, func() time.Time { return time.Now().Add(d) })
}

// SleepUntil is [Sleep] until a time. It returns nil at once if the time has passed.
func SleepUntil(ctx context.Context, t time.Time) error {
	return pregel.Sleep(ctx, func() time.Time { return t })
}

// A WaitOption configures [Interrupt] and [WaitFor].
type WaitOption interface{ wait(*waiting) }

type waitOption func(*waiting)

func (f waitOption) wait(w *waiting) { f(w) }

// waiting is what the options of a wait say.
type waiting struct {
	deadline  *pregel.Deadline
	onTimeout any
}

// Deadline ends the wait for an answer or a signal. After t the thread is continued,
// by [Wake] or the server, and the node gets onTimeout in place of the answer; if it
// is nil, a [*treadletype.DeadlineError]. What was stored first counts: an answer that
// comes after t and before the thread has gone on is still taken. t is recorded once,
// so it may be computed from the present time. If it has passed already, the node
// does not wait.
func Deadline(t time.Time, onTimeout any) WaitOption {
	return waitOption(func(w *waiting) { w.deadline, w.onTimeout = &pregel.Deadline{At: t}, onTimeout })
}

// deadlineOf returns the deadline that the options set, whose default must fit.
func deadlineOf(fits json.RawMessage, opts []WaitOption) (*pregel.Deadline, error) {
	var w waiting
	for i, o := range opts {
		if o == nil {
			return nil, fmt.Errorf("option %d of %d is nil", i+1, len(opts))
		}
		o.wait(&w)
	}
	if w.deadline == nil || w.onTimeout == nil {
		return w.deadline, nil
	}
	raw, err := json.Marshal(w.onTimeout)
	if err != nil {
		return nil, fmt.Errorf("deadline: onTimeout has no JSON: %w", err)
	}
	if err := pregel.Fits(fits, raw); err != nil {
		return nil, fmt.Errorf("deadline: onTimeout %s does not fit: %w", raw, err)
	}
	w.deadline.Default = raw
	return w.deadline, nil
}

// WaitFor waits for a signal, which [Thread.Signal] sends, and returns its value. Until
// a signal of the name is there it returns an error, which the node must return, as
// with [Sleep]. A signal that was sent before WaitFor is called waits for it. Signals
// of one name are taken in the order in which they were sent, each once, and a node
// that runs again gets the same signal again.
//
// A signal whose value does not fit T is refused when it is sent, if the thread
// waits for it then. Otherwise WaitFor fails with a [*treadletype.AnswerError], and
// when the thread is continued it waits for the next one.
func WaitFor[T any](ctx context.Context, name string, opts ...WaitOption) (T, error) {
	var value T
	fits, err := answerSchema(reflect.TypeFor[T]())
	if err != nil {
		return value, fmt.Errorf("wait for the signal %q: values of type %s: %w", name, reflect.TypeFor[T](), err)
	}
	deadline, err := deadlineOf(fits, opts)
	if err != nil {
		return value, fmt.Errorf("wait for the signal %q: %w", name, err)
	}
	raw, err := pregel.WaitFor(ctx, pregel.Asked{Key: name, Schema: fits, Deadline: deadline})
	if err != nil {
		return value, err
	}
	if raw, err = withDefaults(reflect.TypeFor[T](), raw); err == nil {
		err = json.Unmarshal(raw, &value)
	}
	if err != nil {
		return value, fmt.Errorf("the signal %q has %s, which is not a %s: %w", name, raw, reflect.TypeFor[T](), err)
	}
	return value, nil
}

// Signal sends a signal to the thread, which [WaitFor] returns. It is stored when
// Signal returns. If the thread waits for it, [Wake] or the server continues it; if
// not, the signal waits. The value is any that has JSON. A thread that does not
// exist is [checkpoint.ErrNotFound]; a value that a node which waits for it does not
// take is a [*treadletype.AnswerError].
func (t *handle) Signal(ctx context.Context, name string, value any) error {
	if err := t.check(ctx); err != nil {
		return err
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("graph %q: thread %q: signal %q: the value has no JSON: %w", t.core.Name(), t.id, name, err)
	}
	return t.core.plan.Signal(ctx, t.core.settings(), name, raw)
}

// Unfinished yields the threads of the graph that have nodes to run and wait for
// nothing: those whose process died or whose run was cancelled or failed. Continue goes on
// with them. A program that was restarted looks for them before it takes new work:
//
//	for thread, err := range treadle.Unfinished(ctx, g) {
//		if err == nil {
//			_, err = thread.Continue(ctx)
//		}
//		...
//	}
//
// A thread that another process runs at the moment looks the same, so only one
// process may do this. The saver must be a [checkpoint.ThreadLister].
func Unfinished[In, Out any](ctx context.Context, g *Graph[In, Out]) iter.Seq2[*Thread[In, Out], error] {
	return func(yield func(*Thread[In, Out], error) bool) {
		for id, err := range g.unfinished(ctx) {
			var t *Thread[In, Out]
			if err == nil {
				t = g.Thread(id)
			}
			if !yield(t, err) || err != nil {
				return
			}
		}
	}
}

func (g *core) unfinished(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		fail := func(err error) { yield("", fmt.Errorf("graph %q: unfinished threads: %w", g.Name(), err)) }
		saver, list, err := g.lister(ctx)
		if err != nil {
			fail(err)
			return
		}
		for info, err := range list.Threads(ctx) {
			var w *pregel.Waiting
			if err == nil {
				w, err = pregel.WaitingOf(ctx, saver, info.Name)
			}
			switch {
			case err != nil:
				fail(err)
				return
			case w == nil || !w.Left || w.Paused && !w.Failed || !g.plan.Owns(w.Graph):
			case !yield(info.Name, nil):
				return
			}
		}
	}
}

// lister returns the graph's saver, which must list its threads.
func (g *core) lister(ctx context.Context) (checkpoint.Saver, checkpoint.ThreadLister, error) {
	if ctx == nil {
		return nil, nil, pregel.ErrNilContext
	}
	saver := g.base.Saver
	if saver == nil {
		return nil, nil, ErrNoSaver
	}
	list, ok := saver.(checkpoint.ThreadLister)
	if !ok {
		return nil, nil, fmt.Errorf("the saver %T does not list its threads: it needs the method of checkpoint.ThreadLister", saver)
	}
	return saver, list, nil
}
