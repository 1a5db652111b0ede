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

// takeOver lets a worker take what it can.
func (f *fixture) takeOver(worker uuid.UUID) (taken, failed []*ledger.Run) {
	f.Helper()
	taken, failed, err := f.TakeOver(f.Context(), worker, nil, 100)
	if err != nil {
		f.Fatal(err)
	}
	return taken, failed
}

func TestRunsOfADeadWorkerAreTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		thread := f.newThread()
		run := f.create(&ledger.NewRun{Run: &ledger.Run{Thread: thread, Graph: "g", Kwargs: []byte(`{"a":1}`)}, Worker: f.worker}).Run
		temporary := f.create(&ledger.NewRun{Run: &ledger.Run{Thread: uuid.New(), Temporary: true, Graph: "g"}, Worker: f.worker}).Run
		waiting := f.waiting(thread)
		time.Sleep(6 * time.Second) //nolint:forbidigo // virtual time
		other := f.newWorker()
		if taken, _ := f.takeOver(other); len(taken) != 0 {
			t.Errorf("%v are taken while the lease is not over", taken)
		}
		time.Sleep(time.Microsecond) //nolint:forbidigo // virtual time
		if taken, _, err := f.TakeOver(t.Context(), other, []string{"another"}, 100); len(taken) != 0 || err != nil {
			t.Errorf("%v of another graph are taken, %v", taken, err)
		}
		if taken, _, err := f.TakeOver(t.Context(), other, nil, 0); len(taken) != 0 || err != nil {
			t.Errorf("%v are taken although there is no place, %v", taken, err)
		}
		taken, failed := f.takeOver(other)
		if !slices.Equal(ids(taken), []uuid.UUID{run.ID, temporary.ID}) || len(failed) != 0 {
			t.Fatalf("%v are taken, %v have failed", ids(taken), failed)
		}
		for _, r := range taken {
			if r.Worker != other || r.Attempt != 2 || r.Epoch != 1 || r.Kwargs == nil {
				t.Errorf("taken over: %+v", r)
			}
		}
		// The old worker wakes up.
		f.beat(f.worker)
		if _, err := f.Finish(t.Context(), &ledger.End{Run: run, Worker: f.worker, Status: ledger.Success}); !errors.Is(err, ledger.ErrLost) {
			t.Errorf("the end by the old worker is %v", err)
		}
		if err := f.Release(t.Context(), f.worker, temporary, 0); !errors.Is(err, ledger.ErrLost) {
			t.Errorf("the release by the old worker is %v", err)
		}
		next := f.finish(&ledger.End{Run: taken[0], Worker: other, Claim: true})
		if next == nil || next.ID != waiting.ID || next.Epoch != 1 {
			t.Errorf("the next run is %+v", next)
		}
	})
}

// The same worker may lose a run and get it again, with another attempt.
func TestAttemptsAreToldApart(t *testing.T) {
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
			t.Fatalf("%+v are taken", taken)
		}
		if _, err := f.Finish(t.Context(), &ledger.End{Run: first, Worker: f.worker, Status: ledger.Success}); !errors.Is(err, ledger.ErrLost) {
			t.Errorf("the end of the first attempt is %v", err)
		}
		f.finish(&ledger.End{Run: taken[0]})
	})
}

func TestWorkerThatIsLateKeepsWhatNobodyTook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		run := f.started(f.newThread())
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time
		f.beat(f.worker)
		if taken, _ := f.takeOver(f.newWorker()); len(taken) != 0 {
			t.Errorf("%v are taken", taken)
		}
		f.finish(&ledger.End{Run: run})
	})
}

func TestWorkerThatLeavesIsFollowedAtOnce(t *testing.T) {
	f := newFixture(t, nil)
	other := f.newWorker()
	run := f.started(f.newThread())
	if err := f.Leave(t.Context(), f.worker); err != nil {
		t.Fatal(err)
	}
	if taken, _ := f.takeOver(other); !slices.Equal(ids(taken), []uuid.UUID{run.ID}) {
		t.Errorf("%v are taken", taken)
	}
	if err := f.Leave(t.Context(), uuid.New()); err != nil {
		t.Errorf("a worker that never was leaves: %v", err)
	}
}

func TestRunThatKillsItsWorkersFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		thread := f.newThread()
		run := f.started(thread)
		temporary := f.create(&ledger.NewRun{Run: &ledger.Run{Thread: uuid.New(), Temporary: true}, Worker: f.worker}).Run
		waiting := f.waiting(thread)
		for attempt := 2; attempt <= 3; attempt++ {
			time.Sleep(7 * time.Second) //nolint:forbidigo // virtual time
			if taken, failed := f.takeOver(f.newWorker()); len(taken) != 2 || taken[0].Attempt != attempt || len(failed) != 0 {
				t.Fatalf("%+v are taken, %v have failed", taken, failed)
			}
		}
		time.Sleep(7 * time.Second) //nolint:forbidigo // virtual time
		f.beat(f.worker)
		taken, failed := f.takeOver(f.worker)
		if len(taken) != 0 || !slices.Equal(ids(failed), []uuid.UUID{run.ID, temporary.ID}) || failed[0].Failure.Class != "WorkerLost" {
			t.Fatalf("%v are taken, %+v have failed", taken, failed)
		}
		if got := []ledger.RunStatus{f.status(run), f.status(temporary)}; !slices.Equal(got, []ledger.RunStatus{ledger.Error, ""}) {
			t.Errorf("the runs are %q", got)
		}
		if got := f.thread(thread); got.Status != ledger.Busy || got.Epoch != 3 {
			t.Errorf("the thread is %+v", got)
		}
		if got := f.claim(10); !slices.Equal(ids(got), []uuid.UUID{waiting.ID}) || got[0].Epoch != 3 {
			t.Errorf("then %+v are claimed", got)
		}
	})
}

func TestWorkerWithoutALeaseGetsNoRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		thread := f.newThread()
		run := f.started(thread)
		f.waiting(thread)
		time.Sleep(7 * time.Second) //nolint:forbidigo // virtual time
		if c := f.create(&ledger.NewRun{Run: &ledger.Run{Thread: f.newThread()}, Worker: f.worker}); c.Claimed {
			t.Error("it gets a run that it creates")
		}
		if _, err := f.Claim(t.Context(), f.worker, nil, 1); !errors.Is(err, ledger.ErrNoLease) {
			t.Errorf("its claim is %v", err)
		}
		if _, _, err := f.TakeOver(t.Context(), uuid.New(), nil, 1); !errors.Is(err, ledger.ErrNoLease) {
			t.Errorf("the take-over by a worker that never beat is %v", err)
		}
		if next := f.finish(&ledger.End{Run: run, Claim: true}); next != nil {
			t.Error("it gets the next run of a thread")
		}
		f.beat(f.worker)
		if got := f.claim(10); len(got) != 2 {
			t.Errorf("after a beat it gets %v", got)
		}
	})
}

func TestSweepRemovesWorkersThatAreLongGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		busy := f.newWorker()
		f.create(&ledger.NewRun{Run: &ledger.Run{Thread: f.newThread()}, Worker: busy})
		if err := f.Append(t.Context(), &ledger.Events{Thread: uuid.New(), Run: uuid.New(), First: 1, Last: 1}); err != nil {
			t.Fatal(err)
		}
		for _, want := range []int{0, 0, 2, 0} {
			if n, err := f.Sweep(t.Context(), time.Minute, 10); n != want || err != nil {
				t.Errorf("after %v %d are removed, %v; want %d", time.Now(), n, err, want)
			}
			time.Sleep(33 * time.Second) //nolint:forbidigo // virtual time
		}
		if taken, _ := f.takeOver(f.newWorker()); len(taken) != 1 {
			t.Errorf("the runs of a worker that is long gone are not taken over, but %v", taken)
		}
	})
}

// broken is a backend that cannot be read outside of transactions.
type broken struct{ ledger.Backend }

func (broken) Get(context.Context, ledger.Kind, uuid.UUID) (*ledger.Row, error) {
	return nil, errors.New("broken")
}

// A worker that has a run is told so with the transaction that gave it the run.
func TestTakenRunIsReturnedWhatever(t *testing.T) {
	f := newFixture(t, nil)
	run := f.started(f.newThread())
	if err := f.Leave(t.Context(), f.worker); err != nil {
		t.Fatal(err)
	}
	f.Ledger = ledger.New(broken{f.backend}, nil)
	if taken, _ := f.takeOver(f.newWorker()); !slices.Equal(ids(taken), []uuid.UUID{run.ID}) || taken[0].Kwargs == nil {
		t.Errorf("%v are taken", taken)
	}
}

// witnessed is a backend that knows who attends.
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

// set says whether a worker lives.
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

// endLeases ends the leases of the dead and checks how many those are.
func (f *fixture) endLeases(self uuid.UUID, want int) {
	f.Helper()
	if n, err := f.EndLeases(f.Context(), self); n != want || err != nil {
		f.Errorf("%d leases have ended, %v; want %d", n, err, want)
	}
}

func TestWorkerThatAttendedAndIsGoneIsFollowedAtOnce(t *testing.T) {
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
		f.beat(f.worker) // it attends still
		b.set(f.worker, false)
		f.endLeases(f.worker, 0) // nobody is dead to itself
		f.endLeases(other, 1)
		if taken, _ := f.takeOver(other); !slices.Equal(ids(taken), []uuid.UUID{run.ID}) {
			t.Errorf("%v are taken", taken)
		}
		time.Sleep(time.Second) //nolint:forbidigo // virtual time
		f.beat(other)
		f.endLeases(other, 0) // its lease is over
	})
}

func TestWorkerThatCannotAttendHasItsLease(t *testing.T) {
	b := newWitnessed()
	f := &fixture{T: t, Ledger: ledger.New(b, nil), backend: b}
	other := f.newWorker()
	b.refuse = errors.New("no connection")
	worker := f.newWorker()
	if err := f.Attend(t.Context(), worker); !errors.Is(err, b.refuse) {
		t.Errorf("the error is %v", err)
	}
	f.endLeases(other, 0)
	b.refuse = nil
	if err := f.Attend(t.Context(), uuid.New()); !errors.Is(err, ledger.ErrNoLease) {
		t.Errorf("a worker without a lease gets %v", err)
	}
	f.endLeases(other, 0)
}

// Without a witness there are leases only.
func TestBackendThatIsNoWitnessEndsNoLeases(t *testing.T) {
	f := newFixture(t, nil)
	if err := f.Attend(t.Context(), f.worker); err != nil {
		t.Error(err)
	}
	f.endLeases(f.newWorker(), 0)
}

// preloading is a backend that notes which rows it is told about.
type preloading struct {
	ledger.Backend
	missed []uuid.UUID // rows that transactions got without having told
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

// What the hot paths get they tell the backend beforehand, so that it can read it at once.
func TestHotPathsTellWhatTheyGet(t *testing.T) {
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
		t.Errorf("%d runs are claimed", n)
	}
	if err := f.Leave(t.Context(), f.worker); err != nil {
		t.Fatal(err)
	}
	f.worker = f.newWorker()
	f.takeOver(f.worker)
	if len(b.missed) > 0 {
		t.Errorf("%v were got without having told", b.missed)
	}
}

// Threads go on with the same revision of the program or a later one, never with an earlier
// one.
func TestAnEarlierRevisionLeavesThreadsOfALaterOneAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := newFixture(t, &ledger.Options{Revision: 1})
		later := &fixture{T: t, Ledger: ledger.New(old.backend, &ledger.Options{Revision: 2}), backend: old.backend}
		later.worker = later.newWorker()
		thread, temporary := old.newThread(), uuid.New()

		// What nobody has begun is for whoever comes first, unless a later one has accepted it.
		run := old.waiting(thread)
		got := later.claim(1)
		if len(got) != 1 || got[0].ID != run.ID {
			t.Fatalf("the later one claims %v", got)
		}
		later.finish(&ledger.End{Run: got[0]})
		accepted := later.create(&ledger.NewRun{Run: &ledger.Run{Thread: temporary, Graph: "g", Temporary: true}}).Run
		if got := old.claim(10); len(got) != 0 {
			t.Errorf("the earlier one claims %v", got)
		}
		if c := old.create(&ledger.NewRun{Run: &ledger.Run{Thread: thread, Graph: "g"}, Worker: old.worker}); c.Claimed {
			t.Error("the earlier one begins a run of a thread that the later one has changed")
		}
		if got := later.claim(10); len(got) != 2 || got[1].ID != accepted.ID {
			t.Fatalf("the later one claims %v", got)
		}

		// Both kinds stay when their worker dies.
		time.Sleep(7 * time.Second) //nolint:forbidigo // virtual time
		old.beat(old.worker)
		if taken, failed := old.takeOver(old.worker); len(taken)+len(failed) != 0 {
			t.Errorf("the earlier one takes %v over and gives %v up", taken, failed)
		}
		later.worker = later.newWorker()
		if taken, _ := later.takeOver(later.worker); len(taken) != 2 {
			t.Errorf("the later one takes %v over", taken)
		}

		// A run that the earlier one has is the later one's if the earlier one dies, and a
		// thread that the later one has changed meanwhile goes on with it.
		other := old.newThread()
		mine := old.started(other)
		later.waiting(other)
		if next := old.finish(&ledger.End{Run: mine, Claim: true}); next != nil {
			t.Errorf("the earlier one goes on with %v", next.ID)
		}
		if got := later.claim(10); len(got) != 1 || got[0].Thread != other {
			t.Errorf("the later one claims %v", got)
		}
		edited := old.newThread()
		if _, err := later.PatchThread(t.Context(), edited, nil, true, func(*ledger.Thread) error { return nil }); err != nil {
			t.Fatal(err)
		}
		old.waiting(edited)
		if got := old.claim(10); len(got) != 0 {
			t.Errorf("the earlier one claims %v of a thread that the later one has edited", got)
		}
	})
}
