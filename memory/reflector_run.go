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
	"github.com/treadle-go/treadle/store"
)

var seed = maphash.MakeSeed()

func stripe(key string) uint64 { return maphash.String(seed, key) }

// work runs the current work of a key.
func (r *Reflector[T, R]) work(l *keyState[T, R], w *work[T, R]) {
	ctx, cancel := context.WithCancel(background{context.WithoutCancel(w.ctx)})
	defer cancel()
	defer context.AfterFunc(r.stopped, cancel)()
	if r.journal != nil {
		j := &journaled{r.journal.store, func(ctx context.Context) (bool, error) { return r.erasedRun(ctx, l, w) }}
		// If the journal is unreadable, so is the run's store, and the run fails.
		if erased, err := j.erased(ctx); err == nil && erased {
			r.finish(l)
			w.end(ErrCanceled)
			return
		}
		ctx = context.WithValue(ctx, journaledKey{}, j)
	}
	// Deferred, because the function or Done may call runtime.Goexit.
	var err error
	defer func() {
		r.finish(l)
		w.end(err)
	}()
	defer func() {
		if err = w.err; err == nil || r.stopped.Err() == nil {
			// Otherwise, Close canceled the run, and the journal keeps it.
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

// journaled describes the journal entry of a run. It is stored in the run's context.
type journaled struct {
	store  *store.Store
	erased func(context.Context) (bool, error)
}

type journaledKey struct{}

// journaledOf returns the journal entry of the run that ctx belongs to, or nil.
func journaledOf(ctx context.Context) *journaled {
	j, _ := ctx.Value(journaledKey{}).(*journaled)
	return j
}

// checkErased returns [ErrCanceled] if the journal entry of the run that ctx belongs to
// has been removed.
func checkErased(ctx context.Context) error {
	j := journaledOf(ctx)
	if j == nil {
		return nil
	}
	erased, err := j.erased(ctx)
	if erased {
		return ErrCanceled
	}
	return err
}

// erasedRun reports whether another process has removed w, which is running, from the
// journal. In that case, w.removed is set if a later submit of the key has added a new
// entry.
func (r *Reflector[T, R]) erasedRun(ctx context.Context, l *keyState[T, R], w *work[T, R]) (bool, error) {
	r.mu.Lock()
	removed := w.removed
	r.mu.Unlock()
	if removed {
		return true, nil
	}
	return r.erased(ctx, l.key)
}

// background is a context that hides the graph run that made the submit, because that run
// does not wait for this one. It also hides the reflector run that made the submit, because
// that run has a different journal entry.
type background struct{ context.Context }

// Value returns the values of the submit's context, except the runs.
func (b background) Value(key any) any {
	if key == observe.Key || key == (journaledKey{}) {
		return nil
	}
	return b.Context.Value(key)
}

// call calls the function and converts a panic into an error.
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

// notify calls Done. A panic in Done must not affect other work.
func (r *Reflector[T, R]) notify(key string, result R, err error) {
	defer func() { _ = recover() }()
	r.opts.Done(key, result, err)
}

// removeFromJournal removes finished work from the journal. It locks the key, because
// submits write to the journal too.
func (r *Reflector[T, R]) removeFromJournal(l *keyState[T, R], w *work[T, R]) error {
	if r.journal == nil {
		return nil
	}
	defer r.lockKey(l.key)()
	// Close waits for this, but not forever if the store does not respond.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer context.AfterFunc(r.stopped, func() {
		select {
		case <-time.After(removeTimeout):
			cancel()
		case <-ctx.Done():
		}
	})()
	erased, err := r.erasedRun(ctx, l, w)
	r.mu.Lock()
	disowned := w.removed // waiting was submitted after the erasure
	w.removed = true
	waiting := l.waiting
	if erased && !disowned && waiting != nil {
		r.unschedule(l)
		if !r.closed {
			waiting.end(ErrCanceled)
		}
		waiting = nil
	}
	r.mu.Unlock()
	if err == nil {
		err = r.record(ctx, l, waiting)
	}
	if err != nil {
		return fmt.Errorf("work done but not removed from the store: a restart repeats it: %w", err)
	}
	return nil
}

// removeTimeout is the maximum time that a journal removal may take after Close.
const removeTimeout = 10 * time.Second

// finish makes the key ready for its next work.
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

// Cancel cancels the pending work of the key and reports whether there was any. It does not
// affect a run that has already started.
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
	next.end(ErrCanceled)
	next = nil
	return true, nil
}

// drop cancels the pending work that match selects, and waits for active runs of such work.
// It returns the number of both. If dry is set, it only counts.
func (r *Reflector[T, R]) drop(ctx context.Context, dry bool, match func(key string, payload T) bool) (n int, err error) {
	var pending []string
	var running []*Reflection[R]
	r.mu.Lock()
	for key, l := range r.keys {
		if l.waiting != nil && match(key, l.waiting.payload) {
			pending = append(pending, key)
		}
		if l.current != nil && match(key, l.current.payload) {
			running = append(running, l.current.Reflection)
		}
	}
	r.mu.Unlock()
	n = len(pending) + len(running)
	if dry {
		return n, nil
	}
	var errs []error
	for _, key := range pending {
		_, err := r.Cancel(ctx, key)
		errs = append(errs, err)
	}
	for _, one := range running {
		select {
		case <-one.done: // its error is reported by its Reflection
		case <-ctx.Done():
			errs = append(errs, context.Cause(ctx))
		}
	}
	return n, errors.Join(errs...)
}

// Flush starts the pending work of the given keys, or of all keys if none are given, and
// waits for it and for active runs. It returns the errors of the runs.
func (r *Reflector[T, R]) Flush(ctx context.Context, keys ...string) error {
	return wait(ctx, r.unfinished(true, keys))
}

// Drain waits until no work is pending or running. Pending work runs when it is due; to run
// it immediately, use [Reflector.Flush]. Drain does not return the errors of the runs; see
// [Reflection.Wait].
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

// unfinished returns the unfinished work of the keys. If urgent is set, it makes pending
// work due.
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

// Close stops the reflector. It waits for active runs and drops pending work, whose
// reflections end with [ErrClosed]. A durable reflector keeps the pending work in the store
// for the next process; otherwise, Close returns an error that lists the keys with dropped
// work. To run the pending work first, call [Reflector.Flush] or [Reflector.Drain].
//
// When ctx ends, Close cancels the contexts of active runs. It returns after all runs have
// returned.
func (r *Reflector[T, R]) Close(ctx context.Context) error {
	dropped := r.close()
	release := context.AfterFunc(ctx, r.stop)
	r.wg.Wait()
	release()
	r.stop()
	if len(dropped) > 0 && r.journal == nil {
		slices.Sort(dropped)
		return fmt.Errorf("%w with pending work of keys %q: call Flush or Drain before Close", ErrClosed, dropped)
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
			l.waiting = w // record writes it to the journal again
			w.end(ErrClosed)
			dropped = append(dropped, key)
		}
	}
	return dropped
}
