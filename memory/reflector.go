package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Errors returned by a [Reflector].
var (
	// ErrNoKey is returned when the key is empty.
	ErrNoKey = errors.New("memory: reflector: empty key: use the ID of a thread or user")
	// ErrCanceled is returned for work that [Reflector.Cancel] or an [Erasure] canceled.
	ErrCanceled = errors.New("memory: reflector: work canceled before it ran")
	// ErrClosed is returned when the reflector is closed.
	ErrClosed = errors.New("memory: reflector closed")
)

// PanicError reports work that panicked or called runtime.Goexit.
type PanicError struct {
	Key   string
	Value any
	Stack string
}

func (e *PanicError) Error() string {
	if e.Value == nil {
		return fmt.Sprintf("memory: reflector: work of key %q ended its goroutine with runtime.Goexit\n%s", e.Key, e.Stack)
	}
	return fmt.Sprintf("memory: reflector: work of key %q panicked: %v\n%s", e.Key, e.Value, e.Stack)
}

// ReflectorOptions configures a [Reflector]. A nil *ReflectorOptions means the defaults.
type ReflectorOptions[T, R any] struct {
	// Workers is the maximum number of concurrent runs; 0 means 4.
	Workers int
	// Merge merges a pending payload with a new one for the same key. Nil means the
	// payload's method Reduce, if it has one, like [llm.Messages]; otherwise the new
	// payload replaces the old one. Merge must not call the reflector.
	Merge func(before, now T) (T, error)
	// Done is called after each run, but not for canceled work. It is the only way to get
	// the result of work resumed from an earlier process. Like a run, Done may submit work
	// but must not wait for the reflector.
	Done func(key string, result R, err error)
}

// A Reflector runs a function in the background for the payloads submitted under a key,
// once none has been submitted for a while. A key is usually a thread ID. It is safe for
// concurrent use.
//
// Each key has at most one run at a time, in the order of the submits; runs of different
// keys are concurrent, up to Workers. Each submit is covered by exactly one run, whose
// result [Reflection.Wait] returns.
//
// A Reflector uses package time, so tests can use testing/synctest.
type Reflector[T, R any] struct {
	run     func(ctx context.Context, key string, payload T) (R, error)
	opts    ReflectorOptions[T, R]
	journal *journal[T] // nil if pending work does not survive the process

	stop    context.CancelFunc // cancels the active runs
	stopped context.Context
	wg      sync.WaitGroup // active runs

	// keyLocks serialize changes to a key while the journal is written.
	keyLocks [64]sync.Mutex

	mu     sync.Mutex
	keys   map[string]*keyState[T, R]
	ready  []*keyState[T, R] // keys with due work, in order
	active int               // number of active runs
	closed bool
}

// keyState is the state of a key that is not idle.
//
//	        Submit             due, a worker is free
//	idle ──────────▶ scheduled ─────────────────────▶ running ── ends ──▶ idle
//	  ▲               │  ▲  ⟲ Submit                   │  ▲
//	  └─── Cancel ────┘  │                      Submit │  │ Cancel
//	                     │                             ▼  │
//	                     └──────────── ends ──── running + dirty  ⟲ Submit
//
// ⟲ merges the payloads and restarts the wait. Work that became due while its key was
// running is due immediately when scheduled. waiting is set when scheduled, current when
// running, and both when dirty.
type keyState[T, R any] struct {
	key     string
	current *work[T, R]
	waiting *work[T, R]
}

// work is the input and state of one run.
type work[T, R any] struct {
	*Reflection[R]
	ctx     context.Context // from the last submit
	payload T
	due     time.Time
	timer   *time.Timer
	isDue   bool
	urgent  bool // flushed: later submits do not delay it
	removed bool // has run and is no longer in the journal
}

// A Reflection is submitted work. [Reflection.Wait] returns its result.
type Reflection[R any] struct {
	done   chan struct{}
	result R
	err    error
}

// Wait waits for the run that covers the submit and returns its result. It may also return
// [ErrCanceled], [ErrClosed], or a [*PanicError].
func (r *Reflection[R]) Wait(ctx context.Context) (R, error) {
	select {
	case <-r.done:
		return r.result, r.err
	default:
	}
	select {
	case <-r.done:
		return r.result, r.err
	case <-ctx.Done():
		return *new(R), context.Cause(ctx)
	}
}

func (r *Reflection[R]) end(err error) {
	r.err = err
	close(r.done)
}

// NewReflector returns a reflector whose pending work is lost when the process ends; see
// [OpenReflector] for a durable one. Close it after use.
//
// The context of a run carries the values of the last submit's context; only
// [Reflector.Close] cancels it. The run is not part of the graph run that made the submit,
// so its tokens do not appear in that run's stream.
func NewReflector[T, R any](run func(ctx context.Context, key string, payload T) (R, error), opts *ReflectorOptions[T, R]) (*Reflector[T, R], error) {
	if run == nil {
		return nil, errors.New("memory: reflector: nil function")
	}
	r := &Reflector[T, R]{run: run, keys: map[string]*keyState[T, R]{}}
	if opts != nil {
		r.opts = *opts
	}
	if r.opts.Workers < 0 {
		return nil, fmt.Errorf("memory: reflector: invalid ReflectorOptions.Workers %d: want 1 or more, or 0 for 4", r.opts.Workers)
	}
	r.opts.Workers = cmp.Or(r.opts.Workers, 4)
	if r.opts.Merge == nil {
		r.opts.Merge = reduce[T]
	}
	r.stopped, r.stop = context.WithCancel(context.Background())
	return r, nil
}

// reduce merges payloads like the state of a graph.
func reduce[T any](before, now T) (T, error) {
	switch v := any(before).(type) {
	case interface{ Reduce(T) (T, error) }:
		return v.Reduce(now)
	case interface{ Reduce(T) T }:
		return v.Reduce(now), nil
	}
	return now, nil
}

// Submit schedules a run with the payload after the given delay. If work is pending for the
// key, Submit merges the two payloads and restarts the wait. A run that has already started
// is not affected: the new payload runs after it.
//
// If the reflector is durable, the payload is stored when Submit returns without an error.
// Do not modify the payload after Submit.
func (r *Reflector[T, R]) Submit(ctx context.Context, key string, payload T, after time.Duration) (*Reflection[R], error) {
	if key == "" {
		return nil, ErrNoKey
	}
	defer r.lockKey(key)()
	l, next, err := r.takeWaiting(key)
	if err != nil {
		return nil, err
	}
	defer func() { r.putWaiting(l, next) }()
	if next != nil || r.recording(l) {
		erased, err := r.erased(ctx, l.key)
		if err != nil {
			return nil, err
		}
		if erased {
			r.disown(l)
			if next != nil {
				next.end(ErrCanceled)
				next = nil
			}
		}
	}
	w := &work[T, R]{Reflection: &Reflection[R]{done: make(chan struct{})}, ctx: keepSource(ctx), payload: payload, due: time.Now().Add(after)}
	if next != nil {
		if w.payload, err = r.opts.Merge(next.payload, payload); err != nil {
			return nil, fmt.Errorf("memory: reflector: merge work of key %q: %w", key, err)
		}
		w.Reflection, w.urgent = next.Reflection, next.urgent
	}
	if err := r.record(ctx, l, w); err != nil {
		return nil, err
	}
	next = w
	return w.Reflection, nil
}

// lockKey waits until no other change to the key is in progress, and returns a function
// that unlocks the key.
func (r *Reflector[T, R]) lockKey(key string) (unlock func()) {
	mu := &r.keyLocks[stripe(key)%uint64(len(r.keyLocks))]
	mu.Lock()
	return mu.Unlock
}

// takeWaiting removes the waiting work of a key from the schedule, so that it does not
// start while it is being changed. putWaiting puts it back.
func (r *Reflector[T, R]) takeWaiting(key string) (*keyState[T, R], *work[T, R], error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, nil, ErrClosed
	}
	l := r.keys[key]
	if l == nil {
		l = &keyState[T, R]{key: key}
		r.keys[key] = l
	}
	old := l.waiting
	if old != nil {
		r.unschedule(l)
	}
	return l, old, nil
}

// record writes the work of a key to the journal: the running work, and w.
func (r *Reflector[T, R]) record(ctx context.Context, l *keyState[T, R], w *work[T, R]) error {
	if r.journal == nil {
		return nil
	}
	e := entry[T]{}
	r.mu.Lock()
	if l.current != nil && !l.current.removed {
		e.Running = &l.current.payload
	}
	r.mu.Unlock()
	if w != nil {
		e.Pending, e.Due = &w.payload, w.due
	}
	return r.journal.write(ctx, l.key, e)
}

// recording reports whether the journal contains the running work of a key.
func (r *Reflector[T, R]) recording(l *keyState[T, R]) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return l.current != nil && !l.current.removed
}

// disown keeps the running work of a key out of the journal.
func (r *Reflector[T, R]) disown(l *keyState[T, R]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.current != nil {
		l.current.removed = true
	}
}

// erased reports whether the journal entry of a key is missing although its work has not
// run yet, which means that another process removed the entry; see [Erasure].
func (r *Reflector[T, R]) erased(ctx context.Context, key string) (bool, error) {
	if r.journal == nil {
		return false, nil
	}
	there, err := r.journal.has(ctx, key)
	return err == nil && !there, err
}

// putWaiting schedules w, if it is not nil.
func (r *Reflector[T, R]) putWaiting(l *keyState[T, R], w *work[T, R]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys[l.key] = l // the run may have ended and deleted the key in the meantime
	switch {
	case w == nil:
		r.deleteIdle(l)
	case r.closed: // in the meantime
		l.waiting = w
		w.end(ErrClosed)
	default:
		r.schedule(l, w)
	}
}

// The following methods are called with mu held.

// schedule makes w the waiting work, which starts when it is due.
func (r *Reflector[T, R]) schedule(l *keyState[T, R], w *work[T, R]) {
	l.waiting = w
	wait := time.Until(w.due)
	if wait <= 0 || w.urgent {
		r.markDue(l)
		return
	}
	// A timer that fires after its work was replaced does nothing.
	w.timer = time.AfterFunc(wait, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if l.waiting == w && !w.isDue {
			r.markDue(l)
		}
	})
}

// unschedule removes the waiting work.
func (r *Reflector[T, R]) unschedule(l *keyState[T, R]) {
	if l.waiting.timer != nil {
		l.waiting.timer.Stop()
	}
	l.waiting.isDue = false
	l.waiting = nil
	r.ready = slices.DeleteFunc(r.ready, func(o *keyState[T, R]) bool { return o == l })
}

// markDue makes the waiting work ready to start.
func (r *Reflector[T, R]) markDue(l *keyState[T, R]) {
	l.waiting.isDue = true
	if l.current == nil {
		r.ready = append(r.ready, l)
		r.start()
	}
}

// start starts ready work while there are free workers.
func (r *Reflector[T, R]) start() {
	for len(r.ready) > 0 && r.active < r.opts.Workers && !r.closed {
		l := r.ready[0]
		r.ready = slices.Delete(r.ready, 0, 1)
		l.current, l.waiting = l.waiting, nil
		r.active++
		r.wg.Go(func() { r.work(l, l.current) })
	}
}

// deleteIdle deletes a key that has no work.
func (r *Reflector[T, R]) deleteIdle(l *keyState[T, R]) {
	if l.current == nil && l.waiting == nil && r.keys[l.key] == l {
		delete(r.keys, l.key)
	}
}
