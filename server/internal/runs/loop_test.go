package runs

import (
	"context"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/ledger"
)

// counted counts the queries for runs that may start.
type counted struct {
	ledger.Backend
	looks atomic.Int64
}

func (c *counted) Find(ctx context.Context, q *ledger.Query) iter.Seq2[*ledger.Row, error] {
	if q.Kind == ledger.Threads && q.Open && !q.DueBy.IsZero() {
		c.looks.Add(1)
	}
	return c.Backend.Find(ctx, q)
}

func TestForeignRunsAreNotPolledConstantly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &counted{Backend: ledger.NewMemory()}
		l := ledger.New(b, nil)
		r, err := New(Options{Ledger: l, Logger: slog.New(slog.DiscardHandler), Claims: []string{"mine"}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.Create(t.Context(), &ledger.NewRun{Run: &ledger.Run{Thread: uuid.New(), Graph: "another"}, Create: &ledger.Thread{}}, false)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second) //nolint:forbidigo // virtual time
		if n := b.looks.Load(); n > 50 {
			t.Errorf("%d looks in 10 s for a run of another graph", n)
		}
		if err := r.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// cut is a backend that cannot be reached at times.
type cut struct {
	ledger.Backend
	down atomic.Bool
}

func (c *cut) Update(ctx context.Context, lock uuid.UUID, fn func(ledger.Tx) error) error {
	if c.down.Load() {
		return checkpoint.ErrUnavailable
	}
	return c.Backend.Update(ctx, lock, fn)
}

// When the database was away for all, all leases are over. Who comes first would take the
// runs of the others, and that would count as an attempt.
func TestRunKeepsProcessAfterOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &cut{Backend: ledger.NewMemory()}
		l := ledger.New(b, nil)
		r, err := New(Options{Ledger: l, Logger: slog.New(slog.DiscardHandler), Claims: []string{"g"}})
		if err != nil {
			t.Fatal(err)
		}
		other := uuid.New()
		beat := func() {
			t.Helper()
			if _, err := l.Beat(t.Context(), other, "other"); err != nil {
				t.Fatal(err)
			}
		}
		beat()
		c, err := l.CreateRun(t.Context(), &ledger.NewRun{Run: &ledger.Run{Thread: uuid.New(), Graph: "g"}, Create: &ledger.Thread{}, Worker: other})
		if err != nil || !c.Claimed {
			t.Fatal(c, err)
		}
		b.down.Store(true)
		time.Sleep(10 * time.Second) //nolint:forbidigo // virtual time
		b.down.Store(false)
		for range 5 {
			time.Sleep(1900 * time.Millisecond) //nolint:forbidigo // virtual time
			beat()
		}
		run, err := l.Run(t.Context(), c.Run.Thread, c.Run.ID, nil)
		if err != nil || run.Worker != other || run.Attempt != 1 {
			t.Errorf("the run is %+v, %v; want attempt 1 of its process", run, err)
		}
		if err := r.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// packed notes when events are stored.
type packed struct {
	ledger.Backend

	mu sync.Mutex
	at []time.Time
}

func (p *packed) Append(_ context.Context, _ *ledger.Events) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at = append(p.at, time.Now())
	return nil
}

func TestEventsAreStoredInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &packed{Backend: ledger.NewMemory()}
		r := &Runner{ledger: ledger.New(b, nil), logger: slog.New(slog.DiscardHandler), stopped: make(chan struct{})}
		run := &ledger.Run{ID: uuid.New(), Thread: uuid.New()}
		l := &log{runner: r, feed: r.feeds.use(run.Thread), run: run, keep: true}
		begun := time.Now()
		l.write(1)
		time.Sleep(time.Millisecond / 2) //nolint:forbidigo // virtual time, so that no event is written as another pack is stored
		for range 99 {                   // one each millisecond
			l.write(1)
			time.Sleep(time.Millisecond) //nolint:forbidigo // virtual time
		}
		time.Sleep(time.Second) //nolint:forbidigo // virtual time
		b.mu.Lock()
		defer b.mu.Unlock()
		if got := b.at[0].Sub(begun); got != packSoon {
			t.Errorf("the first event is stored after %v, want %v", got, packSoon)
		}
		if n := len(b.at); n != 5 {
			t.Errorf("100 events in 100 ms are stored in %d packs, want 5", n)
		}
	})
}
