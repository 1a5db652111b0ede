package runs

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/internal/origin"
	"github.com/treadle-go/treadle/ledger"
)

// inFlight counts deliveries.
type inFlight struct {
	mu        sync.Mutex
	now, most map[string]int // by receiver, and in total
	fast      time.Duration  // when the fast receiver had everything
	left      int            // deliveries to the fast receiver
	began     time.Time
}

func (f *inFlight) send(ctx context.Context, h *ledger.Hook) error {
	to := origin.Of(h.URL)
	f.add(to, 1)
	defer f.add(to, -1)
	if to != "https://fast.example" {
		<-ctx.Done()
		return ctx.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left--; f.left == 0 {
		f.fast = time.Since(f.began)
	}
	return nil
}

func (f *inFlight) add(to string, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, key := range []string{to, "all"} {
		f.now[key] += n
		f.most[key] = max(f.most[key], f.now[key])
	}
}

func TestSlowReceiverDoesNotDelayOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := ledger.NewMemory()
		f := &inFlight{now: map[string]int{}, most: map[string]int{}, left: 20, began: time.Now()}
		put := func(url string, n int) {
			for range n {
				err := b.Update(t.Context(), uuid.New(), func(tx ledger.Tx) error {
					return tx.Put(&ledger.Row{Kind: ledger.Hooks, ID: uuid.New(), Parent: uuid.New(), Due: tx.Now(), Created: tx.Now(), Doc: fmt.Appendf(nil, `{"url":%q}`, url), Body: []byte("{}")})
				})
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		put("https://slow.example/hook", 200)
		put("https://fast.example/hook", 20)
		r, err := New(Options{Ledger: ledger.New(b, nil), Logger: slog.New(slog.DiscardHandler), Send: f.send})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second) //nolint:forbidigo // virtual time
		for i := range 20 {
			put(fmt.Sprintf("https://slow%d.example/hook", i), 10)
		}
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time
		if err := r.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if f.left != 0 || f.fast > 2*time.Second {
			t.Errorf("%d webhooks of the fast receiver are left, the last came after %s", f.left, f.fast)
		}
		if all, slow := f.most["all"], f.most["https://slow.example"]; all > maxDeliveries || slow != maxReceiver {
			t.Errorf("%d deliveries at a time, %d to the slow receiver", all, slow)
		}
	})
}

// A database that was slow, or away, must not keep webhooks back when it responds again.
func TestSlowDatabaseDelaysWebhooksBriefly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := ledger.NewMemory()
		for range 20 {
			err := b.Update(t.Context(), uuid.New(), func(tx ledger.Tx) error {
				return tx.Put(&ledger.Row{Kind: ledger.Hooks, ID: uuid.New(), Parent: uuid.New(), Due: tx.Now(), Created: tx.Now(), Doc: []byte(`{"url":"https://one.example"}`), Body: []byte("{}")})
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		var sent atomic.Int32
		slow := sync.OnceFunc(func() { time.Sleep(time.Minute) }) //nolint:forbidigo // virtual time
		r, err := New(Options{Ledger: ledger.New(&findingHooks{b, slow}, nil), Logger: slog.New(slog.DiscardHandler),
			Send: func(context.Context, *ledger.Hook) error { sent.Add(1); return nil }})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(90 * time.Second) //nolint:forbidigo // virtual time
		if n := sent.Load(); n != 20 {
			t.Errorf("%d of 20 webhooks were sent within half a minute", n)
		}
		if err := r.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// The functions of the options may use the runner, which may start runs as soon as it looks for them.
func TestReadyPrecedesWork(t *testing.T) {
	ready := false
	used := func() {
		if !ready {
			t.Error("the runner works before it is ready")
		}
	}
	b := &using{Backend: ledger.NewMemory(), used: used}
	r, err := New(Options{Ledger: ledger.New(b, nil), Logger: slog.New(slog.DiscardHandler), Alone: true, Ready: func(r *Runner) { ready = r != nil }})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Drain(t.Context()); err != nil {
		t.Error(err)
	}
}

// using is a backend that reports each transaction.
type using struct {
	ledger.Backend
	used func()
}

func (u *using) Update(ctx context.Context, lock uuid.UUID, fn func(ledger.Tx) error) error {
	u.used()
	return u.Backend.Update(ctx, lock, fn)
}

// findingHooks is a backend that reports each search for webhooks.
type findingHooks struct {
	ledger.Backend
	used func()
}

func (f *findingHooks) Find(ctx context.Context, q *ledger.Query) iter.Seq2[*ledger.Row, error] {
	if q.Kind == ledger.Hooks {
		f.used()
	}
	return f.Backend.Find(ctx, q)
}
