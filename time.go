package treadle

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/pregel"
)

// Signal sends a signal to the thread, where [WaitFor] returns it. The signal is saved when
// Signal returns. If the thread waits for the signal, [Wake] or the server continues the
// thread; otherwise, the signal is kept, and [Thread.Signals] lists it. value may be anything
// that can be encoded as JSON. Signal returns [checkpoint.ErrNotFound] if the thread does not
// exist, and an [*AnswerError] if a node waits for the signal and the value is invalid.
func (t *Thread[In, Out]) Signal(ctx context.Context, name string, value any) error {
	return t.handle.Signal(ctx, name, value)
}

// Signal implements [Thread.Signal].
func (t *handle) Signal(ctx context.Context, name string, value any) error {
	if err := t.check(ctx); err != nil {
		return err
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("graph %q: thread %q: signal %q: cannot encode value as JSON: %w", t.core.Name(), t.id, name, err)
	}
	return t.core.plan.Signal(ctx, t.core.settings(), name, raw)
}

// A Signal is a signal that was sent to a thread and that no [WaitFor] has taken.
type Signal struct {
	Name  string
	Value json.RawMessage // the value passed to [Thread.Signal], as JSON
}

// Signals returns the signals that no [WaitFor] has taken, sorted by name. Signals with the
// same name are in the order in which they were sent. A misspelled name is one reason for
// a signal to stay: no node waits for it. If the thread does not exist, Signals returns an
// empty list.
func (t *Thread[In, Out]) Signals(ctx context.Context) ([]Signal, error) {
	return t.handle.Signals(ctx)
}

// Signals implements [Thread.Signals].
func (t *handle) Signals(ctx context.Context) ([]Signal, error) {
	if err := t.check(ctx); err != nil {
		return nil, err
	}
	pending, err := t.core.plan.Signals(ctx, t.core.settings())
	var out []Signal
	for _, s := range pending {
		out = append(out, Signal(s))
	}
	return out, err
}

// Unfinished yields the threads of the graph with scheduled nodes that wait for
// nothing: their process died, or their run was canceled or failed. After a restart, a
// program continues them before it accepts new work:
//
//	for thread, err := range g.Unfinished(ctx) {
//		if err == nil {
//			_, err = thread.Continue(ctx)
//		}
//		...
//	}
//
// A thread that another process is running looks the same, so only one
// process may do this. The saver must implement [checkpoint.ThreadLister].
func (g *Graph[In, Out]) Unfinished(ctx context.Context) iter.Seq2[*Thread[In, Out], error] {
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
			if err != nil {
				fail(err)
				return
			}
			if w == nil || !w.LeftOf(g.plan) || w.Paused && !w.Failed || !g.plan.Owns(w.Graph) {
				continue
			}
			if !yield(info.Name, nil) {
				return
			}
		}
	}
}

// lister returns the graph's saver, which must be able to list threads.
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
		return nil, nil, fmt.Errorf("saver %T cannot list threads: it must implement checkpoint.ThreadLister", saver)
	}
	return saver, list, nil
}
