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

// Options configure a Ledger. Nil means the defaults.
type Options struct {
	Lease       time.Duration // how long a worker lives without a beat; 0 means 6 s
	MaxPending  int           // how many runs may wait for a thread; 0 means 1,000
	MaxAttempts int           // how often a run is begun before it fails; 0 means 3
	// Revision is the number of the program's deploy. Runs of a thread that a process has
	// changed are left to processes with the same revision or a greater one, and so is a
	// temporary run.
	Revision int
	// Priorities has Claim look for runs in the order of their priorities, which takes more
	// queries. Otherwise runs start in the order in which they are due.
	Priorities bool
	// Memory limits the objects that the ledger remembers; nil means 16 MiB.
	Memory Memory
}

// Ledger keeps the rules. All methods may be called concurrently.
type Ledger struct {
	b          Backend
	o          Options
	assistants recent[Assistant]
	threads    recent[threadDoc] // as runs of this process have left them
	looked     atomic.Int64      // when Claim has last looked for runs of any priority, in microseconds
}

// New returns a ledger that stores its rows in a backend.
func New(rows Backend, o *Options) *Ledger {
	l := &Ledger{b: rows}
	if o != nil {
		l.o = *o
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

// sweepLock is the lock of transactions that concern no object in particular.
var sweepLock uuid.UUID

// now is the time by the database's clock.
func (l *Ledger) now(ctx context.Context) (now time.Time, err error) {
	err = l.b.Update(ctx, sweepLock, func(tx Tx) error {
		now = tx.Now()
		return nil
	})
	return now, err
}

// hint are ids of rows that a transaction most likely gets, besides those with the id of its
// lock; zero for none. It is an array, so that it costs nothing where nobody wants it.
type hint [3]uuid.UUID

// update calls fn in a transaction.
func (l *Ledger) update(ctx context.Context, lock uuid.UUID, h hint, fn func(Tx) error) error {
	if b, ok := l.b.(Preloader); ok {
		ids := h
		return b.Preload(ctx, lock, ids[:], fn)
	}
	return l.b.Update(ctx, lock, fn)
}

// newID returns an id that is greater than those before.
func newID() (uuid.UUID, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return id, fmt.Errorf("ledger: no random numbers for an id: %w", err)
	}
	return id, nil
}

// micros is a time as it is stored.
func micros(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}

// notFound is ErrNotFound with what was looked for.
func notFound(what string, id uuid.UUID) error { return fmt.Errorf("%w: %s %s", ErrNotFound, what, id) }

func exists(what string, id uuid.UUID) error { return fmt.Errorf("%w: %s %s", ErrExists, what, id) }

// refused reports whether err says no rather than that something broke.
func refused(err error) bool {
	for _, e := range []error{ErrNotFound, ErrExists, ErrBusy, ErrFull, ErrStale} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// noObject is the JSON of an object without keys.
var noObject = json.RawMessage("{}")
