package ledger

import (
	"cmp"
	"context"

	"github.com/google/uuid"
)

// cancelRun tells an open run to end. One that has not begun ends at once, which is
// RunCanceled, or is deleted to roll back; ended is true then. One that has begun has
// a state that its worker, or the next one, has to look after: it gets the order. The
// thread is changed and not put.
func cancelRun(tx Tx, run *Run, d *threadDoc, a Action) (ended bool, err error) {
	if !run.Started.IsZero() {
		if run.Order == RollbackRun || run.Order == a {
			return false, nil // it cannot be taken back
		}
		run.Order, run.Updated = a, tx.Now()
		return false, putRun(tx, run)
	}
	run.Status, run.Updated, run.Ended = RunCanceled, tx.Now(), tx.Now()
	if a == RollbackRun || run.Temporary {
		err = tx.Delete(Runs, run.ID)
	} else {
		err = putRun(tx, run)
	}
	if err != nil || d == nil {
		return true, err
	}
	d.Pending--
	return true, d.waiting(tx)
}

// Cancel tells runs to end. A run that has not begun ends at once: with CancelRun it
// is RunCanceled, with RollbackRun it is deleted. For one that has begun the order is
// stored, and it is returned for a signal to its worker; it may be pending, if its
// last worker gave it back, and then ends when it is claimed. Runs that have ended
// are left as they are. thread may be zero for any. If one of the runs is unknown,
// nothing is done and the error is ErrNotFound.
func (l *Ledger) Cancel(ctx context.Context, thread uuid.UUID, runs []uuid.UUID, a Action, f *Filter) (running, ended []*Run, err error) {
	byLock := map[uuid.UUID][]uuid.UUID{}
	var locks []uuid.UUID
	for _, id := range runs {
		run, err := l.Run(ctx, thread, id, f)
		if err != nil {
			return nil, nil, err
		}
		lock := run.lock()
		if byLock[lock] == nil {
			locks = append(locks, lock)
		}
		byLock[lock] = append(byLock[lock], id)
	}
	for _, lock := range locks {
		ordered, over, err := l.cancelAll(ctx, lock, byLock[lock], a)
		if err != nil {
			return running, ended, err
		}
		running = append(running, ordered...)
		ended = append(ended, over...)
	}
	return running, ended, nil
}

// cancelAll does so with runs of one thread, or with a temporary run.
func (l *Ledger) cancelAll(ctx context.Context, lock uuid.UUID, runs []uuid.UUID, a Action) (running, ended []*Run, err error) {
	err = l.b.Update(ctx, lock, func(tx Tx) error {
		running, ended = nil, nil
		for _, id := range runs {
			run, d, err := l.runAndThread(tx, id)
			if err != nil {
				return err
			}
			if !run.open() {
				continue
			}
			over, err := cancelRun(tx, run, d, a)
			if err != nil {
				return err
			}
			if !over {
				running = append(running, run)
				continue
			}
			ended = append(ended, run)
			if d == nil {
				continue
			}
			d.touch(tx.Now())
			if err := d.put(tx); err != nil {
				return err
			}
		}
		return nil
	})
	return running, ended, err
}

// Release gives a run back that worker has: it is pending again, before those that
// came after it, and the attempt does not count. seq is the last sequence number that it
// has used. ErrLost if the worker does not have the run.
func (l *Ledger) Release(ctx context.Context, worker uuid.UUID, run *Run, seq uint64) error {
	return l.changeRun(ctx, run.lock(), run.ID, hint{}, func(tx Tx, r *Run, d *threadDoc) error {
		if !r.heldBy(worker, run.Attempt) {
			return lost(r.ID)
		}
		r.Status, r.Worker, r.Updated = Pending, uuid.Nil, tx.Now()
		r.Attempt--
		if err := putRun(tx, r); err != nil || d == nil {
			return err
		}
		d.Running = uuid.Nil
		d.Pending++
		d.Thread.Seq = max(d.Thread.Seq, seq)
		return cmp.Or(d.waiting(tx), d.put(tx))
	})
}
