package ledger

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
)

// wakeAgain is the delay before a thread is woken again if it was woken and still waits for the
// same time, because the clock of the process that executed the run is behind the database's
// clock.
const wakeAgain = time.Second

// maxCame limits the number of signal names that are recorded while a run is open. Further
// signals match every name, which at worst starts a run that finds no signal.
const maxCame = 64

// queue updates the thread's row of kind Wakes. A thread with an open run is not woken; if that
// run never starts, the wake-up applies again.
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

// sleep sets when the thread continues by itself after a run has ended.
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

// ceil is like micros, but rounds up, because a thread that is woken too early waits again.
func ceil(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return micros(t.Add(time.Microsecond - time.Nanosecond))
}

// wakeGrace is the time that workers leave a due thread to the worker whose share includes it. It
// bounds the delay caused by a dead or overloaded worker.
const wakeGrace = 500 * time.Millisecond

// wakesRead is the maximum number of wake-ups that DueThreads reads per thread of its limit.
const wakesRead = 16

// A DueThread is a thread whose wake-up is due.
type DueThread struct {
	ID   uuid.UUID
	Wake time.Time
}

// DueThreads returns at most limit threads whose Wake is not after the current time and that
// have no open run, earliest first. It omits threads for which skip returns true; a nil skip
// omits none.
//
// The workers with a lease share the due threads, so that they do not compete for them.
// DueThreads returns the threads in worker's share, and threads of other shares that have been
// due for half a second. With a zero worker, it returns all due threads.
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
		read++
		if len(due) == limit || read == wakesRead*limit {
			break
		}
	}
	return due, nil
}

// share returns a function that reports whether a thread is in worker's share of due threads. A
// worker without a lease has no share.
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
		// Hash the IDs: clients may choose similar ones.
		return own >= 0 && term("share", string(thread[:]))>>32%uint64(len(workers)) == uint64(own)
	}, nil
}

// WakeThread wakes a thread whose Wake is at, in one transaction. It calls fill with the run to
// create, whose ID, Thread, Strategy, and Worker are set, with the thread, and with the
// thread's newest run, or nil if it has none. If fill returns true, WakeThread creates the run
// as CreateRun does; otherwise, the thread no longer wakes up by itself. fill may be called
// more than once.
//
// ok is false, and nothing changes, if the thread does not exist, has an open run, or now has a
// different Wake, because another process or a client was faster.
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

// Signalled records that a signal with a name has arrived for a thread. If the thread waits for
// it, its Wake becomes the current time.
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
