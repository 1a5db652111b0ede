package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/google/uuid"
)

// End is the end of a run.
type End struct {
	Run     *Run // as it was claimed
	Worker  uuid.UUID
	Status  RunStatus
	Failure *Failure
	Delete  bool   // the run was rolled back and is deleted
	Head    string // the checkpoint that it ended with

	// Of the thread:
	Next       bool            // its state has nodes to run, so it is interrupted
	Interrupts json.RawMessage // nil if there are none
	Wake       time.Time       // when it goes on by itself; zero for never
	Signals    []string        // the names of the signals that it waits for
	Small      Object
	Seq        uint64 // the last sequence number that was used

	Hook  func(*Run) *Hook // makes what has to be sent of the run as it is stored; it may be nil and return nil
	Claim bool             // the worker takes the next run of the thread, if that is due and of the same graph; not with Options.Priorities

	// Left is set by Finish: the number of pending runs of the thread that it has not claimed.
	Left int

	unknown bool // an earlier call of Finish failed, and may have been committed
}

func (r *Run) heldBy(worker uuid.UUID, attempt int) bool {
	return r.Status == Running && r.Worker == worker && r.Attempt == attempt
}

func lost(run uuid.UUID) error { return fmt.Errorf("%w: %s", ErrLost, run) }

// finished reports whether an earlier call of Finish with the same End, whose outcome the
// caller did not learn, ended the run. run is nil if it no longer exists. A worker that
// takes a run over raises the attempt or ends the run with a failure of its own.
func (e *End) finished(run *Run) bool {
	if !e.unknown {
		return false
	}
	if run == nil {
		return e.Delete || e.Run.Temporary // ending the run deletes it
	}
	return run.Attempt == e.Run.Attempt && run.Status == e.Status && reflect.DeepEqual(run.Failure, e.Failure)
}

// Finish ends a run, and sets the thread to what follows from it, in one
// transaction. It returns ErrLost, and changes nothing, if the worker no longer holds the
// run. next is the run of the thread that the worker has claimed, or nil.
//
// After any other error the caller may call Finish with the same End again: the run ends
// once. A run that an earlier call has claimed is not returned; [Ledger.Beat] lists it.
func (l *Ledger) Finish(ctx context.Context, e *End) (next *Run, err error) {
	err = l.update(ctx, e.Run.lock(), hint{e.Run.ID, e.Worker}, func(tx Tx) error {
		next, e.Left = nil, 0
		run, d, err := l.heldAndThread(tx, e.Run)
		if errors.Is(err, ErrNotFound) {
			run, d, err = nil, nil, nil
		}
		if err != nil {
			return err
		}
		if e.finished(run) {
			if d != nil {
				e.Left = d.Pending
			}
			return nil
		}
		if run == nil || !run.heldBy(e.Worker, e.Run.Attempt) {
			return lost(e.Run.ID)
		}
		run.Head = e.Head
		if err := endRun(tx, run, d, e.Status, e.Failure, e.Delete); err != nil {
			return err
		}
		if e.Hook != nil {
			if h := e.Hook(run); h != nil {
				if err := putHook(tx, h, run.ID); err != nil {
					return err
				}
			}
		}
		if d == nil {
			return nil
		}
		d.Thread.Seq = max(d.Thread.Seq, e.Seq)
		d.Thread.Small, d.Interrupts = e.Small, e.Interrupts
		if d.Interrupts == nil {
			d.Interrupts = noObject
		}
		d.sleep(e, tx.Now())
		if e.Next && d.Rest == Idle && !e.Delete {
			d.Rest = Interrupted
		}
		if e.Claim && !l.o.Priorities { // the next run of another thread may be more urgent
			if next, err = l.claimNext(tx, d, e.Worker, []string{run.Graph}); err != nil {
				return err
			}
		}
		e.Left = d.Pending
		return l.putThread(tx, d)
	})
	if err != nil {
		e.unknown = e.unknown || !errors.Is(err, ErrLost)
		return nil, err
	}
	if e.Delete && !e.Run.Temporary {
		// The run is over and next may be claimed, so this is no error of Finish. Events
		// that stay go by their age.
		_ = l.b.DropEvents(ctx, e.Run.Thread, e.Run.ID)
	}
	return next, nil
}

// endRun ends a running run. The thread is changed and not put.
func endRun(tx Tx, run *Run, d *threadDoc, status RunStatus, failure *Failure, remove bool) error {
	now := tx.Now()
	run.Status, run.Failure, run.Updated, run.Ended = status, failure, now, now
	run.Order, run.Worker = NoAction, uuid.Nil
	var err error
	if remove || run.Temporary {
		err = tx.Delete(Runs, run.ID)
	} else {
		err = putRun(tx, run)
	}
	if err != nil || d == nil {
		return err
	}
	d.Running = uuid.Nil
	d.Error, d.StateUpdated = failure, now
	switch {
	case remove:
		d.Rest = Idle
	case status == RunCanceled:
		d.Rest = Interrupted
	case status == Success:
		d.Rest = Idle
	default:
		d.Rest = Failed
	}
	d.touch(now)
	return nil
}
