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
	"github.com/treadle-go/treadle/ledger"
)

// errLease is why a run's context has ended: another process may have the run now.
var errLease = errors.New("the lease of this process is over")

// DeleteThread deletes a thread with its runs and its state. A run that is executed is
// cut off first.
func (r *Runner) DeleteThread(ctx context.Context, id uuid.UUID, f *ledger.Filter) error {
	unlock := r.edits.lock(id) // a run that has just ended stores its last events first
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
	if len(open) > 0 { // they may have stored events meanwhile
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
	return errors.Join(err, r.saver.DeleteThread(ctx, id.String()))
}

// await waits, not for ever, until this process no longer executes a run, so that it
// does not write to a thread that is gone.
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

// KeepLatest removes all of a thread's checkpoints but the present ones.
func (r *Runner) KeepLatest(ctx context.Context, t *ledger.Thread) error {
	_, err := r.saver.Prune(ctx, t.ID.String(), checkpoint.Retention{})
	if err != nil && !errors.Is(err, checkpoint.ErrNotFound) { // a thread that has not run
		return err
	}
	_, err = r.ledger.PatchThread(ctx, t.ID, nil, false, func(t *ledger.Thread) error {
		t.TTL = nil
		return nil
	})
	return err
}

// Storage returns how many checkpoints a thread has, those of nested graphs left out,
// and how many bytes all that is stored of its state takes.
func (r *Runner) Storage(ctx context.Context, id uuid.UUID) (checkpoints int, bytes int64, err error) {
	bytes, err = r.saver.Size(ctx, id.String())
	if errors.Is(err, checkpoint.ErrNotFound) {
		return 0, 0, nil // a thread that has not run
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
		return nil // a thread that has not run
	}
	return err
}

// DeleteRun deletes a run with what it has stored.
func (r *Runner) DeleteRun(ctx context.Context, thread, id uuid.UUID, f *ledger.Filter) error {
	run, err := r.ledger.DeleteRun(ctx, thread, id, f)
	if err != nil {
		return err
	}
	if r.order(id, ledger.RollbackRun) { // it deletes what it has stored as it ends
		r.await(ctx, id)
		return nil
	}
	if !run.Temporary {
		_, err = r.saver.DeleteRuns(ctx, run.Thread.String(), []string{id.String()})
	}
	r.ended(run)
	return err
}

// NextTime is the first time of a cron behind a moment; nil if there is none, because
// the cron has ended. A cron that is not enabled has one too, and is not due at it.
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

// Edit calls fn while the thread has no run. A run that is created meanwhile begins
// when fn has returned.
func (r *Runner) Edit(ctx context.Context, thread uuid.UUID, f *ledger.Filter, fn func() error) error {
	unlock := r.edits.lock(thread)
	defer unlock()
	if _, err := r.ledger.PatchThread(ctx, thread, f, true, func(*ledger.Thread) error { return nil }); err != nil {
		return err
	}
	return fn()
}

// edits are locks of threads that are being edited.
type edits struct {
	mu   sync.Mutex
	byID map[uuid.UUID]*editLock
}

type editLock struct {
	mu    sync.Mutex
	users int
}

func (e *edits) lock(id uuid.UUID) (unlock func()) {
	e.mu.Lock()
	l := e.byID[id]
	if l == nil {
		if e.byID == nil {
			e.byID = map[uuid.UUID]*editLock{}
		}
		l = &editLock{}
		e.byID[id] = l
	}
	l.users++
	e.mu.Unlock()
	l.mu.Lock()
	return func() {
		l.mu.Unlock()
		e.mu.Lock()
		defer e.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(e.byID, id)
		}
	}
}
