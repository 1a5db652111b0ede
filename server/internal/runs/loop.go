package runs

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/internal/delay"
	"github.com/treadle-go/treadle/ledger"
)

// The intervals and durations of the background loops.
const (
	beatEvery  = time.Second
	workEvery  = 5 * time.Second        // polling interval for work without a signal
	othersWork = 250 * time.Millisecond // minimum polling interval while work is due that this process cannot start
	lookEvery  = 500 * time.Millisecond
	sweepFeeds = time.Second
	lease      = 6 * time.Second // must equal the lease duration of the ledger
	keepEvents = 10 * time.Minute
	ageEvery   = 5 * time.Minute // unused cached data is dropped after this time
)

// keepLease renews the lease, compares the runs that the ledger assigns to this process with
// the runs that it executes, and takes over the runs of dead processes. Nothing slow may run
// here, because a late beat loses the lease.
func (r *Runner) keepLease(ctx context.Context) {
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	var look <-chan time.Time // nil if there are no other processes
	if r.o.Bus != nil {
		t := time.NewTicker(lookEvery)
		defer t.Stop()
		look = t.C
	}
	lastBeat := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
			switch {
			case r.beat(ctx):
				// Whatever blocked this process's access to the database may have blocked the
				// others too. Give them time for a beat before taking over their runs.
				if time.Since(lastBeat) > lease/2 {
					r.calm = time.Now().Add(2 * beatEvery)
				}
				lastBeat = time.Now()
				r.takeOver(ctx)
			case time.Since(lastBeat) > lease:
				r.abandon()
			}
		case <-look:
			r.lookForTheDead(ctx)
		}
	}
}

// findWork starts runs and webhooks that are due. Other goroutines wake threads and create the
// runs of crons.
func (r *Runner) findWork(ctx context.Context) {
	due := time.NewTimer(0)
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		case <-due.C:
		}
		due.Reset(r.work(ctx))
	}
}

// cleanUp removes idle feeds, unused cached data, old events, expired threads, and expired
// store items.
func (r *Runner) cleanUp(ctx context.Context) {
	tick := time.NewTicker(sweepFeeds)
	defer tick.Stop()
	lastSweep, lastStore, lastAge := time.Now(), time.Now(), time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		r.feeds.sweep(time.Now())
		if time.Since(lastSweep) > r.o.SweepEvery {
			lastSweep = time.Now()
			r.sweep(ctx)
		}
		if time.Since(lastAge) > ageEvery {
			lastAge = time.Now()
			r.memory.Age()
		}
		if r.store != nil && time.Since(lastStore) > r.o.SweepStore {
			lastStore = time.Now()
			r.sweepStore(ctx)
		}
	}
}

// attend lets other processes detect the death of this process before its lease expires.
func (r *Runner) attend(ctx context.Context) {
	for pause := 100 * time.Millisecond; ctx.Err() == nil; pause = min(2*pause, 5*time.Second) {
		err := r.ledger.Attend(ctx, r.worker)
		if err == nil {
			return
		}
		if ctx.Err() == nil {
			r.logger.WarnContext(ctx, "failed to register for death detection", "error", err)
		}
		_ = delay.For(ctx, pause)
	}
}

// lookForTheDead takes over the runs of processes that have just died.
func (r *Runner) lookForTheDead(ctx context.Context) {
	if r.Draining() {
		return
	}
	n, err := r.ledger.EndLeases(ctx, r.worker)
	if err != nil {
		r.missed(ctx, "processes that died", err)
	}
	if n > 0 {
		r.takeOver(ctx)
		r.Wake()
	}
}

// beat renews the lease, executes orders received through the database, and reconciles the runs
// of this process with the ledger. It reports whether the lease was renewed.
func (r *Runner) beat(ctx context.Context) bool {
	before := r.executing()
	held, err := r.ledger.Beat(ctx, r.worker, r.o.Name)
	if err != nil {
		if ctx.Err() == nil {
			r.logger.WarnContext(ctx, "failed to renew lease", "error", err)
			r.trouble.note(err)
		}
		return false
	}
	for _, run := range held {
		if run.Order != ledger.NoAction {
			r.order(run.ID, run.Order)
		}
	}
	r.reconcile(ctx, before, held)
	return true
}

// executing returns the runs that this process executes.
func (r *Runner) executing() []*execution {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.active))
}

// reconcile makes the runs that this process executes match those that the ledger assigns to
// it. before lists the executions as of before the ledger was read.
//
// An assigned run that this process does not execute was claimed by a transaction whose
// response was lost: the run is released, so that it can be claimed again. An executed run that
// is not assigned to this process was taken over or deleted while the process was suspended or
// disconnected: its execution is canceled.
func (r *Runner) reconcile(ctx context.Context, before []*execution, held []*ledger.Run) {
	assigned := make(map[uuid.UUID]*ledger.Run, len(held))
	for _, run := range held {
		assigned[run.ID] = run
	}
	for _, x := range before {
		if run := assigned[x.run.ID]; run == nil || run.Attempt != x.run.Attempt {
			x.cancel(errLease)
		}
	}
	for _, run := range r.orphaned(assigned) {
		err := r.ledger.Release(ctx, r.worker, run, 0)
		switch {
		case err == nil:
			r.logger.WarnContext(ctx, "gave back run whose claim was not confirmed", "run", run.ID, "thread", run.Thread)
			r.announce()
		case errors.Is(err, ledger.ErrLost), errors.Is(err, ledger.ErrNotFound): // it has ended since
		case ctx.Err() == nil: // the next beat retries
			r.logger.WarnContext(ctx, "failed to give back run whose claim was not confirmed", "run", run.ID, "error", err)
		}
	}
}

// orphaned returns the assigned runs that this process neither executes nor is about to
// execute. A run is about to be executed if a call that may have claimed it is in progress, or
// if the previous run of its thread has not quite ended.
func (r *Runner) orphaned(assigned map[uuid.UUID]*ledger.Run) []*ledger.Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	ending := map[uuid.UUID]bool{}
	for _, x := range r.active {
		ending[x.run.Thread] = true
	}
	var orphans []*ledger.Run
	seen := map[uuid.UUID]ticket{}
	for id, run := range assigned {
		if r.active[id] != nil || ending[run.Thread] {
			continue
		}
		since, known := r.orphans[id]
		if !known {
			since = r.tickets
		}
		if r.oldestTicket() <= since {
			seen[id] = since
			continue
		}
		orphans = append(orphans, run)
	}
	r.orphans = seen
	return orphans
}

// oldestTicket returns the ticket of the oldest call that may claim a run, or the next ticket
// if there is none. The caller holds r.mu.
func (r *Runner) oldestTicket() ticket {
	oldest := r.tickets + 1
	for t := range r.taken {
		oldest = min(oldest, t)
	}
	return oldest
}

// abandon cancels all runs, because the lease has expired.
func (r *Runner) abandon() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range r.active {
		x.cancel(errLease)
	}
}

// missed logs a failure to poll for work, unless the runner is stopping.
func (r *Runner) missed(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		r.logger.WarnContext(ctx, "failed to poll for work", "what", what, "error", err)
	}
}

// takeOver takes over and executes the runs of dead processes.
func (r *Runner) takeOver(ctx context.Context) {
	for time.Now().After(r.calm) {
		slot := r.take()
		if slot == 0 {
			return
		}
		taken, failed, err := r.ledger.TakeOver(ctx, r.worker, r.claims, 1)
		if err != nil {
			r.missed(ctx, "runs of other processes", err)
		}
		for _, run := range failed {
			r.logger.ErrorContext(ctx, "run abandoned after too many attempts", "run", run.ID, "attempts", run.Attempt)
			r.ended(run)
		}
		if len(taken) == 0 {
			r.giveBack(slot)
			return
		}
		r.logger.InfoContext(ctx, "resuming run of dead process", "run", taken[0].ID, "attempt", taken[0].Attempt)
		r.start(&execution{run: taken[0]}, slot)
	}
}

// work starts what is due and returns the delay before the next poll.
func (r *Runner) work(ctx context.Context) time.Duration {
	began := time.Now()
	for {
		slot := r.take()
		if slot == 0 {
			break
		}
		claimed, err := r.ledger.Claim(ctx, r.worker, r.claims, 1)
		if err != nil {
			r.missed(ctx, "runs that wait", err)
		}
		if len(claimed) == 0 {
			r.giveBack(slot)
			break
		}
		r.start(&execution{run: claimed[0]}, slot)
	}
	r.ticker.look()
	r.waker.look()
	more := r.o.Send != nil && r.hooks(ctx)
	next, err := r.ledger.NextDue(ctx)
	switch {
	case err != nil || next.IsZero():
		return workEvery
	case more || next.After(began):
		return min(max(time.Until(next), 10*time.Millisecond), workEvery)
	default:
		// All due work was considered. It is for other processes, or waits for a free slot
		// here, and the end of a run sends a signal. Each poll reads all waiting work before it
		// finds nothing, so poll less often the longer that takes.
		return min(max(20*time.Since(began), othersWork), workEvery)
	}
}

// hook returns the webhook for an ended run. The run's row is read without its kwargs, so they
// are passed separately.
func hook(run *ledger.Run, kwargs json.RawMessage, e *ledger.End, rec *recorder) *ledger.Hook {
	body := map[string]any{}
	_ = json.Unmarshal(jsonOf(run), &body) // run encodes as an object
	body["kwargs"] = kwargs
	body["status"] = e.Status
	body["run_started_at"], body["run_ended_at"], body["webhook_sent_at"] = run.Started, time.Now().UTC(), time.Now().UTC()
	body["error"] = nil
	if e.Failure != nil {
		body["error"] = e.Failure.Message
	}
	body["values"] = nil
	if rec.answer != nil {
		body["values"] = rec.answer.State
	}
	return &ledger.Hook{Run: run.ID, URL: run.Webhook, Body: jsonOf(body), Due: time.Now()}
}

func (r *Runner) sweepStore(ctx context.Context) {
	switch n, err := r.store.Sweep(ctx); {
	case err != nil:
		r.logger.WarnContext(ctx, "failed to remove expired items", "error", err)
	case n > 0:
		r.logger.DebugContext(ctx, "removed expired items", "items", n)
	}
}

// sweep removes old events, expired spans, rows of dead workers, and expired threads.
func (r *Runner) sweep(ctx context.Context) {
	if _, err := r.ledger.Sweep(ctx, keepEvents, 1000); err != nil && ctx.Err() == nil {
		r.logger.WarnContext(ctx, "failed to remove old events", "error", err)
	}
	for n := expireSpans; n == expireSpans && ctx.Err() == nil; {
		var err error
		if n, err = r.ledger.ExpireSpans(ctx, expireSpans); err != nil && ctx.Err() == nil {
			r.logger.WarnContext(ctx, "failed to remove old spans", "error", err)
		}
	}
	r.expire(ctx)
}

// expireSpans is the number of expired spans removed in one transaction.
const expireSpans = 500

// expire deletes expired threads, or all of their checkpoints except the latest.
func (r *Runner) expire(ctx context.Context) {
	list, err := r.ledger.Expired(ctx, r.o.SweepLimit)
	if err != nil {
		r.missed(ctx, "threads whose time is over", err)
	}
	for _, t := range list {
		if t.TTL != nil && t.TTL.Strategy == "keep_latest" {
			err = r.KeepLatest(ctx, t)
		} else {
			err = r.DeleteThread(ctx, t.ID, nil)
		}
		if err != nil {
			r.logger.WarnContext(ctx, "failed to expire thread", "thread", t.ID, "error", err)
		}
	}
}
