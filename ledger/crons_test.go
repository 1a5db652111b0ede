package ledger_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/ledger"
)

func (f *fixture) newCron(thread *uuid.UUID) *ledger.Cron {
	f.Helper()
	next := time.Now().Add(time.Minute)
	c := &ledger.Cron{Assistant: uuid.New(), Thread: thread, Next: &next, Enabled: true}
	if err := f.CreateCron(f.Context(), c); err != nil {
		f.Fatal(err)
	}
	return c
}

func (f *fixture) dueCrons() []*ledger.Cron {
	f.Helper()
	due, err := f.DueCrons(f.Context(), 10, nil)
	if err != nil {
		f.Fatal(err)
	}
	return due
}

func TestConcurrentTickCreatesOneRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, &ledger.Options{Lease: time.Hour})
		thread := f.newThread()
		cron := f.newCron(&thread)
		if len(f.dueCrons()) != 0 {
			t.Error("cron due too early")
		}
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time
		due := f.dueCrons()
		if len(due) != 1 || due[0].ID != cron.ID {
			t.Fatalf("got due crons %v", due)
		}
		next := due[0].Next.Add(time.Minute)
		var won atomic.Int32
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				n := &ledger.NewRun{Run: &ledger.Run{ID: uuid.NewSHA1(cron.ID, []byte("t")), Thread: thread}, Worker: f.worker}
				c, ok, err := f.Tick(t.Context(), cron.ID, *due[0].Next, &next, n)
				if err != nil {
					t.Error(err)
				}
				if ok {
					won.Add(1)
				}
				if ok != (c != nil) {
					t.Errorf("tick: got %v with %+v", ok, c)
				}
			})
		}
		all.Wait()
		if won.Load() != 1 {
			t.Errorf("%d ticks succeeded", won.Load())
		}
		if runs, err := f.Runs(t.Context(), thread, nil, "", ledger.Page{}); len(runs) != 1 || err != nil {
			t.Errorf("got %d runs, %v", len(runs), err)
		}
		if len(f.dueCrons()) != 0 {
			t.Error("cron due again immediately")
		}
		if got, err := f.NextDue(t.Context()); !got.Equal(next) || err != nil {
			t.Errorf("next due at %v, %v; want %v", got, err, next)
		}
	})
}

// A rejected run does not stop its cron.
func TestRejectedTickMovesCron(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, &ledger.Options{Lease: time.Hour})
		thread := f.newThread()
		f.started(thread)
		cron := f.newCron(&thread)
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time
		_, ok, err := f.Tick(t.Context(), cron.ID, *cron.Next, nil, &ledger.NewRun{Run: &ledger.Run{Thread: thread, Strategy: ledger.Reject}})
		if !ok || !errors.Is(err, ledger.ErrBusy) {
			t.Errorf("tick: got %v, %v", ok, err)
		}
		if got, err := f.Cron(t.Context(), cron.ID, nil); err != nil || got.Next != nil || len(f.dueCrons()) != 0 {
			t.Errorf("got cron %+v, %v", got, err)
		}
	})
}

func TestTickWithoutThread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, &ledger.Options{Lease: time.Hour})
		cron := f.newCron(nil)
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time
		next := time.Now().Add(time.Minute)
		c, ok, err := f.Tick(t.Context(), cron.ID, *cron.Next, &next, &ledger.NewRun{Run: &ledger.Run{Thread: uuid.New(), Temporary: true}, Worker: f.worker})
		if err != nil || !ok || !c.Claimed {
			t.Errorf("tick: got %+v, %v, %v", c, ok, err)
		}
		thread := uuid.New()
		c, ok, err = f.Tick(t.Context(), cron.ID, next, nil, &ledger.NewRun{Run: &ledger.Run{Thread: thread}, Create: &ledger.Thread{}, Worker: f.worker})
		if err != nil || !ok || !c.Claimed || f.thread(thread).Status != ledger.Busy {
			t.Errorf("tick with a new thread: got %+v, %v, %v", c, ok, err)
		}
		if _, ok, err := f.Tick(t.Context(), uuid.New(), next, nil, nil); ok || err != nil {
			t.Errorf("tick of a deleted cron: got %v, %v", ok, err)
		}
	})
}

func TestCronsByAssistantAndThread(t *testing.T) {
	f := newFixture(t, nil)
	thread, enabled := f.newThread(), true
	a, b := f.newCron(&thread), f.newCron(nil)
	for _, test := range []struct {
		q    ledger.CronQuery
		want []uuid.UUID
	}{
		{ledger.CronQuery{}, []uuid.UUID{b.ID, a.ID}},
		{ledger.CronQuery{Thread: thread}, []uuid.UUID{a.ID}},
		{ledger.CronQuery{Assistant: b.Assistant}, []uuid.UUID{b.ID}},
		{ledger.CronQuery{Assistant: b.Assistant, Thread: thread}, nil},
		{ledger.CronQuery{Enabled: &enabled, Page: ledger.Page{SortBy: "cron_id", Ascending: true}}, []uuid.UUID{a.ID, b.ID}},
	} {
		got, total, err := f.Crons(t.Context(), &test.q)
		ok := err == nil && total == len(test.want) && len(got) == total
		for i := range got {
			ok = ok && got[i].ID == test.want[i]
		}
		if !ok {
			t.Errorf("%+v: got %v of %d, %v", test.q, got, total, err)
		}
	}
	if err := f.CreateCron(t.Context(), &ledger.Cron{ID: a.ID}); !errors.Is(err, ledger.ErrExists) {
		t.Errorf("second cron with the same ID: %v", err)
	}
}

func TestWebhooksAreRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, &ledger.Options{Lease: time.Hour})
		run := f.started(f.newThread())
		f.finish(&ledger.End{Run: run, Hook: func(*ledger.Run) *ledger.Hook { return &ledger.Hook{URL: "http://x", Body: []byte("body")} }})
		due := func(attempt int) {
			t.Helper()
			hooks, err := f.DueHooks(t.Context(), 10, nil)
			if err != nil || (len(hooks) == 1) != (attempt > 0) || attempt > 0 && (hooks[0].Attempt != attempt || string(hooks[0].Body) != "body" || hooks[0].URL != "http://x" || hooks[0].Run != run.ID) {
				t.Errorf("got webhooks %+v, %v; want attempt %d", hooks, err, attempt)
			}
		}
		due(1)
		due(0)                       // another process has it
		time.Sleep(30 * time.Second) //nolint:forbidigo // virtual time
		due(2)                       // the process did not report a result
		if err := f.HookDone(t.Context(), run.ID, time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(59 * time.Second) //nolint:forbidigo // virtual time
		due(0)
		time.Sleep(time.Second) //nolint:forbidigo // virtual time
		due(3)
		if err := f.HookDone(t.Context(), run.ID, time.Time{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour) //nolint:forbidigo // virtual time
		due(0)
		if err := f.HookDone(t.Context(), run.ID, time.Now()); err != nil {
			t.Errorf("finished webhook: %v", err)
		}
	})
}
