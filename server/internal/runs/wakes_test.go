package runs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/bus"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/test/pgtest"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/postgres"
	"github.com/treadle-go/treadle/sqlite"
)

// place is a ledger and its saver, as opened by one process.
type place struct {
	rows  ledger.Backend
	saver Saver
}

// onEachPlace runs a test on memory and on every database. open opens the same database each
// time.
func onEachPlace(t *testing.T, test func(t *testing.T, open func() place)) {
	t.Run("memory", func(t *testing.T) {
		p := place{ledger.NewMemory(), checkpoint.NewMemory()}
		test(t, func() place { return p })
	})
	t.Run("sqlite", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "runs.db")
		test(t, func() place {
			db, err := sqlite.Open(path, nil)
			return opened(t, db, err)
		})
	})
	t.Run("postgres", func(t *testing.T) {
		url := pgtest.URL(t)
		test(t, func() place {
			db, err := postgres.Open(t.Context(), url, &postgres.Options{Migrate: true})
			return opened(t, db, err)
		})
	})
}

// database is a database of any kind.
type database interface {
	Saver
	Ledger() ledger.Backend
	io.Closer
}

// opened closes the database after the test.
func opened(t *testing.T, db database, err error) place {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close the database: %v", err)
		}
	})
	return place{db.Ledger(), db}
}

// napState is the state of the graph in the tests of wake-ups.
type napState struct{ N int }

// napGraph returns a graph. The threads of the tests have no state, so their runs end without
// a step.
func napGraph(t *testing.T) treadle.AnyGraph {
	t.Helper()
	b := treadle.New[napState]("nap")
	treadle.AddNode(b, "nap", func(_ context.Context, s napState) (napState, error) { return s, nil })
	b.Edge(treadle.Start, "nap")
	g, err := b.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// newRunner returns a runner that is drained when the test ends.
func newRunner(t *testing.T, p place, o Options) *Runner {
	t.Helper()
	o.Ledger, o.Saver = ledger.New(p.rows, nil), p.saver
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Graphs == nil {
		o.Graphs = []treadle.AnyGraph{napGraph(t)}
	}
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Drain(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return r
}

// asleep creates n threads whose wake-up is due. A worker without a process has run each of
// them once, with the given kwargs.
func asleep(t *testing.T, l *ledger.Ledger, n int, kwargs string) (threads []uuid.UUID) {
	t.Helper()
	worker := uuid.New()
	if _, err := l.Beat(t.Context(), worker, "before"); err != nil {
		t.Fatal(err)
	}
	wake := time.Now().Add(-time.Hour)
	for range n {
		c, err := l.CreateRun(t.Context(), &ledger.NewRun{
			Run:    &ledger.Run{Thread: uuid.New(), Graph: "nap", Kwargs: json.RawMessage(kwargs), Metadata: ledger.Object{"of": "a client"}},
			Create: &ledger.Thread{}, Worker: worker,
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Finish(t.Context(), &ledger.End{Run: c.Run, Worker: worker, Status: ledger.Success, Next: true, Wake: wake}); err != nil {
			t.Fatal(err)
		}
		threads = append(threads, c.Run.Thread)
	}
	if err := l.Leave(t.Context(), worker); err != nil {
		t.Fatal(err)
	}
	return threads
}

// ends collects the threads whose runs have ended.
type ends struct {
	mu   sync.Mutex
	all  []uuid.UUID
	more chan struct{}
}

func newEnds() *ends { return &ends{more: make(chan struct{}, 1)} }

func (e *ends) add(run *ledger.Run, _ ledger.RunStatus) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, run.Thread)
	select {
	case e.more <- struct{}{}:
	default:
	}
}

// await waits until n runs have ended and returns their threads.
func (e *ends) await(n int) []uuid.UUID {
	for {
		e.mu.Lock()
		all := slices.Clone(e.all)
		e.mu.Unlock()
		if len(all) >= n {
			return all
		}
		<-e.more
	}
}

// Processes share the due threads. Each wakes once, and the process that wakes a thread starts
// the run in the same transaction.
func TestDueThreadsWakeOnce(t *testing.T) {
	const threads, processes = 150, 3
	onEachPlace(t, func(t *testing.T, open func() place) {
		l := ledger.New(open().rows, nil)
		due := asleep(t, l, threads, "{}")
		e, signals := newEnds(), bus.NewMemory()
		for range processes {
			newRunner(t, open(), Options{Ended: e.add, Bus: signals})
		}
		woken := e.await(threads)
		sortIDs(woken)
		sortIDs(due)
		if !slices.Equal(woken, due) {
			t.Errorf("%d runs ended, of other threads than those %d that were due, or twice", len(woken), len(due))
		}
		queued := 0
		for _, thread := range due {
			runs, err := l.Runs(t.Context(), thread, nil, "", ledger.Page{Limit: 10})
			if err != nil || len(runs) != 2 {
				t.Fatalf("thread %s has %d runs, %v; want 2", thread, len(runs), err)
			}
			if run := runs[0]; run.Ended.IsZero() || run.Attempt != 1 || run.Metadata["of"] != "a client" {
				t.Errorf("the wake-up %s is %s, attempt %d, with the metadata %v", run.ID, run.Status, run.Attempt, run.Metadata)
			}
			if !runs[0].Started.Equal(runs[0].Created) {
				queued++
			}
		}
		if queued > 0 {
			t.Errorf("%d of %d wake-ups were queued although slots were free", queued, threads)
		}
		if left, err := l.DueThreads(t.Context(), uuid.Nil, 1, nil); err != nil || len(left) > 0 {
			t.Errorf("threads are still due: %v, %v", left, err)
		}
	})
}

func sortIDs(ids []uuid.UUID) {
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
}

// More threads than are read at a time cannot be woken, and are due before the others.
func TestFailingWakeUpsBlockNoOthers(t *testing.T) {
	onEachPlace(t, func(t *testing.T, open func() place) {
		l := ledger.New(open().rows, nil)
		asleep(t, l, wakesTaken+10, "[")
		due := asleep(t, l, 5, "{}")
		e := newEnds()
		newRunner(t, open(), Options{Ended: e.add})
		woken := e.await(len(due))
		sortIDs(woken)
		sortIDs(due)
		if !slices.Equal(woken, due) {
			t.Errorf("the threads %v woke, want %v", woken, due)
		}
	})
}

// gated holds up transactions of some threads.
type gated struct {
	ledger.Backend
	held    map[uuid.UUID]bool
	reached chan struct{} // a held transaction has started
	open    chan struct{}
}

func (g *gated) Update(ctx context.Context, lock uuid.UUID, fn func(ledger.Tx) error) error {
	if g.held[lock] {
		select {
		case g.reached <- struct{}{}:
		default:
		}
		<-g.open
	}
	return g.Backend.Update(ctx, lock, fn)
}

// Wake-ups that take long delay neither queued runs nor beats.
func TestWakeUpsDelayNoOtherWork(t *testing.T) {
	rows := ledger.NewMemory()
	l := ledger.New(rows, nil)
	g := &gated{Backend: rows, held: map[uuid.UUID]bool{}, reached: make(chan struct{}, 1), open: make(chan struct{})}
	due := asleep(t, l, 20, "{}")
	for _, thread := range due {
		g.held[thread] = true
	}
	e := newEnds()
	r := newRunner(t, place{g, checkpoint.NewMemory()}, Options{Ended: e.add})
	<-g.reached
	thread := uuid.New()
	if _, err := l.CreateRun(t.Context(), &ledger.NewRun{Run: &ledger.Run{Thread: thread, Graph: "nap"}, Create: &ledger.Thread{}}); err != nil {
		t.Fatal(err)
	}
	r.Wake()
	if got := e.await(1); got[0] != thread {
		t.Errorf("a run of %s ended, want one of %s", got[0], thread)
	}
	close(g.open)
	e.await(1 + len(due))
}

// However many threads wake up, a quarter of the slots is left to other runs.
func TestWakeUpsLeaveSlotsFree(t *testing.T) {
	for slots, want := range map[int]int{-1: 0, 1: 1, 3: 3, 8: 6, 256: 192} {
		r := newRunner(t, place{ledger.NewMemory(), checkpoint.NewMemory()}, Options{Workers: slots})
		r.stopLoop() // the loops take slots too
		r.loops.Wait()
		got := 0
		for r.takeLeaving(r.slots/4) != 0 {
			got++
		}
		left := 0
		for r.take() != 0 {
			left++
		}
		if got != want || left != max(slots, 0)-want {
			t.Errorf("of %d slots, wake-ups took %d and left %d; want %d and %d", slots, got, left, want, max(slots, 0)-want)
		}
	}
}

// More crons than are read at a time cannot create their runs, and are due before the others.
// A cron that takes long delays no queued run.
func TestFailingCronsBlockNoOthers(t *testing.T) {
	p := place{ledger.NewMemory(), checkpoint.NewMemory()}
	l := ledger.New(p.rows, nil)
	cron := func(at time.Time, schedule string) {
		t.Helper()
		if err := l.CreateCron(t.Context(), &ledger.Cron{Assistant: uuid.New(), Next: &at, Enabled: true, Schedule: schedule}); err != nil {
			t.Fatal(err)
		}
	}
	for range wakesTaken + 10 {
		cron(time.Now().Add(-time.Hour), "unknown")
	}
	cron(time.Now().Add(-time.Minute), "0 0 1 1 *")
	e := newEnds()
	reached, queued := make(chan struct{}, 1), make(chan struct{})
	thread := uuid.New()
	newRunner(t, p, Options{Ended: e.add, Cron: func(_ context.Context, c *ledger.Cron, _ time.Time) (*ledger.NewRun, error) {
		if c.Schedule == "unknown" {
			return nil, errors.New("unknown schedule")
		}
		reached <- struct{}{}
		<-queued
		return &ledger.NewRun{Run: &ledger.Run{Thread: thread, Graph: "nap"}, Create: &ledger.Thread{}}, nil
	}})
	<-reached
	first := uuid.New()
	if _, err := l.CreateRun(t.Context(), &ledger.NewRun{Run: &ledger.Run{Thread: first, Graph: "nap"}, Create: &ledger.Thread{}}); err != nil {
		t.Fatal(err)
	}
	if got := e.await(1); got[0] != first {
		t.Errorf("a run of %s ended, want one of %s", got[0], first)
	}
	close(queued)
	if got := e.await(2); got[1] != thread {
		t.Errorf("a run of %s ended, want one of %s", got[1], thread)
	}
}
