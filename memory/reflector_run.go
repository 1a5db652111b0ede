package memory

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"runtime/debug"
	"slices"
	"time"

	"github.com/treadle-go/treadle/internal/observe"
)

var seed = maphash.MakeSeed()

func stripe(key string) uint64 { return maphash.String(seed, key) }

// work runs the current work of a key.
func (r *Reflector[T, R]) work(l *keyState[T, R], w *work[T, R]) {
	ctx, cancel := context.WithCancel(background{context.WithoutCancel(w.ctx)})
	defer cancel()
	defer context.AfterFunc(r.stopped, cancel)()
	// Deferred, since the function may end the goroutine, and so may Done.
	var err error
	defer func() {
		r.finish(l)
		w.end(err)
	}()
	defer func() {
		if err = w.err; err == nil || r.stopped.Err() == nil {
			// Otherwise it was stopped halfway, and the journal keeps it.
			if failed := r.removeFromJournal(l, w); failed != nil {
				err = errors.Join(err, failed)
			}
		}
		if r.opts.Done != nil {
			r.notify(l.key, w.result, err)
		}
	}()
	r.call(ctx, l.key, w)
}

// background hides the graph's run in which a submit was made, which does not
// wait for this one.
type background struct{ context.Context }

// Value is that of the submit's context, but for the run.
func (b background) Value(key any) any {
	if key == observe.Key {
		return nil
	}
	return b.Context.Value(key)
}

// call calls the function, whatever it does.
func (r *Reflector[T, R]) call(ctx context.Context, key string, w *work[T, R]) {
	returned := false
	defer func() {
		if v := recover(); !returned {
			w.err = &PanicError{key, v, string(debug.Stack())}
		}
	}()
	w.result, w.err = r.run(ctx, key, w.payload)
	returned = true
}

// tell tells the one who wants to know. Their panic must not end others' work.
func (r *Reflector[T, R]) notify(key string, result R, err error) {
	defer func() { _ = recover() }()
	r.opts.Done(key, result, err)
}

// strike takes work that has run off the journal. It holds up submits of the key,
// which write there too.
func (r *Reflector[T, R]) removeFromJournal(l *keyState[T, R], w *work[T, R]) error {
	if r.journal == nil {
		return nil
	}
	defer r.lockKey(l.key)()
	r.mu.Lock()
	w.removed = true
	waiting := l.waiting
	r.mu.Unlock()
	// A close waits for it, but not for a store that does not answer.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer context.AfterFunc(r.stopped, func() {
		select {
		case <-time.After(removeTimeout):
			cancel()
		case <-ctx.Done():
		}
	})()
	if err := r.record(ctx, l, waiting); err != nil {
		return fmt.Errorf("the work has run but could not be removed off, and a restart will repeat it: %w", err)
	}
	return nil
}

// removeTimeout is how long the store of a reflector that is closed may take.
const removeTimeout = 10 * time.Second

// finish makes the key free for its next work.
func (r *Reflector[T, R]) finish(l *keyState[T, R]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.current = nil
	r.active--
	if l.waiting != nil && l.waiting.isDue {
		r.ready = append(r.ready, l)
	}
	r.start()
	r.deleteIdle(l)
}

// Cancel calls off what is pending for the key, and reports whether there was
// anything. What is running already is not disturbed.
func (r *Reflector[T, R]) Cancel(ctx context.Context, key string) (bool, error) {
	if key == "" {
		return false, ErrNoKey
	}
	defer r.lockKey(key)()
	l, next, err := r.takeWaiting(key)
	if err != nil {
		return false, err
	}
	defer func() { r.putWaiting(l, next) }()
	if next == nil {
		return false, nil
	}
	if err := r.record(ctx, l, nil); err != nil {
		return false, err
	}
	next.end(ErrCancelled)
	next = nil
	return true, nil
}

// Flush runs what is pending now, for these keys or for all if none is given, and
// waits for it and for what is running. It returns the errors of the runs.
func (r *Reflector[T, R]) Flush(ctx context.Context, keys ...string) error {
	return wait(ctx, r.unfinished(true, keys))
}

// Drain waits until nothing is pending or running any more. Everything runs at
// its time; to have it run now, [Reflector.Flush]. The errors of the runs are not
// returned: ask the [Reflection] of each.
func (r *Reflector[T, R]) Drain(ctx context.Context) error {
	for {
		all := r.unfinished(false, nil)
		if len(all) == 0 {
			return nil
		}
		for _, one := range all {
			if _, err := one.Wait(ctx); err != nil && ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
	}
}

// covered is all work of these keys that has not ended, due at once if it is
// urgent.
func (r *Reflector[T, R]) unfinished(urgent bool, keys []string) (all []*Reflection[R]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, l := range r.keys {
		if len(keys) > 0 && !slices.Contains(keys, key) {
			continue
		}
		if l.current != nil {
			all = append(all, l.current.Reflection)
		}
		if w := l.waiting; w != nil && !r.closed {
			all = append(all, w.Reflection)
			if urgent && !w.urgent {
				r.unschedule(l)
				w.urgent = true
				r.schedule(l, w)
			}
		}
	}
	return all
}

func wait[R any](ctx context.Context, all []*Reflection[R]) error {
	var errs []error
	for _, one := range all {
		_, err := one.Wait(ctx)
		if ctx.Err() != nil {
			return errors.Join(append(errs, context.Cause(ctx))...)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Close takes no more work, waits for what is running and gives up what is
// pending: its reflections end with [ErrClosed], and nothing of it runs before its
// time. A durable reflector keeps it in the store, for the next one; otherwise
// Close returns an error that names the keys: [Reflector.Flush] or
// [Reflector.Drain] before Close lets it run.
//
// When ctx ends, the contexts of the runs under way are cancelled. Close returns
// when all have returned.
func (r *Reflector[T, R]) Close(ctx context.Context) error {
	dropped := r.close()
	release := context.AfterFunc(ctx, r.stop)
	r.wg.Wait()
	release()
	r.stop()
	if len(dropped) > 0 && r.journal == nil {
		slices.Sort(dropped)
		return fmt.Errorf("%w, and the pending work of these keys has not run: %q: call Flush or Drain before Close", ErrClosed, dropped)
	}
	return nil
}

func (r *Reflector[T, R]) close() (dropped []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	for key, l := range r.keys {
		if w := l.waiting; w != nil {
			r.unschedule(l)
			l.waiting = w // for the journal, which keeps it
			w.end(ErrClosed)
			dropped = append(dropped, key)
		}
	}
	return dropped
}
