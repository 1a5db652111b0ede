package ledger_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/ledger"
)

// takeOver calls TakeOver for a worker and fails the test on an error.
func (f *fixture) takeOver(worker uuid.UUID) (taken, failed []*ledger.Run) {
	f.Helper()
	taken, failed, err := f.TakeOver(f.Context(), worker, nil, 100)
	if err != nil {
		f.Fatal(err)
	}
	return taken, failed
}

func TestTakeOverRunsOfDeadWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		thread := f.newThread()
		run := f.create(&ledger.NewRun{Run: &ledger.Run{Thread: thread, Graph: "g", Kwargs: []byte(`{"a":1}`)}, Worker: f.worker}).Run
		temporary := f.create(&ledger.NewRun{Run: &ledger.Run{Thread: uuid.New(), Temporary: true, Graph: "g"}, Worker: f.worker}).Run
		waiting := f.waiting(thread)
		time.Sleep(6 * time.Second) //nolint:forbidigo // virtual time
		other := f.newWorker()
		if taken, _ := f.takeOver(other); len(taken) != 0 {
			t.Errorf("took over %v before the lease expired", taken)
		}
		time.Sleep(time.Microsecond) //nolint:forbidigo // virtual time
		if taken, _, err := f.TakeOver(t.Context(), other, []string{"another"}, 100); len(taken) != 0 || err != nil {
			t.Errorf("took over %v of another graph, %v", taken, err)
		}
		if taken, _, err := f.TakeOver(t.Context(), other, nil, 0); len(taken) != 0 || err != nil {
			t.Errorf("took over %v with a limit of 0, %v", taken, err)
		}
		taken, failed := f.takeOver(other)
		if !slices.Equal(ids(taken), []uuid.UUID{run.ID, temporary.ID}) || len(failed) != 0 {
			t.Fatalf("took over %v, failed %v", ids(taken), failed)
		}
		for _, r := range taken {
			if r.Worker != other || r.Attempt != 2 || r.Epoch != 1 || r.Kwargs == nil {
				t.Errorf("taken over: %+v", r)
			}
		}
		// The old worker is back.
		f.beat(f.worker)
		if _, err := f.Finish(t.Context(), &ledger.End{Run: run, Worker: f.worker, Status: ledger.Success}); !errors.Is(err, ledger.ErrLost) {
			t.Errorf("Finish by the old worker: %v", err)
		}
		if err := f.Release(t.Context(), f.worker, temporary, 0); !errors.Is(err, ledger.ErrLost) {
			t.Errorf("Release by the old worker: %v", err)
		}
		next := f.finish(&ledger.End{Run: taken[0], Worker: other, Claim: true})
		if next == nil || next.ID != waiting.ID || next.Epoch != 1 {
			t.Errorf("got next run %+v", next)
		}
	})
}

// A worker may lose a run and get it back with a later attempt.
func TestFinishRejectsEarlierAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		first := f.started(f.newThread())
		time.Sleep(7 * time.Second) //nolint:forbidigo // virtual time
		other := f.newWorker()
		f.takeOver(other)
		time.Sleep(7 * time.Second) //nolint:forbidigo // virtual time
		f.beat(f.worker)
		taken, _ := f.takeOver(f.worker)
		if len(taken) != 1 || taken[0].Attempt != 3 {
			t.Fatalf("took over %+v", taken)
		}
		if _, err := f.Finish(t.Context(), &ledger.End{Run: first, Worker: f.worker, Status: ledger.Success}); !errors.Is(err, ledger.ErrLost) {
			t.Errorf("Finish of the first attempt: %v", err)
		}
		f.finish(&ledger.End{Run: taken[0]})
	})
}

func TestLateWorkerKeepsItsRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		run := f.started(f.newThread())
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time
		f.beat(f.worker)
		if taken, _ := f.takeOver(f.newWorker()); len(taken) != 0 {
			t.Errorf("took over %v", taken)
		}
		f.finish(&ledger.End{Run: run})
	})
}

func TestLeaveAllowsImmediateTakeOver(t *testing.T) {
	f := newFixture(t, nil)
	other := f.newWorker()
	run := f.started(f.newThread())
	if err := f.Leave(t.Context(), f.worker); err != nil {
		t.Fatal(err)
	}
	if taken, _ := f.takeOver(other); !slices.Equal(ids(taken), []uuid.UUID{run.ID}) {
		t.Errorf("took over %v", taken)
	}
	if err := f.Leave(t.Context(), uuid.New()); err != nil {
		t.Errorf("Leave of an unknown worker: %v", err)
	}
}

func TestRunKillingWorkersFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		thread := f.newThread()
		run := f.started(thread)
		temporary := f.create(&ledger.NewRun{Run: &ledger.Run{Thread: uuid.New(), Temporary: true}, Worker: f.worker}).Run
		waiting := f.waiting(thread)
		for attempt := 2; attempt <= 3; attempt++ {
			time.Sleep(7 * time.Second) //nolint:forbidigo // virtual time
			if taken, failed := f.takeOver(f.newWorker()); len(taken) != 2 || taken[0].Attempt != attempt || len(failed) != 0 {
				t.Fatalf("took over %+v, failed %v", taken, failed)
			}
		}
		time.Sleep(7 * time.Second) //nolint:forbidigo // virtual time
		f.beat(f.worker)
		taken, failed := f.takeOver(f.worker)
		if len(taken) != 0 || !slices.Equal(ids(failed), []uuid.UUID{run.ID, temporary.ID}) || failed[0].Failure.Class != "WorkerLost" {
			t.Fatalf("took over %v, failed %+v", taken, failed)
		}
		if got := []ledger.RunStatus{f.status(run), f.status(temporary)}; !slices.Equal(got, []ledger.RunStatus{ledger.Error, ""}) {
			t.Errorf("got runs %q", got)
		}
		if got := f.thread(thread); got.Status != ledger.Busy || got.Epoch != 3 {
			t.Errorf("got thread %+v", got)
		}
		if got := f.claim(10); !slices.Equal(ids(got), []uuid.UUID{waiting.ID}) || got[0].Epoch != 3 {
			t.Errorf("claimed %+v", got)
		}
	})
}

func TestWorkerWithoutLeaseGetsNoRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		thread := f.newThread()
		run := f.started(thread)
		f.waiting(thread)
		time.Sleep(7 * time.Second) //nolint:forbidigo // virtual time
		if c := f.create(&ledger.NewRun{Run: &ledger.Run{Thread: f.newThread()}, Worker: f.worker}); c.Claimed {
			t.Error("worker without a lease got the run that it created")
		}
		if _, err := f.Claim(t.Context(), f.worker, nil, 1); !errors.Is(err, ledger.ErrNoLease) {
			t.Errorf("claim: %v", err)
		}
		if _, _, err := f.TakeOver(t.Context(), uuid.New(), nil, 1); !errors.Is(err, ledger.ErrNoLease) {
			t.Errorf("takeover by a worker that never beat: %v", err)
		}
		if next := f.finish(&ledger.End{Run: run, Claim: true}); next != nil {
			t.Error("worker without a lease got the next run of a thread")
		}
		f.beat(f.worker)
		if got := f.claim(10); len(got) != 2 {
			t.Errorf("got %v after a beat", got)
		}
	})
}

func TestSweepRemovesDeadWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		busy := f.newWorker()
		f.create(&ledger.NewRun{Run: &ledger.Run{Thread: f.newThread()}, Worker: busy})
		if err := f.Append(t.Context(), &ledger.Events{Thread: uuid.New(), Run: uuid.New(), First: 1, Last: 1}); err != nil {
			t.Fatal(err)
		}
		for _, want := range []int{0, 0, 2, 0} {
			if n, err := f.Sweep(t.Context(), time.Minute, 10); n != want || err != nil {
				t.Errorf("at %v: removed %d, %v; want %d", time.Now(), n, err, want)
			}
			time.Sleep(33 * time.Second) //nolint:forbidigo // virtual time
		}
		if taken, _ := f.takeOver(f.newWorker()); len(taken) != 1 {
			t.Errorf("runs of a removed worker: took over %v", taken)
		}
	})
}

// broken is a backend that cannot be read outside a transaction.
type broken struct{ ledger.Backend }

func (broken) Get(context.Context, ledger.Kind, uuid.UUID) (*ledger.Row, error) {
	return nil, errors.New("broken")
}

// TakeOver returns a run's Kwargs from the transaction that assigned the run.
func TestTakeOverReadsInTransaction(t *testing.T) {
	f := newFixture(t, nil)
	run := f.started(f.newThread())
	if err := f.Leave(t.Context(), f.worker); err != nil {
		t.Fatal(err)
	}
	f.Ledger = ledger.New(broken{f.backend}, nil)
	if taken, _ := f.takeOver(f.newWorker()); !slices.Equal(ids(taken), []uuid.UUID{run.ID}) || taken[0].Kwargs == nil {
		t.Errorf("took over %v", taken)
	}
}

// witnessed is a backend that tracks which workers attend.
type witnessed struct {
	ledger.Backend
	mu     sync.Mutex
	alive  map[uuid.UUID]bool
	refuse error // of Attend
}

func newWitnessed() *witnessed {
	return &witnessed{Backend: ledger.NewMemory(), alive: map[uuid.UUID]bool{}}
}

func (w *witnessed) Attend(_ context.Context, worker uuid.UUID) error {
	if w.refuse == nil {
		w.set(worker, true)
	}
	return w.refuse
}

// set sets whether a worker is alive.
func (w *witnessed) set(worker uuid.UUID, alive bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.alive[worker] = alive
}

func (w *witnessed) Gone(_ context.Context, workers []uuid.UUID) ([]uuid.UUID, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(workers), func(id uuid.UUID) bool { return w.alive[id] }), nil
}

// endLeases ends the leases of dead workers and checks their number.
func (f *fixture) endLeases(self uuid.UUID, want int) {
	f.Helper()
	if n, err := f.EndLeases(f.Context(), self); n != want || err != nil {
		f.Errorf("ended %d leases, %v; want %d", n, err, want)
	}
}

func TestEndLeasesOfDeadAttendees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newWitnessed()
		f := &fixture{T: t, Ledger: ledger.New(b, nil), backend: b}
		f.worker = f.newWorker()
		other, silent := f.newWorker(), f.newWorker()
		for _, w := range []uuid.UUID{f.worker, other} {
			if err := f.Attend(t.Context(), w); err != nil {
				t.Fatal(err)
			}
		}
		run := f.started(f.newThread())
		f.create(&ledger.NewRun{Run: &ledger.Run{Thread: f.newThread()}, Worker: silent})
		f.endLeases(other, 0)
		f.beat(f.worker) // still attending
		b.set(f.worker, false)
		f.endLeases(f.worker, 0) // a worker never ends its own lease
		f.endLeases(other, 1)
		if taken, _ := f.takeOver(other); !slices.Equal(ids(taken), []uuid.UUID{run.ID}) {
			t.Errorf("took over %v", taken)
		}
		time.Sleep(time.Second) //nolint:forbidigo // virtual time
		f.beat(other)
		f.endLeases(other, 0) // the lease has expired
	})
}

func TestFailedAttendKeepsLease(t *testing.T) {
	b := newWitnessed()
	f := &fixture{T: t, Ledger: ledger.New(b, nil), backend: b}
	other := f.newWorker()
	b.refuse = errors.New("no connection")
	worker := f.newWorker()
	if err := f.Attend(t.Context(), worker); !errors.Is(err, b.refuse) {
		t.Errorf("got error %v", err)
	}
	f.endLeases(other, 0)
	b.refuse = nil
	if err := f.Attend(t.Context(), uuid.New()); !errors.Is(err, ledger.ErrNoLease) {
		t.Errorf("worker without a lease: %v", err)
	}
	f.endLeases(other, 0)
}

// Without a witness, leases end only by expiring.
func TestEndLeasesRequiresWitness(t *testing.T) {
	f := newFixture(t, nil)
	if err := f.Attend(t.Context(), f.worker); err != nil {
		t.Error(err)
	}
	f.endLeases(f.newWorker(), 0)
}

// preloading is a backend that records the rows read without being announced.
type preloading struct {
	ledger.Backend
	missed []uuid.UUID // rows that were read without being announced
}

func (p *preloading) Preload(ctx context.Context, lock uuid.UUID, ids []uuid.UUID, fn func(ledger.Tx) error) error {
	return p.Update(ctx, lock, func(tx ledger.Tx) error { return fn(&preloadedTx{tx, p, append(ids, lock)}) })
}

type preloadedTx struct {
	ledger.Tx
	p    *preloading
	told []uuid.UUID
}

func (tx *preloadedTx) Get(kind ledger.Kind, id uuid.UUID) (*ledger.Row, error) {
	if !slices.Contains(tx.told, id) {
		tx.p.missed = append(tx.p.missed, id)
	}
	return tx.Tx.Get(kind, id)
}

// The hot paths announce the rows that they read, so that the backend can read
// them together.
func TestHotPathsPreloadTheirRows(t *testing.T) {
	b := &preloading{Backend: ledger.NewMemory()}
	f := &fixture{T: t, Ledger: ledger.New(b, nil), backend: b}
	f.worker = f.newWorker()
	thread := f.newThread()
	run := f.started(thread)
	f.waiting(thread)
	f.finish(&ledger.End{Run: run, Claim: true, Hook: func(*ledger.Run) *ledger.Hook { return &ledger.Hook{URL: "u"} }})
	f.waiting(f.newThread())
	f.create(&ledger.NewRun{Run: &ledger.Run{Thread: uuid.New(), Temporary: true}})
	if n := len(f.claim(10)); n != 2 {
		t.Errorf("claimed %d runs", n)
	}
	if err := f.Leave(t.Context(), f.worker); err != nil {
		t.Fatal(err)
	}
	f.worker = f.newWorker()
	f.takeOver(f.worker)
	if len(b.missed) > 0 {
		t.Errorf("read without announcing: %v", b.missed)
	}
}

// A thread continues with the same or a later revision of the program, never
// with an earlier one.
func TestEarlierRevisionSkipsLaterThreads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := newFixture(t, &ledger.Options{Revision: 1})
		later := &fixture{T: t, Ledger: ledger.New(old.backend, &ledger.Options{Revision: 2}), backend: old.backend}
		later.worker = later.newWorker()
		thread, temporary := old.newThread(), uuid.New()

		// A run that has not started goes to the first claimer, unless a later
		// revision has accepted it.
		run := old.waiting(thread)
		got := later.claim(1)
		if len(got) != 1 || got[0].ID != run.ID {
			t.Fatalf("later revision claimed %v", got)
		}
		later.finish(&ledger.End{Run: got[0]})
		accepted := later.create(&ledger.NewRun{Run: &ledger.Run{Thread: temporary, Graph: "g", Temporary: true}}).Run
		if got := old.claim(10); len(got) != 0 {
			t.Errorf("earlier revision claimed %v", got)
		}
		if c := old.create(&ledger.NewRun{Run: &ledger.Run{Thread: thread, Graph: "g"}, Worker: old.worker}); c.Claimed {
			t.Error("earlier revision started a run on a thread changed by the later one")
		}
		if got := later.claim(10); len(got) != 2 || got[1].ID != accepted.ID {
			t.Fatalf("later revision claimed %v", got)
		}

		// Neither kind is taken over when its worker dies.
		time.Sleep(7 * time.Second) //nolint:forbidigo // virtual time
		old.beat(old.worker)
		if taken, failed := old.takeOver(old.worker); len(taken)+len(failed) != 0 {
			t.Errorf("earlier revision took over %v and failed %v", taken, failed)
		}
		later.worker = later.newWorker()
		if taken, _ := later.takeOver(later.worker); len(taken) != 2 {
			t.Errorf("later revision took over %v", taken)
		}

		// The later revision takes over a run if the earlier revision dies, and
		// a thread that the later revision has changed in the meantime
		// continues with it.
		other := old.newThread()
		mine := old.started(other)
		later.waiting(other)
		if next := old.finish(&ledger.End{Run: mine, Claim: true}); next != nil {
			t.Errorf("earlier revision continued with %v", next.ID)
		}
		if got := later.claim(10); len(got) != 1 || got[0].Thread != other {
			t.Errorf("later revision claimed %v", got)
		}
		edited := old.newThread()
		if _, err := later.PatchThread(t.Context(), edited, nil, true, func(*ledger.Thread) error { return nil }); err != nil {
			t.Fatal(err)
		}
		old.waiting(edited)
		if got := old.claim(10); len(got) != 0 {
			t.Errorf("earlier revision claimed %v of a thread edited by the later one", got)
		}
	})
}
