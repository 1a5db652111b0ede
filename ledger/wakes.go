package ledger

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
)

// wakeAgain is how long a thread rests that was woken and waits for the same time as
// before: the clock of the process that executed the run is behind the database's.
const wakeAgain = time.Second

// maxCame bounds the names of signals that came while a run was open. Any more count as
// signals of every name, which at worst makes a run that finds nothing.
const maxCame = 64

// queue makes the row of kind Wakes what the thread says. A thread with an open run is not
// woken; if that run does not begin, the wake-up counts again.
func (d *threadDoc) queue(tx Tx) error {
	due := d.Wake
	if d.open() {
		due = time.Time{}
	}
	if due.Equal(d.Queued) {
		return nil
	}
	d.Queued = due
	if due.IsZero() {
		return tx.Delete(Wakes, d.ID)
	}
	return tx.Put(&Row{Kind: Wakes, ID: d.ID, Due: due, Created: d.Created, Doc: noObject})
}

// sleep sets when the thread goes on after a run has ended.
func (d *threadDoc) sleep(e *End, now time.Time) {
	t := d.Thread
	t.Signals, t.Wake = e.Signals, ceil(e.Wake)
	came := func(name string) bool { return name == "" || slices.Contains(e.Signals, name) }
	if len(e.Signals) > 0 && slices.ContainsFunc(d.Came, came) && (t.Wake.IsZero() || now.Before(t.Wake)) {
		t.Wake = now
	}
	d.Came = nil
	again := !t.Wake.IsZero() && !now.Before(t.Wake) && t.Wake.Equal(d.Asked)
	d.Asked = t.Wake
	if again {
		t.Wake = now.Add(wakeAgain)
	}
}

// ceil is micros, rounded up: a thread that is woken too early waits again.
func ceil(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return micros(t.Add(time.Microsecond - time.Nanosecond))
}

// wakeGrace is how long a worker leaves a due thread to the worker whose share it is in. A
// worker that is gone, or too busy, delays a wake-up by no more.
const wakeGrace = 500 * time.Millisecond

// wakesRead limits how many wake-ups DueThreads reads, per thread that it may return.
const wakesRead = 16

// A DueThread is a thread whose wake-up is due.
type DueThread struct {
	ID   uuid.UUID
	Wake time.Time
}

// DueThreads returns at most limit threads whose Wake is not after the current time and that
// have no open run, earliest first. It leaves out threads that skip reports true for; nil
// skips none.
//
// The workers with a lease share the due threads, so that they do not compete for the same
// ones. DueThreads returns the threads in worker's share, and those of other shares that have
// been due for half a second. Without a worker it returns all due threads.
func (l *Ledger) DueThreads(ctx context.Context, worker uuid.UUID, limit int, skip func(uuid.UUID) bool) ([]DueThread, error) {
	now, err := l.now(ctx)
	if err != nil {
		return nil, err
	}
	mine, err := l.share(ctx, worker, now)
	if err != nil {
		return nil, err
	}
	late := now.Add(-wakeGrace)
	var due []DueThread
	read := 0
	for r, err := range l.b.Find(ctx, &Query{Kind: Wakes, DueBy: now, Order: DueFirst}) {
		if err != nil {
			return nil, err
		}
		if skip != nil && skip(r.ID) {
			continue
		}
		if !r.Due.After(late) || mine(r.ID) {
			due = append(due, DueThread{r.ID, r.Due})
		}
		if read++; len(due) == limit || read == wakesRead*limit {
			break
		}
	}
	return due, nil
}

// share returns a function that reports whether a thread is in worker's share of the threads
// that wake up. Without a lease, a worker has no share.
func (l *Ledger) share(ctx context.Context, worker uuid.UUID, now time.Time) (func(thread uuid.UUID) bool, error) {
	if worker == uuid.Nil {
		return func(uuid.UUID) bool { return true }, nil
	}
	var workers []uuid.UUID
	for r, err := range l.b.Find(ctx, &Query{Kind: Workers}) {
		if err != nil {
			return nil, err
		}
		if !r.Due.Before(now) {
			workers = append(workers, r.ID)
		}
	}
	slices.SortFunc(workers, compareIDs)
	own := slices.Index(workers, worker)
	return func(thread uuid.UUID) bool {
		// Clients choose IDs, so their bytes may be alike.
		return own >= 0 && term("share", string(thread[:]))>>32%uint64(len(workers)) == uint64(own)
	}, nil
}

// WakeThread wakes a thread whose Wake is at, in one transaction. It calls fill with the run to
// create, whose ID, Thread, Strategy, and Worker are set, with the thread, and with the
// thread's newest run, which is nil if the thread has none. If fill returns true, WakeThread
// creates the run as CreateRun does; otherwise the thread no longer wakes up by itself. fill may
// be called more than once.
//
// ok is false, and nothing changes, if the thread has an open run or another Wake now,
// because another process or a client was faster.
func (l *Ledger) WakeThread(ctx context.Context, id uuid.UUID, at time.Time, worker uuid.UUID, fill func(n *NewRun, t *Thread, last *Run) (bool, error)) (created *Created, ok bool, err error) {
	made, err := newID()
	if err != nil {
		return nil, false, err
	}
	err = l.update(ctx, id, hint{made, worker}, func(tx Tx) error {
		created, ok = nil, false
		r, err := tx.Get(Threads, id)
		if err != nil || r == nil {
			return err
		}
		d, err := decodeThread(r)
		if err != nil || d.open() || !d.Wake.Equal(at) || at.IsZero() {
			return err
		}
		last, err := newestRun(tx, id)
		if err != nil {
			return err
		}
		n := &NewRun{Run: &Run{ID: made, Thread: id, Strategy: Reject}, Worker: worker}
		continues, err := fill(n, d.Thread, last)
		if err != nil {
			return err
		}
		ok = true
		if !continues {
			d.Thread.Wake = time.Time{}
			return d.put(tx)
		}
		if n, err = checked(n); err != nil {
			return err
		}
		if n.Thread != id || n.Temporary {
			return fmt.Errorf("ledger: run %s does not belong to thread %s", n.ID, id)
		}
		created, err = l.createRun(tx, n)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	return created, ok, nil
}

// newestRun returns the newest run of a thread with its Kwargs, or nil if it has none.
func newestRun(tx Tx, thread uuid.UUID) (*Run, error) {
	rows, err := tx.Find(&Query{Kind: Runs, Parent: thread, Limit: 1, Bodies: true})
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return decodeRun(rows[0])
}

// Signalled notes that a signal of a name has come for a thread. If the thread waits for
// it, its Wake is now.
func (l *Ledger) Signalled(ctx context.Context, id uuid.UUID, name string) error {
	_, err := l.updateThread(ctx, id, nil, hint{}, func(tx Tx, d *threadDoc) error {
		switch {
		case d.open() && len(d.Came) < maxCame && !slices.Contains(d.Came, name):
			d.Came = append(d.Came, name)
		case d.open() && len(d.Came) == maxCame:
			d.Came = append(d.Came, "")
		case !d.open() && slices.Contains(d.Thread.Signals, name) && (d.Thread.Wake.IsZero() || tx.Now().Before(d.Thread.Wake)):
			d.Thread.Wake = tx.Now()
		default:
			return nil
		}
		return d.put(tx)
	})
	return err
}
