package runs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/adhocore/gronx"
	"github.com/google/uuid"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/dynamic"
	"github.com/treadle-go/treadle/ledger"
)

// errLease is the cause of a run's canceled context if another process may now have the run.
var errLease = errors.New("lease of this process expired")

// DeleteThread deletes a thread with its runs and its state. It first cancels a running run.
func (r *Runner) DeleteThread(ctx context.Context, id uuid.UUID, f *ledger.Filter) error {
	unlock, err := r.edits.lockWithin(ctx, id) // a run that has just ended must store its last events first
	if err != nil {
		return err
	}
	open, err := r.ledger.DeleteThread(ctx, id, f)
	unlock()
	if err != nil {
		return err
	}
	for _, run := range open {
		r.tell(run.ID, ledger.CancelRun)
	}
	for _, run := range open {
		r.await(ctx, run.ID)
	}
	if len(open) > 0 { // they may have stored events while they were canceled
		err = r.ledger.DropEvents(ctx, id)
	}
	if log := r.eventLog(); log != nil {
		err = errors.Join(err, log.Drop(ctx, id))
	}
	feed := r.feeds.use(id)
	feed.clear()
	for _, run := range open {
		r.ended(run)
	}
	r.feeds.release(feed, false)
	// The thread is no longer in the ledger, so the client cannot repeat the deletion.
	remove := func(ctx context.Context) error { return r.saver.DeleteThread(ctx, id.String()) }
	e := remove(ctx)
	if errors.Is(e, checkpoint.ErrUnavailable) {
		r.later("delete state of deleted thread", id, remove)
	}
	return errors.Join(err, e)
}

// await waits for a limited time until this process no longer executes a run, so that the run
// does not write to a deleted thread.
func (r *Runner) await(ctx context.Context, id uuid.UUID) {
	for wait := time.Millisecond; wait < 10*time.Second; wait *= 2 {
		r.mu.Lock()
		x := r.active[id]
		r.mu.Unlock()
		if x == nil || ctx.Err() != nil {
			return
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

// KeepLatest removes all checkpoints of a thread except the latest ones, and removes its TTL.
func (r *Runner) KeepLatest(ctx context.Context, t *ledger.Thread) error {
	_, err := r.saver.Prune(ctx, t.ID.String(), checkpoint.Retention{})
	if err != nil && !errors.Is(err, checkpoint.ErrNotFound) { // ErrNotFound: the thread has never run
		return err
	}
	_, err = r.ledger.PatchThread(ctx, t.ID, nil, false, func(t *ledger.Thread) error {
		t.TTL = nil
		return nil
	})
	return err
}

// Storage returns the number of a thread's checkpoints, without those of subgraphs, and the
// size in bytes of all stored state of the thread. It counts by listing, so it reads the
// whole state of every checkpoint.
func (r *Runner) Storage(ctx context.Context, id uuid.UUID) (checkpoints int, bytes int64, err error) {
	bytes, err = r.saver.Size(ctx, id.String())
	if errors.Is(err, checkpoint.ErrNotFound) {
		return 0, 0, nil // the thread has never run
	}
	if err != nil {
		return 0, 0, err
	}
	for _, err := range r.saver.List(ctx, checkpoint.Query{Thread: id.String()}) {
		if err != nil {
			return 0, 0, err
		}
		checkpoints++
	}
	return checkpoints, bytes, nil
}

// CopyState copies the state of a thread.
func (r *Runner) CopyState(ctx context.Context, from, to uuid.UUID) error {
	err := r.saver.CopyThread(ctx, from.String(), to.String())
	if errors.Is(err, checkpoint.ErrNotFound) {
		return nil // the thread has never run
	}
	return err
}

// DeleteRun deletes a run and everything it has saved.
func (r *Runner) DeleteRun(ctx context.Context, thread, id uuid.UUID, f *ledger.Filter) error {
	run, err := r.ledger.DeleteRun(ctx, thread, id, f)
	if err != nil {
		return err
	}
	if r.order(id, ledger.RollbackRun) { // the run deletes what it has saved as it ends
		r.await(ctx, id)
		return nil
	}
	if !run.Temporary {
		remove := func(ctx context.Context) error {
			_, err := r.saver.DeleteRuns(ctx, run.Thread.String(), []string{id.String()})
			return err
		}
		if err = remove(ctx); errors.Is(err, checkpoint.ErrUnavailable) {
			r.later("delete state of deleted run", id, remove)
		}
	}
	r.ended(run)
	return err
}

// NextTime returns the first time of a cron after a given time, or nil if the cron has ended.
// It also returns a time for a cron that is not enabled, which is never due.
func NextTime(c *ledger.Cron, after time.Time) (*time.Time, error) {
	zone := time.UTC
	if c.Timezone != nil && *c.Timezone != "" {
		var err error
		if zone, err = time.LoadLocation(*c.Timezone); err != nil {
			return nil, fmt.Errorf("timezone: %w", err)
		}
	}
	next, err := gronx.NextTickAfter(c.Schedule, after.In(zone), false)
	if err != nil {
		return nil, fmt.Errorf("schedule %q: %w", c.Schedule, err)
	}
	next = next.UTC()
	if c.End != nil && next.After(*c.End) {
		return nil, nil
	}
	return &next, nil
}

// Edit calls fn, which edits the state of a thread without open runs, and saves the resulting
// changes to the thread. A run that is created during the edit starts after Edit returns. It
// returns ledger.ErrBusy if the thread has an open run. f selects the threads that the caller
// may edit, and th opens the state.
//
// If the database becomes unavailable before everything is saved, Edit returns an error, and
// this process retries in the background: the state may have been edited, and a thread with the
// interrupts and wake-up time of an earlier state would show the wrong ones or sleep forever.
func (r *Runner) Edit(ctx context.Context, thread uuid.UUID, f *ledger.Filter, th *dynamic.Thread, fn func() error) (*ledger.Thread, error) {
	unlock, err := r.edits.lockWithin(ctx, thread)
	if err != nil {
		return nil, err
	}
	defer unlock()
	seen, err := r.ledger.PatchThread(ctx, thread, f, true, func(*ledger.Thread) error { return nil })
	if err != nil {
		return nil, err
	}
	err = fn()
	if err != nil && !errors.Is(err, checkpoint.ErrUnavailable) {
		return nil, err
	}
	edited, e := r.edited(ctx, seen, th)
	if errors.Is(e, checkpoint.ErrUnavailable) || e != nil && ctx.Err() != nil {
		r.later("save edit", thread, func(ctx context.Context) error {
			defer r.edits.lock(thread)()
			_, err := r.edited(ctx, seen, th)
			return err
		})
	}
	if err != nil || e != nil {
		return nil, errors.Join(err, e)
	}
	return edited, nil
}

// edited saves the changes to a thread that result from an edit: its interrupts, its wake-up
// time, and its values for searching. If the thread has had another run since it was read,
// edited reads the state again; if that run is still open, edited leaves the thread alone,
// because the end of the run saves the same.
func (r *Runner) edited(ctx context.Context, seen *ledger.Thread, th *dynamic.Thread) (*ledger.Thread, error) {
	for {
		snap, err := th.State(ctx)
		if err != nil {
			return nil, err
		}
		wake, signals, err := r.Waits(ctx, seen.ID)
		if err != nil {
			return nil, err
		}
		at := seen.Updated
		edited, err := r.ledger.PatchThread(ctx, seen.ID, nil, true, func(t *ledger.Thread) error {
			if !t.Updated.Equal(at) { // possibly by a run whose state was not read
				seen = t
				return errChanged
			}
			t.Wake, t.Signals = wake, signals
			t.Interrupts, t.Small, t.StateUpdated = Interrupts(snap), Small(snap.State), snap.CreatedAt.UTC()
			return nil
		})
		switch {
		case errors.Is(err, errChanged):
		case errors.Is(err, ledger.ErrBusy):
			return seen, nil
		default:
			return edited, err
		}
	}
}

// errChanged is returned when a thread has changed since it was read.
var errChanged = errors.New("thread changed")

// later retries a save in the background after the database was unavailable. It is for the
// second half of an operation whose first half is, or may be, already saved.
func (r *Runner) later(what string, id uuid.UUID, save func(context.Context) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.draining {
		return
	}
	r.runs.Go(func() {
		err := r.insist(what, id, save)
		if err != nil && !errors.Is(err, ledger.ErrNotFound) && !errors.Is(err, checkpoint.ErrNotFound) {
			r.logger.Error("failed to complete operation", "operation", what, "id", id, "error", err)
		}
	})
}

// edits holds the locks of threads that are being edited.
type edits struct {
	mu   sync.Mutex
	byID map[uuid.UUID]*editLock
}

// editLock is held by the receiver of its token. It is a channel, not a mutex, because it may
// be held for as long as the database is unavailable.
type editLock struct {
	token chan struct{}
	users int
}

func (e *edits) lock(id uuid.UUID) (unlock func()) {
	unlock, _ = e.lockWithin(context.Background(), id)
	return unlock
}

// lockWithin is like lock, but fails when ctx ends.
func (e *edits) lockWithin(ctx context.Context, id uuid.UUID) (unlock func(), err error) {
	e.mu.Lock()
	l := e.byID[id]
	if l == nil {
		if e.byID == nil {
			e.byID = map[uuid.UUID]*editLock{}
		}
		l = &editLock{token: make(chan struct{}, 1)}
		l.token <- struct{}{}
		e.byID[id] = l
	}
	l.users++
	e.mu.Unlock()
	leave := func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		l.users--
		if l.users == 0 {
			delete(e.byID, id)
		}
	}
	select {
	case <-l.token:
		return func() { l.token <- struct{}{}; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
