package ledger

import (
	"cmp"
	"context"

	"github.com/google/uuid"
)

// cancelRun cancels an open run. A run that never started ends immediately: it becomes
// RunCanceled, or is deleted if the action is a rollback or the run is temporary, and ended is
// true. A run that has started has state that its current or next worker must handle, so
// cancelRun records the action as its order. It changes the thread but does not put it.
func (l *Ledger) cancelRun(tx Tx, run *Run, d *threadDoc, a Action) (ended bool, err error) {
	if !run.Started.IsZero() {
		if run.Order == RollbackRun || run.Order == a {
			return false, nil // a rollback cannot be revoked
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
	return true, cmp.Or(d.waiting(tx), l.taskEnded(tx, run, d))
}

// Cancel cancels runs. A run that never started ends immediately: with CancelRun it becomes
// RunCanceled, and with RollbackRun it is deleted. For a run that has started, Cancel stores
// the order and returns the run, so that the caller can signal its worker. Such a run may be
// pending if its last worker released it; it then ends when it is claimed. Runs that have ended
// are left unchanged. A zero thread means any thread. If one of the runs does not exist, Cancel
// returns ErrNotFound and cancels none.
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

// cancelAll cancels runs of one thread, or one temporary run.
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
			over, err := l.cancelRun(tx, run, d, a)
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

// Release returns a run held by worker to the queue: the run is pending again, ahead of later
// runs, and the attempt does not count. seq is the last sequence number that the run has used.
// Release returns ErrLost if the worker does not hold the run.
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
