package ledger

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/google/uuid"
)

// End describes the end of a run.
type End struct {
	Run     *Run // as claimed
	Worker  uuid.UUID
	Status  RunStatus
	Failure *Failure
	Delete  bool   // the run was rolled back and will be deleted
	Head    string // the run's last checkpoint

	// The following fields describe the thread.
	Next       bool            // the state has nodes left to run, so the thread is interrupted
	Interrupts json.RawMessage // nil means none
	Wake       time.Time       // when the thread continues by itself; zero means never
	Signals    []string        // the names of the signals that the thread waits for
	Small      Object
	Seq        uint64 // the last used sequence number

	// Hook returns the webhook to send for the run as stored. Both the function and its result
	// may be nil.
	Hook func(*Run) *Hook
	// Pushes returns a function that returns further webhooks for the thread as stored. Finish calls
	// Pushes once, outside of the transaction, so that Pushes may encode their bodies, and only if
	// the thread has Pushes. It calls the result in the transaction. Pushes may be nil.
	Pushes func(*Thread) func(*Thread) []*Hook
	// Claim assigns the next run of the thread to the worker, if the run is due and of the same
	// graph. It is ignored with Options.Priorities.
	Claim bool

	// Left is set by Finish: the number of pending runs of the thread that it did not claim.
	Left int

	unknown bool                  // an earlier call of Finish failed, but may have been committed
	push    func(*Thread) []*Hook // the result of Pushes
}

func (r *Run) heldBy(worker uuid.UUID, attempt int) bool {
	return r.Status == Running && r.Worker == worker && r.Attempt == attempt
}

func lost(run uuid.UUID) error { return fmt.Errorf("%w: %s", ErrLost, run) }

// finished reports whether an earlier call of Finish with the same End, whose outcome the
// caller did not learn, ended the run. run is nil if it no longer exists. A worker that takes
// over a run increases its attempt or ends it with a different failure.
func (e *End) finished(run *Run) bool {
	if !e.unknown {
		return false
	}
	if run == nil {
		return e.Delete || e.Run.Temporary // ending the run deletes it
	}
	return run.Attempt == e.Run.Attempt && run.Status == e.Status && reflect.DeepEqual(run.Failure, e.Failure)
}

// Finish ends a run and updates its thread, in one transaction. If the worker no longer holds
// the run, Finish returns ErrLost and changes nothing. next is the run of the thread that the
// worker has claimed, or nil.
//
// After any other error, the caller may call Finish again with the same End: the run ends only
// once. If an earlier call claimed a run, later calls do not return that run; [Ledger.Beat]
// lists it.
func (l *Ledger) Finish(ctx context.Context, e *End) (next *Run, err error) {
	var done ending
	try := func(tx Tx) (err error) {
		done, err = l.finish(tx, e)
		return err
	}
	err = l.update(ctx, e.Run.lock(), hint{e.Run.ID, e.Worker}, try)
	if errors.Is(err, errUnprepared) {
		e.push = e.Pushes(done.unprepared)
		err = l.update(ctx, e.Run.lock(), hint{e.Run.ID, e.Worker}, try)
	}
	e.Left = done.left
	if err != nil {
		e.unknown = e.unknown || !errors.Is(err, ErrLost)
		return nil, err
	}
	if e.Delete && !e.Run.Temporary {
		// The run has ended and next may be claimed, so a failure here must not fail Finish.
		// Remaining events expire with age.
		_ = l.b.DropEvents(ctx, e.Run.Thread, e.Run.ID)
	}
	if !e.Run.Temporary {
		l.textChanged(e.Run.Thread, done.mark)
	}
	return done.next, nil
}

// ending is the result of a transaction that ends a run.
type ending struct {
	next       *Run // the thread's next run, if it was claimed
	left       int  // the thread's other pending runs
	mark       *textMark
	unprepared *Thread // for errUnprepared: the thread for End.Pushes
}

// finish ends a run and updates its thread.
func (l *Ledger) finish(tx Tx, e *End) (ending, error) {
	run, d, err := l.heldAndThread(tx, e.Run)
	if errors.Is(err, ErrNotFound) {
		run, d, err = nil, nil, nil
	}
	if err != nil {
		return ending{}, err
	}
	if e.finished(run) {
		if d == nil {
			return ending{}, nil
		}
		return ending{left: d.Pending}, nil
	}
	if run == nil || !run.heldBy(e.Worker, e.Run.Attempt) {
		return ending{}, lost(e.Run.ID)
	}
	if e.Pushes != nil && e.push == nil && d != nil && len(d.Thread.Pushes) > 0 {
		return ending{unprepared: d.Thread}, errUnprepared
	}
	run.Head = e.Head
	run.Waits = e.Status == Success && !e.Delete && waits(e.Interrupts)
	if err := endRun(tx, run, d, e.Status, e.Failure, e.Delete); err != nil {
		return ending{}, err
	}
	if err := e.putHooks(tx, run, d); err != nil {
		return ending{}, err
	}
	if d == nil {
		return ending{}, nil
	}
	return l.finishThread(tx, e, run, d)
}

// putHooks stores the webhooks of an ended run.
func (e *End) putHooks(tx Tx, run *Run, d *threadDoc) error {
	var hooks []*Hook
	if e.Hook != nil {
		if h := e.Hook(run); h != nil {
			hooks = append(hooks, h)
		}
	}
	if d != nil && e.push != nil && len(d.Thread.Pushes) > 0 {
		hooks = append(hooks, e.push(d.Thread)...)
	}
	for _, h := range hooks {
		if err := putHook(tx, h, run.ID); err != nil {
			return err
		}
	}
	return nil
}

// finishThread updates the thread of an ended run.
func (l *Ledger) finishThread(tx Tx, e *End, run *Run, d *threadDoc) (done ending, err error) {
	d.Thread.Seq = max(d.Thread.Seq, e.Seq)
	d.Thread.Small, d.Interrupts = e.Small, e.Interrupts
	if d.Interrupts == nil {
		d.Interrupts = noObject
	}
	if run.Waits {
		d.Thread.Task = run.First()
	}
	done.mark, err = l.markEnd(tx, d.ID)
	if err != nil {
		return ending{}, err
	}
	d.sleep(e, tx.Now())
	if e.Next && d.Rest == Idle && !e.Delete {
		d.Rest = Interrupted
	}
	if e.Claim && !l.o.Priorities { // with priorities, a run of another thread may be more urgent
		done.next, err = l.claimNext(tx, d, e.Worker, []string{run.Graph})
		if err != nil {
			return ending{}, err
		}
	}
	done.left = d.Pending
	return done, l.putThread(tx, d)
}

// errUnprepared rolls back the end of a run whose webhooks are not prepared yet.
var errUnprepared = errors.New("ledger: webhooks not prepared")

// endRun ends a running run. It changes the thread but does not put it.
func endRun(tx Tx, run *Run, d *threadDoc, status RunStatus, failure *Failure, remove bool) error {
	now := tx.Now()
	run.Status = status
	run.Failure = failure
	run.Updated = now
	run.Ended = now
	run.Order, run.Worker = NoAction, uuid.Nil
	var err error
	if remove || run.Temporary {
		err = cmp.Or(tx.Delete(Runs, run.ID), dropSpans(tx, run))
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
