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

// Waits returns when a thread goes on by itself, zero for never, and the names of the
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

// Limits of wake-ups.
const (
	wakesAtOnce = 16  // concurrent wake-ups
	wakesTaken  = 256 // due threads per read
	// A thread that cannot be woken is tried again after wakePause, then after twice as long,
	// up to wakePauseMost.
	wakePause     = time.Second
	wakePauseMost = 30 * time.Second
)

// waker wakes threads. A dedicated goroutine does so, because many threads may be due at the
// same time, and neither beats nor other work may wait for them.
type waker struct {
	due    chan struct{} // signals that threads may be due
	mu     sync.Mutex
	failed map[uuid.UUID]*wakeFailure
}

// wakeFailure records that a thread could not be woken.
type wakeFailure struct {
	pause time.Duration
	until time.Time // no attempt before
}

func newWaker() *waker {
	return &waker{due: make(chan struct{}, 1), failed: map[uuid.UUID]*wakeFailure{}}
}

// look makes the waker look for due threads.
func (w *waker) look() {
	select {
	case w.due <- struct{}{}:
	default:
	}
}

// rests reports whether a thread could not be woken and is not tried again yet.
func (w *waker) rests(thread uuid.UUID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.failed[thread]
	return f != nil && time.Now().Before(f.until)
}

// note records the outcome of an attempt to wake a thread.
func (w *waker) note(thread uuid.UUID, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		delete(w.failed, thread)
		return
	}
	f := w.failed[thread]
	if f == nil {
		f = &wakeFailure{pause: wakePause / 2}
		w.failed[thread] = f
	}
	f.pause = min(2*f.pause, wakePauseMost)
	f.until = time.Now().Add(f.pause)
}

// forget drops failures of threads that nothing has tried to wake for a while: other
// processes have woken or deleted them.
func (w *waker) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	old := time.Now().Add(-2 * wakePauseMost)
	maps.DeleteFunc(w.failed, func(_ uuid.UUID, f *wakeFailure) bool { return f.until.Before(old) })
}

// wakeThreads wakes due threads until ctx ends.
func (r *Runner) wakeThreads(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.waker.due:
		}
		woken := false
		for more := true; more; {
			var n int
			n, more = r.wakeSome(ctx)
			woken = woken || n > 0
		}
		r.waker.forget()
		if woken {
			r.Wake() // the loop waits for what is due next
		}
	}
}

// wakeSome wakes threads that are due, several at a time. It returns how many and whether
// more may be due.
func (r *Runner) wakeSome(ctx context.Context) (n int, more bool) {
	due, err := r.ledger.DueThreads(ctx, r.worker, wakesTaken, r.waker.rests)
	if err != nil {
		r.missed(ctx, "threads that wake up", err)
		return 0, false
	}
	var woken atomic.Int64
	var all sync.WaitGroup
	slots := make(chan struct{}, wakesAtOnce)
	for _, t := range due {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			err := r.wakeThread(ctx, t)
			if ctx.Err() != nil {
				return
			}
			r.waker.note(t.ID, err)
			if err != nil {
				r.logger.ErrorContext(ctx, "failed to wake thread", "thread", t.ID, "at", t.Wake, "error", err)
				return
			}
			woken.Add(1)
		})
	}
	all.Wait()
	return int(woken.Load()), len(due) == wakesTaken && ctx.Err() == nil
}

// wakeThread creates the run that continues a thread. If this process has a slot to spare, it
// starts the run; otherwise the run is queued. A quarter of the slots is left to queued runs,
// to those of clients, and to those of dead processes, however many threads wake up.
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

// wakeRun fills in the run that continues a thread: like its last run, without an input. It
// returns false if the thread has never had a run or an assistant.
func (r *Runner) wakeRun(n *ledger.NewRun, t *ledger.Thread, last *ledger.Run) (bool, error) {
	run := n.Run
	run.Metadata, run.Graph = ledger.Object{}, t.Graph()
	k := Kwargs{StreamMode: []string{"values"}, Durability: "sync", During: true}
	if last != nil {
		run.Assistant, run.Graph, run.Metadata, run.Webhook, run.Resumable = last.Assistant, last.Graph, last.Metadata, last.Webhook, last.Resumable
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
	conf["run_id"], conf["thread_id"], conf["graph_id"], conf["assistant_id"] = run.ID.String(), t.ID.String(), run.Graph, run.Assistant.String()
	if k.Config == nil {
		k.Config = ledger.Object{}
	}
	k.Config["configurable"] = map[string]any(conf)
	var err error
	run.Kwargs, err = json.Marshal(k)
	return err == nil, err
}
