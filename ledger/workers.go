package ledger

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// keptLeases is the number of lease durations that a worker's row outlives its lease.
//
// A worker is a process that executes runs. Its row is its lease, which it renews with beats.
// When the lease expires, other workers take over its runs. The row is kept longer, because a
// transaction that claims a run for the worker while another one removes the row would leave a
// run whose worker has no row.
const keptLeases = 10

// hasLease reports whether a worker has a lease and so may hold runs.
func hasLease(tx Tx, worker uuid.UUID) (bool, error) {
	r, err := tx.Get(Workers, worker)
	return r != nil && !r.Due.Before(tx.Now()), err
}

// leased returns the current time, or ErrNoLease if the worker has no lease.
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

// Beat renews the lease of a worker and returns the open runs assigned to it, without their
// Kwargs. name describes the worker to people. The worker must compare the result with the runs
// that it executes: a run that it does not execute was assigned by a transaction whose outcome
// it never learned (see [Ledger.Release]), and a run missing from the result was taken over.
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

// Leave ends the lease of a worker, so that others can take over its runs immediately.
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

// LeaveOthers ends the leases of all workers except worker. The caller must be certain that no
// other worker is alive.
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

// Attend lets other workers detect the death of a worker before its lease expires, if the
// backend is a [Witness]; otherwise, it does nothing. It is in effect until ctx ends. ctx must
// not end before the worker's last run, because a worker that stops attending is presumed dead.
// Attend returns ErrNoLease if the worker has no lease.
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
	// A worker that cannot attend is not marked, so it is not presumed dead.
	return l.b.Update(ctx, worker, func(tx Tx) error {
		r, err := tx.Get(Workers, worker)
		if err != nil || r == nil || r.Open {
			return err
		}
		r.Open = true
		return tx.Put(r)
	})
}

// EndLeases ends the leases of workers that attended and no longer do, as [Ledger.Leave] does,
// and returns their number. It ignores self, the worker of this process.
func (l *Ledger) EndLeases(ctx context.Context, self uuid.UUID) (n int, err error) {
	w, ok := l.b.(Witness)
	if !ok {
		return 0, nil
	}
	var last time.Time // the last beat of self
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
		if !r.Due.Before(last) { // otherwise its lease has expired
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

// TakeOver assigns up to n runs of workers with an expired lease to worker, with a new epoch of
// their threads and a new attempt. It skips runs whose graph is not in graphs, unless graphs is
// nil, and runs that need a later revision. A run that has reached the maximum number of
// attempts ends with status Error and is returned in failed. TakeOver returns ErrNoLease if
// worker has no lease.
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

// takeOver takes over a run of a worker with an expired lease, or ends the run. It returns a
// nil run if there is nothing left to do.
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
			failure := &Failure{Class: "WorkerLost", Message: fmt.Sprintf("run started %d times, and its process died each time", r.Attempt)}
			if err := endRun(tx, r, d, Error, failure, false); err != nil || d == nil {
				return err
			}
			// Do not wake the thread until a client intervenes. Otherwise, a run that wakes up
			// and kills its process would be created again and again.
			d.Thread.Wake, d.Thread.Signals, d.Came = time.Time{}, nil, nil
			return cmp.Or(l.taskEnded(tx, r, d), d.put(tx))
		}
		r.Worker, r.Updated = to, tx.Now()
		r.Attempt++
		r.place(d)
		if err := putRun(tx, r); err != nil {
			return err
		}
		// Read Kwargs here, not after the commit: if that failed, the worker would hold a run
		// that it never executes.
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

// removeWorkers removes the rows of workers whose leases expired long ago and that hold no
// runs.
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
