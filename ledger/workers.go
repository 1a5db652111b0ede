package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// A worker is a process that executes runs. Its lease is a row, which it renews by
// beats; when that is over, others take its runs. The row stays for some leases
// more: a transaction that claims a run for the worker while another one removes the
// row would leave a run whose worker nobody knows.
const keptLeases = 10

// hasLease reports whether a worker may have runs.
func hasLease(tx Tx, worker uuid.UUID) (bool, error) {
	r, err := tx.Get(Workers, worker)
	return r != nil && !r.Due.Before(tx.Now()), err
}

// leased returns the time if the worker has a lease.
func (l *Ledger) leased(ctx context.Context, worker uuid.UUID) (now time.Time, err error) {
	err = l.b.Update(ctx, worker, func(tx Tx) error {
		now = tx.Now()
		ok, err := hasLease(tx, worker)
		if err == nil && !ok {
			err = fmt.Errorf("%w: worker %s", ErrNoLease, worker)
		}
		return err
	})
	return now, err
}

// Beat renews the lease of a worker, which name describes to people, and returns the open
// runs that the ledger assigns to it, without their Kwargs. A worker compares them with the
// runs that it executes: one that it does not execute was assigned by a transaction whose
// outcome it never learned (see [Ledger.Release]), and one that is missing was taken over.
func (l *Ledger) Beat(ctx context.Context, worker uuid.UUID, name string) (held []*Run, err error) {
	doc, err := json.Marshal(name)
	if err != nil {
		return nil, err
	}
	err = l.b.Update(ctx, worker, func(tx Tx) error {
		held = nil
		was, err := tx.Get(Workers, worker)
		if err != nil {
			return err
		}
		r := &Row{Kind: Workers, ID: worker, Created: tx.Now(), Due: tx.Now().Add(l.o.Lease), Doc: doc}
		r.Open = was != nil && was.Open
		if err := tx.Put(r); err != nil {
			return err
		}
		rows, err := tx.Find(&Query{Kind: Runs, Worker: worker, Open: true})
		if err != nil {
			return err
		}
		for _, r := range rows {
			run, err := decodeRun(r)
			if err != nil {
				return err
			}
			held = append(held, run)
		}
		return nil
	})
	return held, err
}

// Leave ends the lease of a worker now, so that others take its runs at once.
func (l *Ledger) Leave(ctx context.Context, worker uuid.UUID) error {
	return l.b.Update(ctx, worker, func(tx Tx) error {
		r, err := tx.Get(Workers, worker)
		if err != nil || r == nil || r.Due.Before(tx.Now()) {
			return err
		}
		r.Due = tx.Now().Add(-time.Microsecond)
		return tx.Put(r)
	})
}

// LeaveOthers ends the leases of all workers but one. It is for a process that knows
// that no other one is alive.
func (l *Ledger) LeaveOthers(ctx context.Context, worker uuid.UUID) error {
	var others []uuid.UUID
	for r, err := range l.b.Find(ctx, &Query{Kind: Workers}) {
		if err != nil {
			return err
		}
		if r.ID != worker {
			others = append(others, r.ID)
		}
	}
	for _, id := range others {
		if err := l.Leave(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// Attend makes others notice the end of a worker sooner than by its lease, if the
// backend is a [Witness]; otherwise it does nothing. It does so until ctx ends, which
// has to be after the last run of the worker: a worker that has attended and does so no
// more is taken for dead. One without a lease gets ErrNoLease.
func (l *Ledger) Attend(ctx context.Context, worker uuid.UUID) error {
	w, ok := l.b.(Witness)
	if !ok {
		return nil
	}
	if _, err := l.leased(ctx, worker); err != nil {
		return err
	}
	if err := w.Attend(ctx, worker); err != nil {
		return err
	}
	// Whoever cannot attend is not marked, and nobody takes it for dead.
	return l.b.Update(ctx, worker, func(tx Tx) error {
		r, err := tx.Get(Workers, worker)
		if err != nil || r == nil || r.Open {
			return err
		}
		r.Open = true
		return tx.Put(r)
	})
}

// EndLeases ends the leases of workers that have attended and are gone, as Leave does,
// and returns how many. self is the worker of this process, which is left out.
func (l *Ledger) EndLeases(ctx context.Context, self uuid.UUID) (n int, err error) {
	w, ok := l.b.(Witness)
	if !ok {
		return 0, nil
	}
	var last time.Time // when self had its last beat
	var others []*Row
	for r, err := range l.b.Find(ctx, &Query{Kind: Workers, Open: true}) {
		switch {
		case err != nil:
			return 0, err
		case r.ID == self:
			last = r.Due.Add(-l.o.Lease)
		default:
			others = append(others, r)
		}
	}
	var workers []uuid.UUID
	for _, r := range others {
		if !r.Due.Before(last) { // otherwise its lease is over
			workers = append(workers, r.ID)
		}
	}
	if len(workers) == 0 {
		return 0, nil
	}
	gone, err := w.Gone(ctx, workers)
	if err != nil {
		return 0, err
	}
	for _, id := range gone {
		if err := l.Leave(ctx, id); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// TakeOver gives up to n runs of workers whose lease is over to worker, with the
// next epoch of their threads and the next attempt. It skips those of graphs that are
// not in the list, if that is not nil, and those that need a later revision. Runs that were begun too often are ended with
// Error. A worker without a lease gets ErrNoLease.
func (l *Ledger) TakeOver(ctx context.Context, worker uuid.UUID, graphs []string, n int) (taken, failed []*Run, err error) {
	now, err := l.leased(ctx, worker)
	if err != nil {
		return nil, nil, err
	}
	for w, err := range l.b.Find(ctx, &Query{Kind: Workers, DueBy: now.Add(-time.Microsecond), Order: DueFirst}) {
		if err != nil {
			return taken, failed, err
		}
		for r, err := range l.b.Find(ctx, &Query{Kind: Runs, Worker: w.ID, Open: true, Order: OldestFirst}) {
			if err != nil {
				return taken, failed, err
			}
			run, err := decodeRun(r)
			if err != nil {
				return taken, failed, err
			}
			if len(taken) >= n || !served(graphs, run.Graph) {
				continue
			}
			run, ended, err := l.takeOver(ctx, run, w.ID, worker)
			switch {
			case err != nil:
				return taken, failed, err
			case run == nil:
			case ended:
				failed = append(failed, run)
			default:
				taken = append(taken, run)
			}
		}
	}
	return taken, failed, nil
}

// takeOver takes a run of a worker whose lease is over, or ends it. run is nil if
// that was not to be done any more.
func (l *Ledger) takeOver(ctx context.Context, seen *Run, from, to uuid.UUID) (run *Run, ended bool, err error) {
	err = l.changeRun(ctx, seen.lock(), seen.ID, hint{1: from, 2: to}, func(tx Tx, r *Run, d *threadDoc) error {
		run, ended = nil, false
		if r.Status != Running || r.Worker != from {
			return nil
		}
		if alive, err := hasLease(tx, from); alive || err != nil {
			return err
		}
		if ok, err := hasLease(tx, to); !ok || err != nil {
			return err
		}
		needed := revisionOf(r, d)
		if *needed > l.o.Revision {
			return nil
		}
		*needed = l.o.Revision
		if d != nil {
			d.Thread.Epoch++
		}
		run = r
		if r.Attempt >= l.o.MaxAttempts {
			ended = true
			failure := &Failure{Class: "WorkerLost", Message: fmt.Sprintf("the run was begun %d times, and each time the process that executed it died", r.Attempt)}
			if err := endRun(tx, r, d, Error, failure, false); err != nil || d == nil {
				return err
			}
			// Somebody has to look at it first, else a run that wakes the thread up and kills
			// its process would be made again for ever.
			d.Thread.Wake, d.Thread.Signals, d.Came = time.Time{}, nil, nil
			return d.put(tx)
		}
		r.Worker, r.Updated = to, tx.Now()
		r.Attempt++
		r.place(d)
		if err := putRun(tx, r); err != nil {
			return err
		}
		// They are read here and not after the commit: a worker that has a run and gets
		// an error would never execute it.
		rows, err := tx.Find(&Query{Kind: Runs, IDs: []uuid.UUID{r.ID}, Bodies: true})
		if err != nil || len(rows) == 0 {
			return err
		}
		r.Kwargs = rows[0].Body
		if d == nil {
			return nil
		}
		return d.put(tx)
	})
	if errors.Is(err, ErrNotFound) {
		return nil, false, nil
	}
	return run, ended, err
}

// removeWorkers removes workers that have been gone for long and have no runs.
func (l *Ledger) removeWorkers(ctx context.Context, now time.Time) (n int, err error) {
	gone := now.Add(-keptLeases * l.o.Lease)
	for w, err := range l.b.Find(ctx, &Query{Kind: Workers, DueBy: gone, Order: DueFirst}) {
		if err != nil {
			return n, err
		}
		removed := 0
		err = l.b.Update(ctx, w.ID, func(tx Tx) error {
			removed = 0
			r, err := tx.Get(Workers, w.ID)
			if err != nil || r == nil || r.Due.After(gone) {
				return err
			}
			runs, err := tx.Find(&Query{Kind: Runs, Worker: w.ID, Open: true, Limit: 1})
			if err != nil || len(runs) > 0 {
				return err
			}
			removed = 1
			return tx.Delete(Workers, w.ID)
		})
		if err != nil {
			return n, err
		}
		n += removed
	}
	return n, nil
}
