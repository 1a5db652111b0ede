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

// DueThreads returns threads whose Wake is not after the present time and that have no
// open run, the first one first.
func (l *Ledger) DueThreads(ctx context.Context, limit int) ([]*Thread, error) {
	now, err := l.now(ctx)
	if err != nil {
		return nil, err
	}
	var ids []uuid.UUID
	for r, err := range l.b.Find(ctx, &Query{Kind: Wakes, DueBy: now, Order: DueFirst, Limit: limit}) {
		if err != nil {
			return nil, err
		}
		ids = append(ids, r.ID)
	}
	if len(ids) == 0 {
		return nil, nil
	}
	var due []*Thread
	for r, err := range l.b.Find(ctx, &Query{Kind: Threads, IDs: ids}) {
		if err != nil {
			return nil, err
		}
		d, err := decodeThread(r)
		if err != nil {
			return nil, err
		}
		due = append(due, d.Thread)
	}
	slices.SortFunc(due, func(a, b *Thread) int { return a.Wake.Compare(b.Wake) })
	return due, nil
}

// WakeThread creates the run that continues a thread whose Wake is at, in one
// transaction. ok is false if the thread has an open run or another Wake now, since
// another process or a client was faster; nothing happens then. Without a run the
// thread does not go on by itself any more.
func (l *Ledger) WakeThread(ctx context.Context, id uuid.UUID, at time.Time, n *NewRun) (created *Created, ok bool, err error) {
	if n != nil {
		if n, err = checked(n); err != nil {
			return nil, false, err
		}
		if n.Thread != id || n.Temporary {
			return nil, false, fmt.Errorf("ledger: the run is not of the thread %s", id)
		}
	}
	err = l.b.Update(ctx, id, func(tx Tx) error {
		created, ok = nil, false
		r, err := tx.Get(Threads, id)
		if err != nil || r == nil {
			return err
		}
		d, err := decodeThread(r)
		if err != nil || d.open() || !d.Wake.Equal(at) || at.IsZero() {
			return err
		}
		ok = true
		if n == nil {
			d.Thread.Wake = time.Time{}
			return d.put(tx)
		}
		created, err = l.createRun(tx, n)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	return created, ok, nil
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
