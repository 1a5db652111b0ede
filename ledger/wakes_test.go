package ledger_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/ledger"
)

func (f *fixture) dueThreads() []ledger.DueThread {
	f.Helper()
	due, err := f.DueThreads(f.Context(), uuid.Nil, 10, nil)
	if err != nil {
		f.Fatal(err)
	}
	return due
}

// asleep runs a thread that then sleeps until the given time.
func (f *fixture) asleep(until time.Time) uuid.UUID {
	f.Helper()
	thread := f.newThread()
	f.finish(&ledger.End{Run: f.started(thread), Status: ledger.Success, Next: true, Wake: until})
	return thread
}

// wake wakes a thread with a run that no worker has claimed.
func (f *fixture) wake(thread uuid.UUID, at time.Time) (*ledger.Created, bool, error) {
	return f.WakeThread(f.Context(), thread, at, uuid.Nil, func(*ledger.NewRun, *ledger.Thread, *ledger.Run) (bool, error) { return true, nil })
}

func TestThreadIsWokenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, &ledger.Options{Lease: 240 * time.Hour})
		until := time.Now().Add(72*time.Hour + 1) // one nanosecond beyond the stored precision
		thread := f.asleep(until)
		if next, err := f.NextDue(t.Context()); err != nil || next.Before(until) || next.After(until.Add(time.Microsecond)) {
			t.Errorf("next due at %v, %v; want %v", next, err, until)
		}
		time.Sleep(72 * time.Hour) //nolint:forbidigo // virtual time
		if len(f.dueThreads()) != 0 {
			t.Error("thread due too early")
		}
		time.Sleep(time.Microsecond) //nolint:forbidigo // virtual time
		due := f.dueThreads()
		if len(due) != 1 || due[0].ID != thread {
			t.Fatalf("got due threads %v", due)
		}
		var won atomic.Int32
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				made, ok, err := f.wake(thread, due[0].Wake)
				if err != nil || ok != (made != nil) {
					t.Errorf("wake: got %v with %+v, %v", ok, made, err)
				}
				if ok {
					won.Add(1)
				}
			})
		}
		all.Wait()
		if won.Load() != 1 {
			t.Errorf("%d processes woke the thread", won.Load())
		}
		if len(f.dueThreads()) != 0 {
			t.Error("thread due again immediately")
		}
		runs := f.claim(1)
		if len(runs) != 1 || runs[0].Thread != thread {
			t.Fatalf("got pending runs %v", runs)
		}
		f.finish(&ledger.End{Run: runs[0], Status: ledger.Success})
		if got := f.thread(thread); !got.Wake.IsZero() || got.Status != ledger.Idle {
			t.Errorf("finished thread: got status %s, wakes at %v", got.Status, got.Wake)
		}
	})
}

// A client's run intervenes. While it is open, the thread is not woken. If the
// run never starts, the earlier wake-up applies again; otherwise, the run's own
// wake-up replaces it.
func TestRunPostponesWakeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, &ledger.Options{Lease: 240 * time.Hour})
		thread := f.asleep(time.Now().Add(time.Hour))
		time.Sleep(2 * time.Hour) //nolint:forbidigo // virtual time
		at := f.dueThreads()[0].Wake
		run := f.create(&ledger.NewRun{Run: &ledger.Run{Thread: thread}}).Run
		if len(f.dueThreads()) != 0 {
			t.Error("thread due despite an open run")
		}
		if _, ok, err := f.wake(thread, at); ok || err != nil {
			t.Errorf("thread with an open run woken: %v", err)
		}
		if _, err := f.DeleteRun(t.Context(), thread, run.ID, nil); err != nil {
			t.Fatal(err)
		}
		if due := f.dueThreads(); len(due) != 1 {
			t.Errorf("%d threads due after deleting the run, want 1", len(due))
		}
		f.finish(&ledger.End{Run: f.started(thread), Status: ledger.Success, Next: true, Wake: time.Now().Add(time.Hour)})
		if len(f.dueThreads()) != 0 {
			t.Error("wake-up of the previous run still applies")
		}
		if _, err := f.DeleteThread(t.Context(), thread, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour) //nolint:forbidigo // virtual time
		if len(f.dueThreads()) != 0 {
			t.Error("deleted thread due")
		}
		if next, err := f.NextDue(t.Context()); !next.IsZero() || err != nil {
			t.Errorf("next due at %v, %v", next, err)
		}
	})
}

// Otherwise, a run that kills its process would be created again for as long as
// processes are left.
func TestWakeUpKillingProcessesStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		thread := f.newThread()
		f.finish(&ledger.End{Run: f.started(thread), Status: ledger.Success, Next: true, Wake: time.Now(), Signals: []string{"paid"}})
		due := f.dueThreads()
		if len(due) != 1 {
			t.Fatalf("%d threads due, want 1", len(due))
		}
		if _, ok, err := f.wake(thread, due[0].Wake); !ok || err != nil {
			t.Fatal(ok, err)
		}
		f.claim(1)
		for range 3 {
			time.Sleep(7 * time.Second) //nolint:forbidigo // virtual time
			f.takeOver(f.newWorker())
		}
		if err := f.Signalled(t.Context(), thread, "paid"); err != nil {
			t.Fatal(err)
		}
		if got := f.thread(thread); got.Status != ledger.Failed || !got.Wake.IsZero() {
			t.Errorf("got status %s, wakes at %v", got.Status, got.Wake)
		}
		if len(f.dueThreads()) != 0 {
			t.Error("thread due again")
		}
	})
}

// A process whose clock is behind finds that the time has not come, so the
// thread waits for the same time again, after a delay.
func TestThreadWokenTooEarlyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, &ledger.Options{Lease: time.Hour})
		until := time.Now().Add(time.Minute)
		thread := f.asleep(until)
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time
		f.finish(&ledger.End{Run: f.started(thread), Status: ledger.Success, Next: true, Wake: until})
		if len(f.dueThreads()) != 0 {
			t.Error("thread due again immediately")
		}
		time.Sleep(time.Second) //nolint:forbidigo // virtual time
		if len(f.dueThreads()) != 1 {
			t.Error("thread no longer due")
		}
	})
}

func TestSignalWakesWaitingThread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		signal := func(thread uuid.UUID, name string) {
			t.Helper()
			if err := f.Signalled(t.Context(), thread, name); err != nil {
				t.Fatal(err)
			}
		}
		thread := f.newThread()
		f.finish(&ledger.End{Run: f.started(thread), Status: ledger.Success, Next: true, Signals: []string{"paid"}, Wake: time.Now().Add(time.Hour)})
		signal(thread, "sent")
		if len(f.dueThreads()) != 0 {
			t.Error("thread woken by another signal")
		}
		signal(thread, "paid")
		if len(f.dueThreads()) != 1 {
			t.Error("thread not woken by its signal")
		}
		// The signal arrives after the run has checked for it and before the
		// run ends.
		run := f.started(thread)
		signal(thread, "paid")
		f.finish(&ledger.End{Run: run, Status: ledger.Success, Next: true, Signals: []string{"paid"}})
		if len(f.dueThreads()) != 1 {
			t.Error("thread not woken by a signal that arrived during the run")
		}
		run = f.started(thread)
		f.finish(&ledger.End{Run: run, Status: ledger.Success, Next: true, Signals: []string{"paid"}})
		if len(f.dueThreads()) != 0 {
			t.Error("signal counted twice")
		}
		// Many signals arrive.
		run = f.started(thread)
		for range 100 {
			signal(thread, uuid.NewString())
		}
		signal(thread, "paid")
		f.finish(&ledger.End{Run: run, Status: ledger.Success, Next: true, Signals: []string{"paid"}})
		if len(f.dueThreads()) != 1 {
			t.Error("thread not woken by one of many signals")
		}
		if err := f.Signalled(t.Context(), uuid.New(), "paid"); err == nil {
			t.Error("signal for a missing thread accepted")
		}
	})
}

func TestWakeUpWithoutRunIsTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		thread := f.asleep(time.Now())
		due := f.dueThreads()
		another := func(run *ledger.NewRun, _ *ledger.Thread, _ *ledger.Run) (bool, error) {
			run.Thread = uuid.New()
			return true, nil
		}
		if _, ok, err := f.WakeThread(t.Context(), thread, due[0].Wake, uuid.Nil, another); ok || err == nil {
			t.Error("run of another thread accepted")
		}
		none := func(*ledger.NewRun, *ledger.Thread, *ledger.Run) (bool, error) { return false, nil }
		if made, ok, err := f.WakeThread(t.Context(), thread, due[0].Wake, uuid.Nil, none); made != nil || !ok || err != nil {
			t.Errorf("wake: got %v with %v, %v", ok, made, err)
		}
		if len(f.dueThreads()) != 0 {
			t.Error("thread due again")
		}
	})
}

// Each due thread is in the share of one worker with a lease. A worker that does not wake its
// share delays it by half a second.
func TestWorkersShareDueThreads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		workers := []uuid.UUID{f.worker, f.newWorker(), f.newWorker()}
		const threads = 300
		for range threads {
			f.asleep(time.Now())
		}
		share := func(worker uuid.UUID) []ledger.DueThread {
			t.Helper()
			due, err := f.DueThreads(t.Context(), worker, threads, nil)
			if err != nil {
				t.Fatal(err)
			}
			return due
		}
		seen := map[uuid.UUID]bool{}
		for _, w := range workers {
			due := share(w)
			if len(due) < threads/6 {
				t.Errorf("got a share of %d of %d threads", len(due), threads)
			}
			for _, d := range due {
				if seen[d.ID] {
					t.Errorf("thread %s is in two shares", d.ID)
				}
				seen[d.ID] = true
			}
		}
		if len(seen) != threads {
			t.Errorf("%d of %d threads in a share", len(seen), threads)
		}
		if due := share(uuid.New()); len(due) != 0 {
			t.Errorf("worker without a lease got %d threads", len(due))
		}
		if err := f.Leave(t.Context(), workers[2]); err != nil {
			t.Fatal(err)
		}
		if n := len(share(workers[0])) + len(share(workers[1])); n != threads {
			t.Errorf("shares of the remaining workers: %d of %d threads", n, threads)
		}
		time.Sleep(500 * time.Millisecond) //nolint:forbidigo // virtual time
		if due := share(workers[0]); len(due) != threads {
			t.Errorf("worker got %d of %d threads left by other workers", len(due), threads)
		}
		if due, err := f.DueThreads(t.Context(), workers[0], 10, func(id uuid.UUID) bool { return id != share(workers[0])[200].ID }); err != nil || len(due) != 1 {
			t.Errorf("got %d threads, %v with all but one skipped", len(due), err)
		}
	})
}
