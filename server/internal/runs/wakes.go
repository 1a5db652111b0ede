package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/pregel"
	"github.com/treadle-go/treadle/ledger"
)

// Waits returns when a thread continues by itself, or zero for never, and the names of the
// signals that it waits for.
func (r *Runner) Waits(ctx context.Context, thread uuid.UUID) (due time.Time, signals []string, err error) {
	w, err := pregel.WaitingOf(ctx, r.saver, thread.String())
	if w == nil || err != nil {
		return time.Time{}, nil, err
	}
	return w.Due, w.Signals, nil
}

// Signal saves a signal for a thread and wakes the thread if it waits for the signal.
func (r *Runner) Signal(ctx context.Context, t *ledger.Thread, name string, value json.RawMessage) error {
	err := r.sendSignal(ctx, t, name, value)
	if err != nil && !errors.Is(err, checkpoint.ErrUnavailable) {
		return err
	}
	wake := func(ctx context.Context) error { return r.ledger.Signalled(ctx, t.ID, name) }
	if err == nil {
		err = wake(ctx)
	}
	if errors.Is(err, checkpoint.ErrUnavailable) { // the signal may be saved
		r.later("wake signaled thread", t.ID, func(ctx context.Context) error {
			err := wake(ctx)
			if err == nil {
				r.announce()
			}
			return err
		})
	}
	if err == nil {
		r.announce()
	}
	return err
}

func (r *Runner) sendSignal(ctx context.Context, t *ledger.Thread, name string, value json.RawMessage) error {
	for tries := 1; ; tries++ {
		th, err := r.Thread(t, nil)
		if err != nil {
			return err
		}
		err = th.Signal(ctx, name, value)
		if err == nil || !errors.Is(err, checkpoint.ErrFenced) || tries == 5 {
			return err
		}
		// Another process has taken over the thread since its row was read.
		if t, err = r.ledger.Thread(ctx, t.ID, nil); err != nil {
			return err
		}
	}
}

// Limits for waking threads and for crons.
const (
	wakesAtOnce = 16  // concurrent calls
	wakesTaken  = 256 // per query
	// A failed attempt is retried after wakePause. The delay doubles with each failure, up to
	// wakePauseMost.
	wakePause     = time.Second
	wakePauseMost = 30 * time.Second
)

// waker creates the runs of threads that wake up, or of crons. It has a dedicated goroutine,
// because many may be due at the same time, and neither beats nor other work may wait for them.
type waker struct {
	due    chan struct{} // receives when some may be due
	mu     sync.Mutex
	failed map[uuid.UUID]*wakeFailure
}

// wakeFailure records that a thread could not be woken, or that a cron could not create its
// run.
type wakeFailure struct {
	pause time.Duration
	until time.Time // time of the next attempt
}

func newWaker() *waker {
	return &waker{due: make(chan struct{}, 1), failed: map[uuid.UUID]*wakeFailure{}}
}

// look makes the waker check for due threads or crons.
func (w *waker) look() {
	select {
	case w.due <- struct{}{}:
	default:
	}
}

// rests reports whether the last attempt failed and the next one is not due yet.
func (w *waker) rests(id uuid.UUID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.failed[id]
	return f != nil && time.Now().Before(f.until)
}

// note records the outcome of an attempt.
func (w *waker) note(id uuid.UUID, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		delete(w.failed, id)
		return
	}
	f := w.failed[id]
	if f == nil {
		f = &wakeFailure{pause: wakePause / 2}
		w.failed[id] = f
	}
	f.pause = min(2*f.pause, wakePauseMost)
	f.until = time.Now().Add(f.pause)
}

// forget drops old failures, because another process has succeeded or the object was deleted.
func (w *waker) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	old := time.Now().Add(-2 * wakePauseMost)
	maps.DeleteFunc(w.failed, func(_ uuid.UUID, f *wakeFailure) bool { return f.until.Before(old) })
}

// run calls some whenever something may be due, and again while it reports that more may be
// due, until ctx ends. It calls done after some has done any work.
func (w *waker) run(ctx context.Context, some func(context.Context) (n int, more bool), done func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.due:
		}
		worked := false
		for more := true; more; {
			var n int
			n, more = some(ctx)
			worked = worked || n > 0
		}
		w.forget()
		if worked {
			done()
		}
	}
}

// each calls do with the index of every ID, several at a time, and returns the number of
// successes. It passes errors to failed.
func (w *waker) each(ctx context.Context, ids []uuid.UUID, do func(i int) error, failed func(i int, err error)) int {
	var done atomic.Int64
	var all sync.WaitGroup
	slots := make(chan struct{}, wakesAtOnce)
	for i, id := range ids {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			err := do(i)
			if ctx.Err() != nil {
				return
			}
			w.note(id, err)
			if err != nil {
				failed(i, err)
				return
			}
			done.Add(1)
		})
	}
	all.Wait()
	return int(done.Load())
}

// wakeSome wakes due threads. It returns their number, and whether more may be due.
func (r *Runner) wakeSome(ctx context.Context) (n int, more bool) {
	due, err := r.ledger.DueThreads(ctx, r.worker, wakesTaken, r.waker.rests)
	if err != nil {
		r.missed(ctx, "threads that wake up", err)
		return 0, false
	}
	ids := make([]uuid.UUID, len(due))
	for i, t := range due {
		ids[i] = t.ID
	}
	n = r.waker.each(ctx, ids, func(i int) error { return r.wakeThread(ctx, due[i]) }, func(i int, err error) {
		r.logger.ErrorContext(ctx, "failed to wake thread", "thread", due[i].ID, "at", due[i].Wake, "error", err)
	})
	return n, len(due) == wakesTaken && ctx.Err() == nil
}

// tickSome creates the runs of due crons. It returns their number, and whether more may be due.
func (r *Runner) tickSome(ctx context.Context) (n int, more bool) {
	due, err := r.ledger.DueCrons(ctx, wakesTaken, r.ticker.rests)
	if err != nil {
		r.missed(ctx, "crons", err)
		return 0, false
	}
	ids := make([]uuid.UUID, len(due))
	for i, c := range due {
		ids[i] = c.ID
	}
	n = r.ticker.each(ctx, ids, func(i int) error { return r.tick(ctx, due[i], *due[i].Next) }, func(i int, err error) {
		r.logger.ErrorContext(ctx, "failed to create run of cron", "cron", due[i].ID, "at", *due[i].Next, "error", err)
	})
	return n, len(due) == wakesTaken && ctx.Err() == nil
}

// tick creates one run of a cron. If the ledger rejects the run, the cron skips it. If the run
// cannot be built, the cron retries.
func (r *Runner) tick(ctx context.Context, c *ledger.Cron, at time.Time) error {
	n, err := r.o.Cron(ctx, c, at)
	if err != nil {
		return err
	}
	next, err := NextTime(c, time.Now())
	if err != nil {
		return err
	}
	made, ok, err := r.ledger.Tick(ctx, c.ID, at, next, n)
	if ok && err != nil {
		r.logger.ErrorContext(ctx, "cron skipped a run", "cron", c.ID, "at", at, "error", err)
		return nil
	}
	if err != nil || made == nil {
		return err
	}
	for _, other := range made.Ordered {
		r.tell(other.ID, other.Order)
	}
	r.announce()
	return nil
}

// wakeThread creates the run that continues a thread. If this process has a slot to spare, it
// starts the run; otherwise, the run is queued. However many threads wake up, a quarter of the
// slots remains for queued runs, runs created by clients, and runs of dead processes.
func (r *Runner) wakeThread(ctx context.Context, t ledger.DueThread) error {
	var worker uuid.UUID
	slot := r.takeLeaving(r.slots / 4)
	if slot != 0 {
		worker = r.worker
	}
	made, _, err := r.ledger.WakeThread(ctx, t.ID, t.Wake, worker, r.wakeRun)
	if err == nil && made != nil && made.Claimed {
		r.start(&execution{run: made.Run, fresh: true}, slot)
		return nil
	}
	r.giveBack(slot)
	switch {
	case err == nil && made != nil:
		r.announce()
	case slot != 0:
		r.Wake() // for a queued run that found no free slot
	}
	return err
}

// wakeRun fills in the run that continues a thread: like its last run, but without input. It
// returns false if the thread has no run and no assistant.
func (r *Runner) wakeRun(n *ledger.NewRun, t *ledger.Thread, last *ledger.Run) (bool, error) {
	run := n.Run
	n.Continues = true
	run.Metadata, run.Graph = ledger.Object{}, t.Graph()
	k := Kwargs{StreamMode: []string{"values"}, Durability: "sync", During: true}
	if last != nil {
		run.Assistant = last.Assistant
		run.Graph = last.Graph
		run.Metadata = last.Metadata
		run.Webhook = last.Webhook
		run.Resumable = last.Resumable
		if err := json.Unmarshal(last.Kwargs, &k); err != nil {
			return false, fmt.Errorf("kwargs of run %s: %w", last.ID, err)
		}
	} else {
		text, _ := t.Metadata["assistant_id"].(string)
		var err error
		if run.Assistant, err = uuid.Parse(text); err != nil || run.Graph == "" {
			return false, nil //nolint:nilerr // an edit created the state without an assistant
		}
	}
	if !slices.Contains(r.claims, run.Graph) {
		n.Worker = uuid.Nil
	}
	k.Input, k.Command, k.Trace = nil, nil, nil
	conf := ledger.Object{}
	for key, v := range k.Configurable() {
		if key != "checkpoint_id" && key != "checkpoint_ns" && key != "checkpoint_map" {
			conf[key] = v
		}
	}
	conf["run_id"] = run.ID.String()
	conf["thread_id"] = t.ID.String()
	conf["graph_id"] = run.Graph
	conf["assistant_id"] = run.Assistant.String()
	if k.Config == nil {
		k.Config = ledger.Object{}
	}
	k.Config["configurable"] = map[string]any(conf)
	var err error
	run.Kwargs, err = json.Marshal(k)
	return err == nil, err
}
