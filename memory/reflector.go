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
	// ErrNoKey: a submit without a key. Work without one would displace that of
	// others.
	ErrNoKey = errors.New("memory: reflector: the key is empty: give the id of the thread or user that the work is for")
	// ErrCancelled is how work ends that [Reflector.Cancel] has called off.
	ErrCancelled = errors.New("memory: reflector: the work was cancelled before it ran")
	// ErrClosed: the reflector is closed.
	ErrClosed = errors.New("memory: reflector: it is closed")
)

// A PanicError is how work ends that panics, or that ends its goroutine.
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

// ReflectorOptions configure a [Reflector]. The zero value, and nil, are the
// defaults.
type ReflectorOptions[T, R any] struct {
	// Workers is how many keys may be worked on at once; 0 means 4.
	Workers int
	// Merge joins what was submitted before with what is submitted now, when the
	// earlier has not run yet. Nil is the payload's method Reduce, if it has one as
	// [llm.Messages] does; otherwise the newest payload replaces the one before. It
	// must not call the reflector.
	Merge func(before, now T) (T, error)
	// Done is told how each run ended, the cancelled ones left out. It is the only
	// word of work that a reflector has taken over from the process before it. It
	// may submit, but not wait for the reflector, and neither may a run.
	Done func(key string, result R, err error)
}

// A Reflector works in the background on what is submitted to it, per key, once
// no more has come for a while. A key is usually a thread. All methods may be
// called concurrently.
//
// Work of one key never runs twice at once, and runs in the order in which it
// was submitted; work of different keys runs side by side, up to a bound. Each
// submit is covered by exactly one run, whose end its [Reflection] tells.
//
// Time is package time's, so that tests can use package testing/synctest.
type Reflector[T, R any] struct {
	run     func(ctx context.Context, key string, payload T) (R, error)
	opts    ReflectorOptions[T, R]
	journal *journal[T] // nil if nothing is to survive

	stop    context.CancelFunc // ends the runs under way
	stopped context.Context
	wg      sync.WaitGroup // runs under way

	// turns hold up what changes one key while the journal is written.
	keyLocks [64]sync.Mutex

	mu     sync.Mutex
	keys   map[string]*keyState[T, R]
	ready  []*keyState[T, R] // those that are due, first come first served
	active int               // runs under way
	closed bool
}

// A line is the state of one key. A key without a line is idle.
//
//	        Submit             due, a worker is free
//	idle ──────────▶ scheduled ─────────────────────▶ running ── ends ──▶ idle
//	  ▲               │  ▲  ⟲ Submit                   │  ▲
//	  └─── Cancel ────┘  │                      Submit │  │ Cancel
//	                     │                             ▼  │
//	                     └──────────── ends ──── running + dirty  ⟲ Submit
//
// ⟲ merges and waits anew. What became due while its key was running is scheduled
// and due at once. Scheduled: waiting is set; running: current is; dirty: both are.
type keyState[T, R any] struct {
	key     string
	current *work[T, R]
	waiting *work[T, R]
}

// work is what one run will cover.
type work[T, R any] struct {
	*Reflection[R]
	ctx     context.Context // of the last submit
	payload T
	due     time.Time
	timer   *time.Timer
	isDue   bool // it is due
	urgent  bool // it was flushed: later submits do not put it off
	removed bool // it has run, and the journal does not have it any more
}

// A Reflection is work that was submitted.
type Reflection[R any] struct {
	done   chan struct{}
	result R
	err    error
}

// Wait waits for the run that covers the submit and returns what it returned;
// or [ErrCancelled], [ErrClosed] or a [*PanicError].
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

// NewReflector makes a reflector whose pending work ends with the process; see
// [OpenReflector] for one whose work does not. Close it.
//
// The context of a run has the values of the last submit that it covers, and is
// cancelled by [Reflector.Close] alone. What the run does is not part of the run
// of the graph in which that submit was made: its tokens are not streamed there.
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

// reduce merges as states of graphs do.
func reduce[T any](before, now T) (T, error) {
	switch v := any(before).(type) {
	case interface{ Reduce(T) (T, error) }:
		return v.Reduce(now)
	case interface{ Reduce(T) T }:
		return v.Reduce(now), nil
	}
	return now, nil
}

// Submit has the payload worked on after a while, if nothing else is submitted
// for the key until then. If something is pending for the key, the two are merged
// and the wait begins anew. What is running already is not disturbed: the new
// payload runs after it.
//
// When Submit of a durable reflector returns without an error, the payload is in
// the store. The payload must not be changed afterwards.
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

// turn waits for the other changes of a key that are under way, and returns what
// lets the next one go on.
func (r *Reflector[T, R]) lockKey(key string) (unlock func()) {
	mu := &r.keyLocks[stripe(key)%uint64(len(r.keyLocks))]
	mu.Lock()
	return mu.Unlock
}

// hold takes the waiting work of a key off the schedule, so that it does not
// start while it is changed. The line stays, for release.
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

// record writes to the journal what a key has to do: what is running, and w.
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

// release puts work on the schedule again, if there is any.
func (r *Reflector[T, R]) putWaiting(l *keyState[T, R], w *work[T, R]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys[l.key] = l // what was running has perhaps ended and taken the line away
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

// The following are called with mu held.

// schedule makes work wait until it is due.
func (r *Reflector[T, R]) schedule(l *keyState[T, R], w *work[T, R]) {
	l.waiting = w
	wait := time.Until(w.due)
	if wait <= 0 || w.urgent {
		r.markDue(l)
		return
	}
	// A timer that fires too late finds that its work has been replaced.
	w.timer = time.AfterFunc(wait, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if l.waiting == w && !w.isDue {
			r.markDue(l)
		}
	})
}

// unschedule takes the waiting work away.
func (r *Reflector[T, R]) unschedule(l *keyState[T, R]) {
	if l.waiting.timer != nil {
		l.waiting.timer.Stop()
	}
	l.waiting.isDue = false
	l.waiting = nil
	r.ready = slices.DeleteFunc(r.ready, func(o *keyState[T, R]) bool { return o == l })
}

// ripen: the waiting work is due.
func (r *Reflector[T, R]) markDue(l *keyState[T, R]) {
	l.waiting.isDue = true
	if l.current == nil {
		r.ready = append(r.ready, l)
		r.start()
	}
}

// start gives work that is due to workers that are free.
func (r *Reflector[T, R]) start() {
	for len(r.ready) > 0 && r.active < r.opts.Workers && !r.closed {
		l := r.ready[0]
		r.ready = slices.Delete(r.ready, 0, 1)
		l.current, l.waiting = l.waiting, nil
		r.active++
		r.wg.Go(func() { r.work(l, l.current) })
	}
}

// tidy forgets a key for which nothing is left to do.
func (r *Reflector[T, R]) deleteIdle(l *keyState[T, R]) {
	if l.current == nil && l.waiting == nil && r.keys[l.key] == l {
		delete(r.keys, l.key)
	}
}
