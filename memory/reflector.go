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

// Errors of a [Reflector].
var (
	// ErrNoKey is returned for an empty key.
	ErrNoKey = errors.New("memory: reflector: the key is empty: give the id of the thread or user that the work is for")
	// ErrCancelled is the result of work that [Reflector.Cancel] or an [Erasure]
	// canceled.
	ErrCancelled = errors.New("memory: reflector: the work was cancelled before it ran")
	// ErrClosed is returned by a closed reflector.
	ErrClosed = errors.New("memory: reflector: it is closed")
)

// PanicError is the error of work that panicked or called runtime.Goexit.
type PanicError struct {
	Key   string
	Value any
	Stack string
}

func (e *PanicError) Error() string {
	if e.Value == nil {
		return fmt.Sprintf("memory: reflector: the work of key %q ended its goroutine with runtime.Goexit\n%s", e.Key, e.Stack)
	}
	return fmt.Sprintf("memory: reflector: the work of key %q panicked: %v\n%s", e.Key, e.Value, e.Stack)
}

// ReflectorOptions are the options of a [Reflector]. The zero value and nil are the
// defaults.
type ReflectorOptions[T, R any] struct {
	// Workers is how many runs there may be at the same time; 0 means 4.
	Workers int
	// Merge merges a pending payload with a new one of the same key. Nil means the
	// payload's method Reduce, if it has one, as [llm.Messages] does; otherwise the new
	// payload replaces the old one. Merge must not call the reflector.
	Merge func(before, now T) (T, error)
	// Done is called after each run, but not for cancelled work. It is the only way to
	// learn the result of work that was taken over from an earlier process. Like a run,
	// it may submit work but must not wait for the reflector.
	Done func(key string, result R, err error)
}

// Reflector runs a function in the background for the payloads submitted under a key,
// when none has been submitted for a while. A key is usually the id of a thread. It is
// safe for concurrent use.
//
// There is one run per key at a time, in the order of the submits; runs of different
// keys are concurrent, up to Workers. Each submit is covered by exactly one run, whose
// result [Reflection.Wait] returns.
//
// It uses package time, so that tests can use testing/synctest.
type Reflector[T, R any] struct {
	run     func(ctx context.Context, key string, payload T) (R, error)
	opts    ReflectorOptions[T, R]
	journal *journal[T] // nil if work does not survive the process

	stop    context.CancelFunc // ends the runs under way
	stopped context.Context
	wg      sync.WaitGroup // runs under way

	// keyLocks serialize changes of a key while the journal is written.
	keyLocks [64]sync.Mutex

	mu     sync.Mutex
	keys   map[string]*keyState[T, R]
	ready  []*keyState[T, R] // those with work that is due, in order
	active int               // runs under way
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
// ⟲ merges and restarts the wait. Work that became due while its key was running is
// scheduled and due at once. waiting is set when scheduled, current when running, and
// both when dirty.
type keyState[T, R any] struct {
	key     string
	current *work[T, R]
	waiting *work[T, R]
}

// work is the work of one run.
type work[T, R any] struct {
	*Reflection[R]
	ctx     context.Context // of the last submit
	payload T
	due     time.Time
	timer   *time.Timer
	isDue   bool
	urgent  bool // it was flushed: later submits do not delay it
	removed bool // it has run and is not in the journal any more
}

// Reflection is submitted work, whose result can be waited for.
type Reflection[R any] struct {
	done   chan struct{}
	result R
	err    error
}

// Wait waits for the run that covers the submit and returns its result. The error
// may also be [ErrCancelled], [ErrClosed] or a [*PanicError].
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

// NewReflector returns a reflector whose pending work is lost when the process ends;
// see [OpenReflector] for one that stores it. Close it after use.
//
// The context of a run has the values of the last submit's context, and only
// [Reflector.Close] cancels it. The run is not part of the graph's run in which the
// submit was made: its tokens are not streamed there.
func NewReflector[T, R any](run func(ctx context.Context, key string, payload T) (R, error), opts *ReflectorOptions[T, R]) (*Reflector[T, R], error) {
	if run == nil {
		return nil, errors.New("memory: reflector: there is no function to run")
	}
	r := &Reflector[T, R]{run: run, keys: map[string]*keyState[T, R]{}}
	if opts != nil {
		r.opts = *opts
	}
	if r.opts.Workers < 0 {
		return nil, fmt.Errorf("memory: reflector: Workers is %d: 1 is the least", r.opts.Workers)
	}
	r.opts.Workers = cmp.Or(r.opts.Workers, 4)
	if r.opts.Merge == nil {
		r.opts.Merge = reduce[T]
	}
	r.stopped, r.stop = context.WithCancel(context.Background())
	return r, nil
}

// reduce merges payloads as the state of a graph does.
func reduce[T any](before, now T) (T, error) {
	switch v := any(before).(type) {
	case interface{ Reduce(T) (T, error) }:
		return v.Reduce(now)
	case interface{ Reduce(T) T }:
		return v.Reduce(now), nil
	}
	return now, nil
}

// Submit schedules a run with the payload after the given time. If work is pending for
// the key, the two payloads are merged and the wait restarts. A run that has started
// is not affected: the new payload runs after it.
//
// A durable reflector has stored the payload when Submit returns without an error. The
// payload must not be changed after Submit.
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
				next.end(ErrCancelled)
				next = nil
			}
		}
	}
	w := &work[T, R]{Reflection: &Reflection[R]{done: make(chan struct{})}, ctx: keepSource(ctx), payload: payload, due: time.Now().Add(after)}
	if next != nil {
		if w.payload, err = r.opts.Merge(next.payload, payload); err != nil {
			return nil, fmt.Errorf("memory: reflector: merge the work of key %q: %w", key, err)
		}
		w.Reflection, w.urgent = next.Reflection, next.urgent
	}
	if err := r.record(ctx, l, w); err != nil {
		return nil, err
	}
	next = w
	return w.Reflection, nil
}

// lockKey waits until no other change of the key is under way, and returns a
// function that unlocks it.
func (r *Reflector[T, R]) lockKey(key string) (unlock func()) {
	mu := &r.keyLocks[stripe(key)%uint64(len(r.keyLocks))]
	mu.Lock()
	return mu.Unlock
}

// takeWaiting removes the waiting work of a key from the schedule, so that it does
// not start while it is changed. putWaiting ends this.
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

// erased reports whether the journal has lost the work of a key, which it contains
// until the work has run. Another process has then removed it: see [Erasure].
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
	r.keys[l.key] = l // the run may have ended meanwhile and deleted the key
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
