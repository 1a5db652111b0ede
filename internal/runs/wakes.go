package runs

import (
	"context"
	"encoding/json"
	"errors"
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

// wakes makes the runs of threads that go on by themselves. It reports whether there may
// be more.
func (r *Runner) wakes(ctx context.Context) (more bool) {
	const limit = 100
	due, err := r.ledger.DueThreads(ctx, limit)
	if err != nil {
		r.missed(ctx, "threads that go on by themselves", err)
		return false
	}
	for _, t := range due {
		if err := r.wakeThread(ctx, t); err != nil && ctx.Err() == nil {
			r.logger.ErrorContext(ctx, "a thread does not go on by itself", "thread", t.ID, "at", t.Wake, "error", err)
		}
	}
	return len(due) == limit
}

func (r *Runner) wakeThread(ctx context.Context, t *ledger.Thread) error {
	n, err := r.wakeRun(ctx, t)
	if err != nil {
		return err
	}
	made, ok, err := r.ledger.WakeThread(ctx, t.ID, t.Wake, n)
	if err != nil || !ok || made == nil {
		return err
	}
	r.announce()
	return nil
}

// wakeRun is the run that continues a thread: like its last run, without an input. It is nil
// if nobody has ever run the thread.
func (r *Runner) wakeRun(ctx context.Context, t *ledger.Thread) (*ledger.NewRun, error) {
	last, err := r.ledger.Runs(ctx, t.ID, nil, "", ledger.Page{Limit: 1})
	if err != nil {
		return nil, err
	}
	run := &ledger.Run{ID: uuid.Must(uuid.NewV7()), Thread: t.ID, Strategy: ledger.Reject, Metadata: ledger.Object{}, Graph: t.Graph()}
	k := Kwargs{StreamMode: []string{"values"}, Durability: "sync", During: true}
	if len(last) > 0 {
		l := last[0]
		run.Assistant, run.Graph, run.Metadata, run.Webhook, run.Resumable = l.Assistant, l.Graph, l.Metadata, l.Webhook, l.Resumable
		if err := json.Unmarshal(l.Kwargs, &k); err != nil {
			return nil, err
		}
	} else {
		text, _ := t.Metadata["assistant_id"].(string)
		if run.Assistant, err = uuid.Parse(text); err != nil || run.Graph == "" {
			return nil, nil //nolint:nilerr // an edit has made its state, and it has no assistant
		}
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
	if run.Kwargs, err = json.Marshal(k); err != nil {
		return nil, err
	}
	return &ledger.NewRun{Run: run}, nil
}
