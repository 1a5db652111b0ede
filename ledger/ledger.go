package ledger

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/internal/budget"
)

// Options configures [New]. A nil *Options means the defaults.
type Options struct {
	Lease       time.Duration // how long a worker's lease lasts without a beat; 0 means 6 s
	MaxPending  int           // the maximum number of pending runs per thread; 0 means 1,000
	MaxAttempts int           // the maximum number of attempts before a run fails; 0 means 3
	// Revision is the deploy number of the program. After a process has changed a thread or
	// created a temporary run, only processes with the same or a greater revision execute the
	// thread's runs or the temporary run.
	Revision int
	// Priorities makes Claim assign runs in order of priority, which takes more queries.
	// Otherwise, runs start in the order in which they become due.
	Priorities bool
	// TextChanged, if not nil, is called after the text of a thread may have changed. The
	// receiver calls UnindexedThread and IndexThread. Nil means that threads are not indexed.
	TextChanged func(thread uuid.UUID)
	// TaskEnded, if not nil, returns the webhooks about a task that ended otherwise than by Finish:
	// its last run was canceled before it started or lost all of its workers, or its thread no longer
	// waits for it. run is one of its runs. TaskEnded must be fast, because it is called in the transaction, and
	// only for threads that have Pushes.
	TaskEnded func(run *Run, thread *Thread) []*Hook
	// Memory limits the ledger's cache of objects; nil means 16 MiB.
	Memory Memory
}

// A Ledger implements the rules for assistants, threads, runs, and crons on top of a [Backend].
// It is safe for concurrent use.
type Ledger struct {
	b          Backend
	o          Options
	assistants recent[Assistant]
	threads    recent[threadDoc] // as stored by putThread
	marks      textMarks
	looked     atomic.Int64 // when Claim last searched for temporary runs of any priority, in microseconds
}

// New returns a ledger that stores its rows in the given backend.
func New(rows Backend, opts *Options) *Ledger {
	l := &Ledger{b: rows}
	if opts != nil {
		l.o = *opts
	}
	l.o.Lease = cmp.Or(l.o.Lease, 6*time.Second)
	l.o.MaxPending = cmp.Or(l.o.MaxPending, 1000)
	l.o.MaxAttempts = cmp.Or(l.o.MaxAttempts, 3)
	b := budget.New(ownMemory)
	if l.o.Memory != nil {
		b = budget.Of(l.o.Memory)
	}
	l.assistants, l.threads = newRecent[Assistant](b), newRecent[threadDoc](b)
	return l
}

// sweepLock is the lock of transactions that do not concern a particular object.
var sweepLock uuid.UUID

// now returns the time of the database's clock.
func (l *Ledger) now(ctx context.Context) (now time.Time, err error) {
	err = l.b.Update(ctx, sweepLock, func(tx Tx) error {
		now = tx.Now()
		return nil
	})
	return now, err
}

// hint lists the IDs of rows that a transaction is likely to get, in addition to the rows whose
// ID is its lock; zero means none. It is an array, so it costs nothing if the backend is not a
// Preloader.
type hint [3]uuid.UUID

// update calls fn in a transaction, and passes the hint to a Preloader.
func (l *Ledger) update(ctx context.Context, lock uuid.UUID, h hint, fn func(Tx) error) error {
	if b, ok := l.b.(Preloader); ok {
		ids := h
		return b.Preload(ctx, lock, ids[:], fn)
	}
	return l.b.Update(ctx, lock, fn)
}

// newID returns an ID greater than all earlier ones.
func newID() (uuid.UUID, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return id, fmt.Errorf("ledger: generate ID: %w", err)
	}
	return id, nil
}

// micros returns t in the precision that is stored.
func micros(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}

// notFound returns an ErrNotFound that names the missing object.
func notFound(what string, id uuid.UUID) error { return fmt.Errorf("%w: %s %s", ErrNotFound, what, id) }

func exists(what string, id uuid.UUID) error { return fmt.Errorf("%w: %s %s", ErrExists, what, id) }

// rejects reports whether err rejects the request, as opposed to reporting a failure.
func rejects(err error) bool {
	for _, e := range []error{ErrNotFound, ErrExists, ErrBusy, ErrFull, ErrStale} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// noObject is an empty JSON object.
var noObject = json.RawMessage("{}")
