package crashtest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/delay"
	"github.com/treadle-go/treadle/internal/test/race"
	"github.com/treadle-go/treadle/internal/test/system/backends"
	"github.com/treadle-go/treadle/reduce"
)

// Threads implements [checkpoint.ThreadLister].
func (s *watched) Threads(ctx context.Context) iter.Seq2[checkpoint.Thread, error] {
	return s.Saver.(checkpoint.ThreadLister).Threads(ctx)
}

// nap is the sleep of a thread, long enough that a process may die during it.
const nap = 10 * time.Millisecond

type (
	sagaState struct{ Log reduce.List[string] }
	sagaLog   struct{ Log reduce.List[string] } // update of a node
)

// saga returns a graph with effects before and after a sleep, after a signal, and
// after the timeout of a signal.
func saga(w *world, saver checkpoint.Saver) (*treadle.Graph[sagaState, sagaState], error) {
	b := treadle.New[sagaState]("saga")
	last := treadle.Start
	node := func(name string, do func(ctx context.Context) (string, error)) {
		treadle.AddNode(b, name, func(ctx context.Context, _ sagaState) (sagaLog, error) {
			said, err := do(ctx)
			return sagaLog{reduce.List[string]{said}}, err
		})
		b.Edge(last, name)
		last = name
	}
	effect := func(ctx context.Context, label string) error {
		_, err := treadle.Do(ctx, label, func(ctx context.Context) (int, error) { return 0, w.effect(ctx, label, 0) })
		return err
	}
	node("charge", func(ctx context.Context) (string, error) { return "charged", effect(ctx, "charge") })
	node("sleep", func(ctx context.Context) (string, error) {
		began, err := treadle.Do(ctx, "began", func(context.Context) (time.Time, error) { return time.Now(), nil })
		if err != nil {
			return "", err
		}
		if err := treadle.Sleep(ctx, nap); err != nil {
			return "", err
		}
		if early := time.Until(began.Add(nap)); early > 0 {
			return "", fmt.Errorf("woke %v too early", early)
		}
		return "woke", effect(ctx, "wake")
	})
	node("wait", func(ctx context.Context) (string, error) {
		n, err := treadle.WaitFor[int](ctx, "paid", nil)
		if err != nil {
			return "", err
		}
		return fmt.Sprint("paid ", n), effect(ctx, "paid")
	})
	node("late", func(ctx context.Context) (string, error) {
		n, err := treadle.WaitFor[int](ctx, "paid", &treadle.WaitOptions{Deadline: time.Now().Add(nap), OnTimeout: -1})
		if err != nil {
			return "", err
		}
		return fmt.Sprint("late ", n), effect(ctx, "late")
	})
	return b.Compile(&treadle.Options{Saver: saver, Logger: slog.New(slog.DiscardHandler)})
}

// wakeAll runs a restarted program: it continues the unfinished threads of an earlier
// process, starts the new ones, and wakes them until they finish or wait for a signal.
func wakeAll(o order, db backends.Database) error {
	journal, err := os.OpenFile(o.Journal, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer journal.Close()
	w := &world{order: o, tell: func(line string) error {
		_, err := journal.WriteString(line + "\n")
		return err
	}}
	fmt.Fprintln(os.Stdout, "ready")
	g, err := saga(w, &watched{db, w})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for th, err := range g.Unfinished(ctx) {
		if err == nil {
			_, err = th.Continue(ctx)
		}
		if _, waits := errors.AsType[*treadle.InterruptError](err); err != nil && !waits {
			return err
		}
	}
	done := make(chan error, 1)
	go func() { done <- treadle.Wake(ctx, g) }()
	for _, seed := range o.Seeds {
		th := g.Thread(threadName(seed))
		snap, err := th.State(ctx)
		if err == nil && snap.ID.IsZero() {
			_, err = th.Run(ctx, sagaState{})
		}
		if _, waits := errors.AsType[*treadle.InterruptError](err); err != nil && !waits {
			return err
		}
	}
	began := time.Now()
	for _, seed := range o.Seeds {
		for {
			snap, err := g.Thread(threadName(seed)).State(ctx)
			if err != nil {
				return err
			}
			if len(snap.Next) == 0 || !o.Signalled && waitsForSignal(snap) {
				break
			}
			if time.Since(began) > 2*time.Minute {
				return fmt.Errorf("thread %s did not continue: %+v", snap.Thread, snap)
			}
			if err := delay.For(ctx, time.Millisecond); err != nil {
				return err
			}
		}
	}
	cancel()
	return <-done
}

func waitsForSignal(snap *treadle.Snapshot) bool {
	return slices.ContainsFunc(snap.Pauses, func(p treadle.Pause) bool {
		return p.Kind == treadle.SignalPause && p.Due.IsZero()
	})
}

// A process that is killed around a wake-up, or around a signal that is taken, loses
// none and doubles none.
func TestKilledWakersLoseAndDoubleNothing(t *testing.T) {
	onEach(t, func(t *testing.T, b *backends.Backend, address string) {
		want := 20
		if race.Enabled {
			want = 5
		}
		if os.Getenv(soakEnv) != "" {
			want *= 10
		}
		kills := 0
		for seed := uint64(1); kills < want && !t.Failed(); seed += casesThreads {
			c := newCase(t, b, address, seed)
			c.Role = "waker"
			kills += c.wake()
		}
		t.Logf("%d kills", kills)
	})
}

// wake starts processes until the threads of the case are over, and reports how many
// of them were killed.
func (c *testCase) wake() (kills int) {
	signals := map[uint64]bool{}
	for range 100 {
		killed, _ := c.playOnce()
		if killed {
			kills++
		}
		c.check()
		c.readJournal()
		if c.Failed() {
			return kills
		}
		if c.Signalled && !killed {
			c.finished()
			return kills
		}
		c.Signalled = c.signal(signals)
	}
	c.Fatal("threads unfinished after 100 processes")
	return kills
}

// saga opens the graph of the threads, until closeDB is called.
func (c *testCase) saga() (g *treadle.Graph[sagaState, sagaState], closeDB func()) {
	c.Helper()
	db, closeDB := c.opened()
	g, err := saga(&world{}, db)
	if err != nil {
		c.Fatal(err)
	}
	return g, closeDB
}

// signal sends each thread one signal, as soon as it exists, and reports whether all
// have theirs.
func (c *testCase) signal(sent map[uint64]bool) bool {
	c.Helper()
	g, closeDB := c.saga()
	defer closeDB()
	all := true
	for _, seed := range c.Seeds {
		if sent[seed] {
			continue
		}
		err := g.Thread(threadName(seed)).Signal(c.Context(), "paid", int(seed))
		if err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
			c.Fatal(err)
		}
		sent[seed] = err == nil
		all = all && sent[seed]
	}
	return all
}

// finished checks that each thread has done everything, once.
func (c *testCase) finished() {
	c.Helper()
	g, closeDB := c.saga()
	defer closeDB()
	effects := c.readJournal().done
	for _, seed := range c.Seeds {
		name := threadName(seed)
		snap, err := g.Thread(name).State(c.Context())
		if err != nil {
			c.Fatal(err)
		}
		var s sagaState
		if err := snap.Read(&s); err != nil {
			c.Fatal(err)
		}
		if want := []string{"charged", "woke", fmt.Sprint("paid ", seed), "late -1"}; !slices.Equal([]string(s.Log), want) {
			c.Errorf("thread %s: %q, want %q", name, s.Log, want)
		}
		got := slices.Sorted(slices.Values(effects[name]))
		if want := []string{"charge(0)", "late(0)", "paid(0)", "wake(0)"}; !slices.Equal(got, want) {
			c.Errorf("effects of thread %s are %q, want %q", name, got, want)
		}
	}
}
