package ledger_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/ledger"
)

// fixture is a ledger in memory with one worker.
type fixture struct {
	*testing.T
	*ledger.Ledger
	backend ledger.Backend
	worker  uuid.UUID
}

func newFixture(t *testing.T, o *ledger.Options) *fixture {
	b := ledger.NewMemory()
	f := &fixture{T: t, Ledger: ledger.New(b, o), backend: b}
	f.worker = f.newWorker()
	return f
}

// newWorker returns a worker with a lease.
func (f *fixture) newWorker() uuid.UUID {
	f.Helper()
	id := uuid.Must(uuid.NewV7())
	f.beat(id)
	return id
}

func (f *fixture) beat(worker uuid.UUID) []*ledger.Run {
	f.Helper()
	ordered, err := f.Beat(f.Context(), worker, "test")
	if err != nil {
		f.Fatal(err)
	}
	return ordered
}

func (f *fixture) newThread() uuid.UUID {
	f.Helper()
	t := &ledger.Thread{}
	if err := f.CreateThread(f.Context(), t); err != nil {
		f.Fatal(err)
	}
	return t.ID
}

func (f *fixture) create(n *ledger.NewRun) *ledger.Created {
	f.Helper()
	c, err := f.CreateRun(f.Context(), n)
	if err != nil {
		f.Fatal(err)
	}
	return c
}

// started creates a run that f.worker executes.
func (f *fixture) started(thread uuid.UUID) *ledger.Run {
	f.Helper()
	c := f.create(&ledger.NewRun{Run: &ledger.Run{Thread: thread, Graph: "g"}, Worker: f.worker})
	if !c.Claimed {
		f.Fatalf("run %s not claimed", c.Run.ID)
	}
	return c.Run
}

// waiting creates a pending run.
func (f *fixture) waiting(thread uuid.UUID) *ledger.Run {
	f.Helper()
	return f.create(&ledger.NewRun{Run: &ledger.Run{Thread: thread, Graph: "g"}}).Run
}

func (f *fixture) finish(e *ledger.End) *ledger.Run {
	f.Helper()
	if e.Worker == uuid.Nil {
		e.Worker = f.worker
	}
	if e.Status == "" {
		e.Status = ledger.Success
	}
	next, err := f.Finish(f.Context(), e)
	if err != nil {
		f.Fatal(err)
	}
	return next
}

func (f *fixture) claim(n int) []*ledger.Run {
	f.Helper()
	runs, err := f.Claim(f.Context(), f.worker, nil, n)
	if err != nil {
		f.Fatal(err)
	}
	return runs
}

// status returns the status of a run, or "" if it does not exist.
func (f *fixture) status(run *ledger.Run) ledger.RunStatus {
	f.Helper()
	r, err := f.Run(f.Context(), uuid.Nil, run.ID, nil)
	if errors.Is(err, ledger.ErrNotFound) {
		return ""
	}
	if err != nil {
		f.Fatal(err)
	}
	return r.Status
}

func (f *fixture) thread(id uuid.UUID) *ledger.Thread {
	f.Helper()
	t, err := f.Thread(f.Context(), id, nil)
	if err != nil {
		f.Fatal(err)
	}
	return t
}

// Run is defined because the embedded T's Run would hide the ledger's.
func (f *fixture) Run(ctx context.Context, thread, id uuid.UUID, filter *ledger.Filter) (*ledger.Run, error) {
	return f.Ledger.Run(ctx, thread, id, filter)
}

func ids(runs []*ledger.Run) (all []uuid.UUID) {
	for _, r := range runs {
		all = append(all, r.ID)
	}
	return all
}

func TestRunLifecycle(t *testing.T) {
	f := newFixture(t, nil)
	thread := uuid.New()
	c := f.create(&ledger.NewRun{
		Run:    &ledger.Run{Thread: thread, Graph: "g", Kwargs: json.RawMessage(`{"input":1}`)},
		Create: &ledger.Thread{Metadata: ledger.Object{"a": "b"}}, ThreadMetadata: ledger.Object{"graph_id": "g"}, Worker: f.worker,
	})
	if !c.Claimed || c.Run.Status != ledger.Running || c.Run.Attempt != 1 || c.Run.Worker != f.worker || string(c.Run.Kwargs) != `{"input":1}` {
		t.Fatalf("got run %+v", c.Run)
	}
	if got := f.thread(thread); got.Status != ledger.Busy || got.Graph() != "g" || got.Metadata["a"] != "b" || string(got.Interrupts) != "{}" {
		t.Errorf("got thread %+v", got)
	}
	second := f.create(&ledger.NewRun{Run: &ledger.Run{Thread: thread, Graph: "g"}, Worker: f.worker})
	if second.Claimed {
		t.Fatal("two running runs on one thread")
	}
	hook := func(r *ledger.Run) *ledger.Hook { return &ledger.Hook{URL: "http://x", Body: []byte(r.Status)} }
	next := f.finish(&ledger.End{Run: c.Run, Seq: 7, Head: "cp", Hook: hook, Claim: true})
	if next == nil || next.ID != second.Run.ID || string(next.Kwargs) != "{}" || next.Seq != 7 {
		t.Fatalf("got next run %+v", next)
	}
	if _, err := f.Finish(t.Context(), &ledger.End{Run: c.Run, Worker: f.worker, Status: ledger.Success}); !errors.Is(err, ledger.ErrLost) {
		t.Errorf("second Finish: %v", err)
	}
	f.finish(&ledger.End{Run: next, Next: true, Interrupts: json.RawMessage(`{"t":[1]}`), Small: ledger.Object{"x": "y"}, Seq: 5})
	if got := f.thread(thread); got.Status != ledger.Interrupted || string(got.Interrupts) != `{"t":[1]}` || got.Small["x"] != "y" || got.Seq != 7 {
		t.Errorf("got thread %+v", got)
	}
	stored, err := f.Run(t.Context(), thread, c.Run.ID, nil)
	if err != nil || stored.Status != ledger.Success || stored.Head != "cp" || stored.Worker != uuid.Nil || stored.Ended.IsZero() || string(stored.Kwargs) != `{"input":1}` {
		t.Errorf("got run %+v, %v", stored, err)
	}
	hooks, err := f.DueHooks(t.Context(), 10, nil)
	if err != nil || len(hooks) != 1 || hooks[0].Run != c.Run.ID || string(hooks[0].Body) != "success" {
		t.Errorf("got webhooks %+v, %v", hooks, err)
	}
}

func TestThreadStatusAfterRun(t *testing.T) {
	failure := &ledger.Failure{Class: "E", Message: "m"}
	for _, test := range []struct {
		end  ledger.End
		want ledger.ThreadStatus
		run  ledger.RunStatus
	}{
		{ledger.End{Status: ledger.Success}, ledger.Idle, ledger.Success},
		{ledger.End{Status: ledger.Success, Next: true}, ledger.Interrupted, ledger.Success},
		{ledger.End{Status: ledger.Error, Failure: failure}, ledger.Failed, ledger.Error},
		{ledger.End{Status: ledger.Error, Failure: failure, Next: true}, ledger.Failed, ledger.Error},
		{ledger.End{Status: ledger.TimedOut, Failure: failure}, ledger.Failed, ledger.TimedOut},
		{ledger.End{Status: ledger.RunCanceled, Failure: failure}, ledger.Interrupted, ledger.RunCanceled},
		{ledger.End{Status: ledger.RunCanceled, Failure: failure, Delete: true, Next: true}, ledger.Idle, ""},
	} {
		f := newFixture(t, nil)
		thread := f.newThread()
		test.end.Run = f.started(thread)
		f.finish(&test.end)
		got := f.thread(thread)
		if got.Status != test.want || (got.Error != nil) != (test.end.Failure != nil) || f.status(test.end.Run) != test.run {
			t.Errorf("after %+v: got thread status %s with %v, run status %q", test.end, got.Status, got.Error, f.status(test.end.Run))
		}
		// With another pending run, the thread is busy; its final status comes
		// from that run.
		run := f.started(thread)
		f.waiting(thread)
		test.end.Run, test.end.Claim = run, true
		next := f.finish(&test.end)
		if got := f.thread(thread); got.Status != ledger.Busy || next == nil {
			t.Errorf("after %+v, thread with another run: got %s", test.end, got.Status)
		}
		f.finish(&ledger.End{Run: next})
		if got := f.thread(thread); got.Status != ledger.Idle || got.Error != nil {
			t.Errorf("final thread status: got %s with %v", got.Status, got.Error)
		}
	}
}

func TestStrategies(t *testing.T) {
	for strategy, want := range map[ledger.Strategy]struct {
		err            error
		order          ledger.Action
		waiting, fresh ledger.RunStatus
	}{
		ledger.Reject:    {err: ledger.ErrBusy, waiting: ledger.Pending},
		ledger.Enqueue:   {waiting: ledger.Pending, fresh: ledger.Pending},
		ledger.Interrupt: {order: ledger.CancelRun, waiting: ledger.RunCanceled, fresh: ledger.Pending},
		ledger.Rollback:  {order: ledger.RollbackRun, waiting: "", fresh: ledger.Pending},
	} {
		f := newFixture(t, nil)
		thread := f.newThread()
		running, waiting := f.started(thread), f.waiting(thread)
		fresh := &ledger.Run{ID: uuid.New(), Thread: thread, Strategy: strategy, Graph: "g"}
		c, err := f.CreateRun(t.Context(), &ledger.NewRun{Run: fresh, Worker: f.worker})
		if !errors.Is(err, want.err) {
			t.Errorf("%s: %v, want %v", strategy, err, want.err)
		}
		if got := f.status(waiting); got != want.waiting {
			t.Errorf("%s: pending run: got %q, want %q", strategy, got, want.waiting)
		}
		if got := f.status(fresh); got != want.fresh {
			t.Errorf("%s: new run: got %q, want %q", strategy, got, want.fresh)
		}
		if r, err := f.Run(t.Context(), thread, running.ID, nil); err != nil || r.Status != ledger.Running || r.Order != want.order {
			t.Errorf("%s: running run: got %+v, %v", strategy, r, err)
		}
		if want.order == ledger.NoAction {
			continue
		}
		if !slices.Equal(ids(c.Ordered), []uuid.UUID{running.ID}) || !slices.Equal(ids(c.Ended), []uuid.UUID{waiting.ID}) {
			t.Errorf("%s: ordered %v, ended %v", strategy, ids(c.Ordered), ids(c.Ended))
		}
		if ordered := f.beat(f.worker); len(ordered) != 1 || ordered[0].Order != want.order {
			t.Errorf("%s: orders to the worker: %v", strategy, ordered)
		}
		if next := f.finish(&ledger.End{Run: running, Status: ledger.RunCanceled, Claim: true}); next == nil || next.ID != fresh.ID {
			t.Errorf("%s: got next run %v", strategy, next)
		}
	}
}

func TestAllStrategiesStartOnIdleThread(t *testing.T) {
	for _, s := range []ledger.Strategy{"", ledger.Reject, ledger.Enqueue, ledger.Interrupt, ledger.Rollback} {
		f := newFixture(t, nil)
		c := f.create(&ledger.NewRun{Run: &ledger.Run{Thread: f.newThread(), Strategy: s}, Worker: f.worker})
		if !c.Claimed || c.Run.Strategy == "" {
			t.Errorf("%q: got run %+v", s, c.Run)
		}
	}
	f := newFixture(t, nil)
	if _, err := f.CreateRun(t.Context(), &ledger.NewRun{Run: &ledger.Run{Thread: f.newThread(), Strategy: "wait"}}); err == nil {
		t.Error("unknown strategy accepted")
	}
}

func TestPendingRunsAreLimited(t *testing.T) {
	f := newFixture(t, &ledger.Options{MaxPending: 3})
	thread := f.newThread()
	f.started(thread)
	for range 3 {
		f.waiting(thread)
	}
	if _, err := f.CreateRun(t.Context(), &ledger.NewRun{Run: &ledger.Run{Thread: thread}}); !errors.Is(err, ledger.ErrFull) {
		t.Errorf("fourth pending run: %v", err)
	}
	f.create(&ledger.NewRun{Run: &ledger.Run{Thread: thread, Strategy: ledger.Interrupt}})
	f.waiting(thread)
}

func TestRunsOfThreadStartInDueOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, &ledger.Options{Lease: time.Hour})
		thread := f.newThread()
		var want []uuid.UUID
		for _, after := range []int{3, 1, 2} {
			due := time.Now().Add(time.Duration(after) * time.Second)
			want = append(want, f.create(&ledger.NewRun{Run: &ledger.Run{Thread: thread, Due: due}, Worker: f.worker}).Run.ID)
		}
		want = []uuid.UUID{want[1], want[2], want[0]}
		if next, err := f.NextDue(t.Context()); err != nil || !next.Equal(time.Now().Add(time.Second)) {
			t.Errorf("next due at %v, %v", next, err)
		}
		var got []uuid.UUID
		for range 4 {
			for _, r := range f.claim(10) {
				got = append(got, r.ID)
				f.finish(&ledger.End{Run: r})
			}
			time.Sleep(time.Second) //nolint:forbidigo // virtual time
		}
		if !slices.Equal(got, want) {
			t.Errorf("got start order %v, want %v", got, want)
		}
		if next, err := f.NextDue(t.Context()); err != nil || !next.IsZero() {
			t.Errorf("next due at %v, %v at the end", next, err)
		}
	})
}

func TestClaimSkipsRunsNotYetDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, &ledger.Options{Lease: time.Hour})
		for _, temporary := range []bool{false, true} {
			c := f.create(&ledger.NewRun{Run: &ledger.Run{Thread: f.newThread(), Temporary: temporary, Due: time.Now().Add(time.Minute)}, Worker: f.worker})
			if c.Claimed || len(f.claim(1)) > 0 {
				t.Error("run claimed before it is due")
			}
			time.Sleep(time.Minute) //nolint:forbidigo // virtual time
			if got := f.claim(1); len(got) != 1 || got[0].ID != c.Run.ID || got[0].Status != ledger.Running {
				t.Errorf("claimed %v when due", got)
			}
		}
	})
}

func TestClaimTakesOneRunPerThread(t *testing.T) {
	f := newFixture(t, nil)
	want := map[uuid.UUID]bool{}
	for i := range 6 {
		thread := f.newThread()
		graph := fmt.Sprint("g", i%3)
		first := f.create(&ledger.NewRun{Run: &ledger.Run{Thread: thread, Graph: graph}}).Run
		f.create(&ledger.NewRun{Run: &ledger.Run{Thread: thread, Graph: "g0"}})
		temporary := f.create(&ledger.NewRun{Run: &ledger.Run{Thread: uuid.New(), Temporary: true, Graph: graph}}).Run
		want[first.ID], want[temporary.ID] = i%3 != 2, i%3 != 2
	}
	got, err := f.Claim(t.Context(), f.worker, []string{"g0", "g1"}, 100)
	if err != nil || len(got) != 8 {
		t.Fatalf("claimed %d, %v; want 8", len(got), err)
	}
	for _, r := range got {
		if !want[r.ID] {
			t.Errorf("claimed %+v", r)
		}
	}
	if got, err := f.Claim(t.Context(), f.worker, []string{}, 100); len(got) != 0 || err != nil {
		t.Errorf("claimed %d of no graphs, %v", len(got), err)
	}
	if got := f.claim(1); len(got) != 1 || got[0].Graph != "g2" {
		t.Errorf("claimed %v of all graphs", got)
	}
}

// This holds even if there are more threads of other graphs than one claim
// passes over.
func TestClaimFindsRunsAmongOtherGraphs(t *testing.T) {
	f := newFixture(t, nil)
	wait := func(graph string) *ledger.Run {
		return f.create(&ledger.NewRun{Run: &ledger.Run{Thread: f.newThread(), Graph: graph}}).Run
	}
	for range 150 {
		wait("other")
	}
	first, second := wait("b"), wait("a")
	for range 3 {
		wait("b")
	}
	var got []*ledger.Run
	for len(got) < 5 {
		claimed, err := f.Claim(t.Context(), f.worker, []string{"a", "b"}, 2)
		if err != nil || len(claimed) == 0 {
			t.Fatalf("after %d runs: claimed %d, %v", len(got), len(claimed), err)
		}
		got = append(got, claimed...)
	}
	if got[0].ID != first.ID || got[1].ID != second.ID {
		t.Errorf("claimed %s and %s first, want the earliest due: %s and %s", got[0].ID, got[1].ID, first.ID, second.ID)
	}
	if more, err := f.Claim(t.Context(), f.worker, []string{"a", "b"}, 2); len(more) != 0 || err != nil {
		t.Errorf("claimed %d more, %v", len(more), err)
	}
	if rest := f.claim(200); len(rest) != 150 {
		t.Errorf("claimed %d of all graphs, want 150", len(rest))
	}
}

// Finish leaves a run of another graph to a worker that serves the graph.
func TestFinishClaimsOnlySameGraph(t *testing.T) {
	f := newFixture(t, nil)
	thread := f.newThread()
	run := f.started(thread)
	f.create(&ledger.NewRun{Run: &ledger.Run{Thread: thread, Graph: "other"}})
	end := &ledger.End{Run: run, Claim: true}
	if next := f.finish(end); next != nil || end.Left != 1 {
		t.Errorf("claimed %+v, and %d runs are left", next, end.Left)
	}
}

// Finish reports the remaining pending runs, so the caller can tell whether to
// look for work.
func TestFinishReportsPendingRuns(t *testing.T) {
	f := newFixture(t, nil)
	thread := f.newThread()
	run := f.started(thread)
	for range 3 {
		f.waiting(thread)
	}
	for _, want := range []int{2, 1, 0, 0} {
		end := &ledger.End{Run: run, Claim: true}
		run = f.finish(end)
		if end.Left != want {
			t.Errorf("%d runs are left, want %d", end.Left, want)
		}
	}
	end := &ledger.End{Run: f.started(thread)}
	f.waiting(thread)
	f.finish(end)
	if end.Left != 1 {
		t.Errorf("%d runs left by a worker that claims none", end.Left)
	}
}

// Finishing a run keeps concurrent changes, whether its worker created the run
// or claimed it.
func TestFinishKeepsConcurrentChanges(t *testing.T) {
	f := newFixture(t, nil)
	thread := f.newThread()
	run := f.started(thread)
	f.waiting(thread)
	for i := range 2 {
		if i == 1 { // in the other round, only the thread changes
			if _, _, err := f.Cancel(t.Context(), thread, []uuid.UUID{run.ID}, ledger.CancelRun, nil); err != nil {
				t.Fatal(err)
			}
		}
		_, err := f.PatchThread(t.Context(), thread, nil, false, func(th *ledger.Thread) error {
			th.Metadata = ledger.Object{"round": fmt.Sprint(i)}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		ended := run.ID
		run = f.finish(&ledger.End{Run: run, Claim: true, Small: ledger.Object{"i": fmt.Sprint(i)}})
		got, err := f.Thread(t.Context(), thread, nil)
		if err != nil || got.Metadata["round"] != fmt.Sprint(i) || got.Small["i"] != fmt.Sprint(i) || (got.Status == ledger.Busy) != (run != nil) {
			t.Errorf("round %d: got thread %+v, %v", i, got, err)
		}
		if r, err := f.Run(t.Context(), thread, ended, nil); err != nil || r.Status != ledger.Success || r.Order != ledger.NoAction || r.Worker != uuid.Nil || r.Ended.IsZero() {
			t.Errorf("round %d: got run %+v, %v", i, r, err)
		}
	}
	if run != nil {
		t.Errorf("got a third run: %+v", run)
	}
}

func TestSameKeyReturnsSameRun(t *testing.T) {
	f := newFixture(t, nil)
	thread := f.newThread()
	run := func(key string, thread uuid.UUID, temporary bool, owner string) *ledger.NewRun {
		return &ledger.NewRun{
			Run: &ledger.Run{Thread: thread, Key: key, Temporary: temporary, Strategy: ledger.Reject, Kwargs: json.RawMessage(`{"k":1}`), Metadata: ledger.Object{"owner": owner}},
			Filter: &ledger.Filter{Auth: func() (c []ledger.Condition) {
				if owner != "" {
					c = []ledger.Condition{{Key: "owner", Values: []any{owner}}}
				}
				return c
			}()},
		}
	}
	first := f.create(run("key", thread, false, ""))
	again := f.create(run("key", thread, false, ""))
	if !again.Old || again.Run.ID != first.Run.ID || string(again.Run.Kwargs) != `{"k":1}` {
		t.Errorf("second create: got %+v of %+v", again.Run, again)
	}
	if found, err := f.RunWithKey(t.Context(), thread, "key"); err != nil || found.ID != first.Run.ID || found.Kwargs != nil {
		t.Errorf("run with the key: %+v, %v", found, err)
	}
	for _, x := range []struct {
		thread uuid.UUID
		key    string
	}{{thread, "other"}, {thread, ""}, {uuid.New(), "key"}} {
		if found, err := f.RunWithKey(t.Context(), x.thread, x.key); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("run with the key %q: %+v, %v", x.key, found, err)
		}
	}
	if other := f.create(run("key", f.newThread(), false, "")); other.Old {
		t.Error("key of a run on another thread matched")
	}
	a, b := f.create(run("key", uuid.New(), true, "ann")), f.create(run("key", uuid.New(), true, "ann"))
	if a.Old || !b.Old || a.Run.ID != b.Run.ID {
		t.Errorf("got temporary runs %+v and %+v", a, b)
	}
	if c := f.create(run("key", uuid.New(), true, "bob")); c.Old {
		t.Error("bob got ann's run")
	}
	if _, err := f.CreateRun(t.Context(), run("other", thread, false, "")); !errors.Is(err, ledger.ErrBusy) {
		t.Errorf("other key: %v", err)
	}
	dup := run("", thread, false, "")
	dup.ID = first.Run.ID
	if c := f.create(dup); !c.Old || c.Run.ID != first.Run.ID {
		t.Errorf("same ID: got %+v", c)
	}
	dup.Thread = f.newThread()
	if _, err := f.CreateRun(t.Context(), dup); !errors.Is(err, ledger.ErrExists) {
		t.Errorf("same ID on another thread: %v", err)
	}
}

func TestConcurrentSameKeyCreatesOneRun(t *testing.T) {
	f := newFixture(t, nil)
	var mu sync.Mutex
	fresh := 0
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			c, err := f.CreateRun(t.Context(), &ledger.NewRun{Run: &ledger.Run{Thread: uuid.New(), Temporary: true, Key: "key"}})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			} else if !c.Old {
				fresh++
			}
		})
	}
	all.Wait()
	if fresh != 1 {
		t.Errorf("created %d runs", fresh)
	}
}

func TestCreateRunRequiresThread(t *testing.T) {
	f := newFixture(t, nil)
	if _, err := f.CreateRun(t.Context(), &ledger.NewRun{Run: &ledger.Run{Thread: uuid.New()}}); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("without a thread: %v", err)
	}
	thread := &ledger.Thread{Metadata: ledger.Object{"owner": "ann"}}
	if err := f.CreateThread(t.Context(), thread); err != nil {
		t.Fatal(err)
	}
	n := &ledger.NewRun{Run: &ledger.Run{Thread: thread.ID}, Create: &ledger.Thread{}, Filter: &ledger.Filter{Auth: []ledger.Condition{{Key: "owner", Values: []any{"bob"}}}}}
	if _, err := f.CreateRun(t.Context(), n); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("on another user's thread: %v", err)
	}
	if got := f.thread(thread.ID); got.Status != ledger.Idle {
		t.Errorf("got status %s after the rejected run", got.Status)
	}
}

func TestTemporaryRunIsDeletedAtEnd(t *testing.T) {
	f := newFixture(t, nil)
	thread := uuid.New()
	c := f.create(&ledger.NewRun{Run: &ledger.Run{Thread: thread, Temporary: true}, Worker: f.worker})
	if !c.Claimed {
		t.Fatal("run not claimed")
	}
	if _, err := f.Thread(t.Context(), thread, nil); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("thread of the run: %v", err)
	}
	f.finish(&ledger.End{Run: c.Run, Seq: 3})
	if got := f.status(c.Run); got != "" {
		t.Errorf("got status %q after the end", got)
	}
	for r, err := range f.backend.Find(t.Context(), &ledger.Query{Kind: ledger.Runs}) {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestCancel(t *testing.T) {
	for _, action := range []ledger.Action{ledger.CancelRun, ledger.RollbackRun} {
		f := newFixture(t, nil)
		thread := f.newThread()
		over := f.started(thread)
		f.finish(&ledger.End{Run: over})
		running, waiting, stays := f.started(thread), f.waiting(thread), f.waiting(thread)
		temporary := f.create(&ledger.NewRun{Run: &ledger.Run{Thread: uuid.New(), Temporary: true}}).Run
		if _, _, err := f.Cancel(t.Context(), thread, []uuid.UUID{running.ID, uuid.New()}, action, nil); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("unknown run: %v", err)
		}
		if _, _, err := f.Cancel(t.Context(), f.newThread(), []uuid.UUID{running.ID}, action, nil); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("run of another thread: %v", err)
		}
		if r, err := f.Run(t.Context(), thread, running.ID, nil); err != nil || r.Order != ledger.NoAction {
			t.Errorf("got order %q, %v after that", r.Order, err)
		}
		told, ended, err := f.Cancel(t.Context(), uuid.Nil, []uuid.UUID{over.ID, waiting.ID, running.ID, temporary.ID}, action, nil)
		if err != nil || !slices.Equal(ids(told), []uuid.UUID{running.ID}) || !slices.Equal(ids(ended), []uuid.UUID{waiting.ID, temporary.ID}) {
			t.Errorf("%s: running %v, ended %v, %v", action, ids(told), ids(ended), err)
		}
		want := ledger.RunCanceled
		if action == ledger.RollbackRun {
			want = ""
		}
		if got := []ledger.RunStatus{f.status(over), f.status(running), f.status(waiting), f.status(stays), f.status(temporary)}; !slices.Equal(got, []ledger.RunStatus{ledger.Success, ledger.Running, want, ledger.Pending, ""}) {
			t.Errorf("%s: got runs %q", action, got)
		}
		if ordered := f.beat(f.worker); len(ordered) != 1 || ordered[0].Order != action {
			t.Errorf("%s: orders to the worker: %v", action, ordered)
		}
		f.finish(&ledger.End{Run: running, Status: ledger.RunCanceled})
		if ordered := f.beat(f.worker); len(ordered) != 0 {
			t.Errorf("%s: orders to the worker at the end: %v", action, ordered)
		}
	}
}

// CancelRun does not revoke an earlier RollbackRun.
func TestCancelDoesNotRevokeRollback(t *testing.T) {
	f := newFixture(t, nil)
	thread := f.newThread()
	run := f.started(thread)
	for _, a := range []ledger.Action{ledger.CancelRun, ledger.RollbackRun, ledger.CancelRun} {
		if _, _, err := f.Cancel(t.Context(), thread, []uuid.UUID{run.ID}, a, nil); err != nil {
			t.Fatal(err)
		}
	}
	if r, err := f.Run(t.Context(), thread, run.ID, nil); err != nil || r.Order != ledger.RollbackRun {
		t.Errorf("got order %q, %v", r.Order, err)
	}
}

// Canceling a pending run restores the thread's previous status.
func TestCancelPendingRunRestoresStatus(t *testing.T) {
	f := newFixture(t, nil)
	thread := f.newThread()
	f.finish(&ledger.End{Run: f.started(thread), Next: true})
	run := f.waiting(thread)
	if got := f.thread(thread).Status; got != ledger.Busy {
		t.Errorf("got status %s with a run", got)
	}
	if _, _, err := f.Cancel(t.Context(), thread, []uuid.UUID{run.ID}, ledger.CancelRun, nil); err != nil {
		t.Fatal(err)
	}
	if got := f.thread(thread).Status; got != ledger.Interrupted {
		t.Errorf("got status %s without the run", got)
	}
}

func TestReleasedRunComesFirst(t *testing.T) {
	f := newFixture(t, nil)
	thread := f.newThread()
	run := f.started(thread)
	f.waiting(thread)
	if err := f.Release(t.Context(), f.worker, run, 7); err != nil {
		t.Fatal(err)
	}
	if err := f.Release(t.Context(), f.worker, run, 7); !errors.Is(err, ledger.ErrLost) {
		t.Errorf("second Release: %v", err)
	}
	got := f.claim(10)
	if len(got) != 1 || got[0].ID != run.ID || got[0].Attempt != 1 || got[0].Seq != 7 {
		t.Fatalf("claimed %+v", got)
	}
	// The run's saved state may have to be undone, so the run does not end
	// before it is claimed.
	if err := f.Release(t.Context(), f.worker, got[0], 7); err != nil {
		t.Fatal(err)
	}
	told, ended, err := f.Cancel(t.Context(), thread, []uuid.UUID{run.ID}, ledger.RollbackRun, nil)
	if err != nil || len(told) != 1 || len(ended) != 0 {
		t.Errorf("released run: running %v, ended %v, %v", told, ended, err)
	}
	if got := f.claim(10); len(got) != 1 || got[0].ID != run.ID || got[0].Order != ledger.RollbackRun {
		t.Errorf("claimed %+v", got)
	}
}

func TestDeleteRun(t *testing.T) {
	f := newFixture(t, nil)
	thread := f.newThread()
	over := f.started(thread)
	f.finish(&ledger.End{Run: over, Hook: func(*ledger.Run) *ledger.Hook { return &ledger.Hook{URL: "http://x"} }})
	running, waiting := f.started(thread), f.waiting(thread)
	for _, r := range []*ledger.Run{over, running, waiting} {
		if err := f.Append(t.Context(), &ledger.Events{Thread: thread, Run: r.ID, First: 1, Last: 1}); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Ledger.DeleteRun(t.Context(), thread, r.ID, nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := []ledger.RunStatus{f.status(over), f.status(running), f.status(waiting)}; !slices.Equal(got, []ledger.RunStatus{"", ledger.Running, ""}) {
		t.Errorf("got runs %q", got)
	}
	for e, err := range f.Events(t.Context(), thread, uuid.Nil, 0) {
		if err != nil || e.Run != running.ID {
			t.Errorf("got events %+v, %v", e, err)
		}
	}
	if ordered := f.beat(f.worker); len(ordered) != 1 || ordered[0].Order != ledger.RollbackRun {
		t.Errorf("orders to the worker: %v", ordered)
	}
	f.finish(&ledger.End{Run: running, Status: ledger.RunCanceled, Delete: true})
	for e := range f.Events(t.Context(), thread, uuid.Nil, 0) {
		t.Errorf("got events %+v", e)
	}
	if got := f.thread(thread).Status; got != ledger.Idle {
		t.Errorf("got thread status %s", got)
	}
	if hooks, err := f.DueHooks(t.Context(), 1, nil); len(hooks) != 0 || err != nil {
		t.Errorf("got webhooks %v, %v", hooks, err)
	}
}

func TestOpenRunsAppliesFilter(t *testing.T) {
	f := newFixture(t, nil)
	want := map[uuid.UUID]bool{}
	for _, owner := range []string{"ann", "bob"} {
		thread := &ledger.Thread{Metadata: ledger.Object{"owner": owner}}
		if err := f.CreateThread(t.Context(), thread); err != nil {
			t.Fatal(err)
		}
		f.finish(&ledger.End{Run: f.started(thread.ID)})
		runs := []*ledger.Run{f.started(thread.ID), f.waiting(thread.ID),
			f.create(&ledger.NewRun{Run: &ledger.Run{Thread: uuid.New(), Temporary: true, Metadata: ledger.Object{"owner": owner}}}).Run}
		for _, r := range runs {
			want[r.ID] = owner == "ann"
		}
	}
	n := 0
	for r, err := range f.OpenRuns(t.Context(), &ledger.Filter{Contains: ledger.Object{"owner": "ann"}}) {
		if err != nil || !want[r.ID] {
			t.Errorf("got %+v, %v", r, err)
		}
		n++
	}
	if n != 3 {
		t.Errorf("got %d, want 3", n)
	}
}

// A process caches a thread in the state that its last run left.
func TestCreateRunSeesForeignThreadChanges(t *testing.T) {
	f := newFixture(t, nil)
	other := ledger.New(f.backend, nil)
	thread := f.newThread()
	end := func() {
		f.finish(&ledger.End{Run: f.started(thread), Small: ledger.Object{"n": 1}})
	}
	end()
	for _, name := range []string{"ann", "bob"} {
		if _, err := other.PatchThread(t.Context(), thread, nil, false, func(th *ledger.Thread) error {
			th.Metadata = ledger.Object{"owner": name}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		end()
		end() // the thread is cached
		if got := f.thread(thread); got.Metadata["owner"] != name || got.Status != ledger.Idle || got.Small["n"] == nil {
			t.Errorf("got thread %+v after the runs, want owner %s", got, name)
		}
		filter := &ledger.Filter{Contains: ledger.Object{"owner": "ann"}}
		c, err := f.CreateRun(t.Context(), &ledger.NewRun{Run: &ledger.Run{Thread: thread}, Filter: filter, Worker: f.worker})
		if seen := err == nil; seen != (name == "ann") {
			t.Errorf("run on %s's thread with ann's filter: %v", name, err)
		}
		if err == nil {
			f.finish(&ledger.End{Run: c.Run})
		}
	}
}

// lossy is a backend that loses a response after the transaction commits, or
// fails before it commits.
type lossy struct {
	ledger.Backend
	lose, fail atomic.Bool // the next response, the next transaction
}

var errResponseLost = errors.New("response lost")

func (b *lossy) Update(ctx context.Context, lock uuid.UUID, fn func(ledger.Tx) error) error {
	if b.fail.CompareAndSwap(true, false) {
		return errResponseLost
	}
	err := b.Backend.Update(ctx, lock, fn)
	if err == nil && b.lose.CompareAndSwap(true, false) {
		return errResponseLost
	}
	return err
}

func TestFinishCanBeRepeated(t *testing.T) {
	for name, e := range map[string]*ledger.End{
		"success":  {Status: ledger.Success, Claim: true},
		"failure":  {Status: ledger.Error, Failure: &ledger.Failure{Class: "E", Message: "m"}, Claim: true},
		"rollback": {Status: ledger.RunCanceled, Delete: true, Claim: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := &lossy{Backend: ledger.NewMemory()}
			f := &fixture{T: t, Ledger: ledger.New(b, nil)}
			f.worker = f.newWorker()
			thread := f.newThread()
			e.Run, e.Worker = f.started(thread), f.worker
			next := f.create(&ledger.NewRun{Run: &ledger.Run{Thread: thread, Graph: "g"}}).Run
			b.lose.Store(true)
			if _, err := f.Finish(t.Context(), e); !errors.Is(err, errResponseLost) {
				t.Fatal(err)
			}
			claimed, err := f.Finish(t.Context(), e)
			if err != nil || claimed != nil {
				t.Fatalf("second call: %v, %v; want no error and no run claimed by the first call", claimed, err)
			}
			held := f.beat(f.worker)
			if len(held) != 1 || held[0].ID != next.ID {
				t.Fatalf("worker holds %v, want the next run", held)
			}
			if err := f.Release(t.Context(), f.worker, held[0], 0); err != nil {
				t.Fatal(err)
			}
			again, err := f.Claim(t.Context(), f.worker, nil, 1)
			if err != nil || len(again) != 1 || again[0].ID != next.ID || again[0].Attempt != 1 {
				t.Errorf("claimed again: %+v, %v; want attempt 1 of the next run", again, err)
			}
		})
	}
}

// A run taken over by another worker is not mistaken for a run ended by an
// earlier call.
func TestRepeatedFinishReportsLostRun(t *testing.T) {
	b := &lossy{Backend: ledger.NewMemory()}
	f := &fixture{T: t, Ledger: ledger.New(b, nil)}
	f.worker = f.newWorker()
	run := f.started(f.newThread())
	e := &ledger.End{Run: run, Worker: f.worker, Status: ledger.Success}
	b.fail.Store(true)
	if _, err := f.Finish(t.Context(), e); !errors.Is(err, errResponseLost) {
		t.Fatal(err)
	}
	if err := f.Leave(t.Context(), f.worker); err != nil {
		t.Fatal(err)
	}
	other := f.newWorker()
	taken, _, err := f.TakeOver(t.Context(), other, nil, 1)
	if err != nil || len(taken) != 1 {
		t.Fatal(taken, err)
	}
	if _, err := f.Finish(t.Context(), &ledger.End{Run: taken[0], Worker: other, Status: ledger.Success}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Finish(t.Context(), e); !errors.Is(err, ledger.ErrLost) {
		t.Errorf("got %v, want ErrLost", err)
	}
}
