package ledger_test

import (
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/ledger"
)

var (
	ann = &ledger.Filter{Auth: []ledger.Condition{{Key: "owner", Values: []any{"ann"}}}}
	bob = &ledger.Filter{Auth: []ledger.Condition{{Key: "owner", Values: []any{"bob"}}}}
)

func TestCreateThreadRejectsExistingID(t *testing.T) {
	f := newFixture(t, nil)
	thread := &ledger.Thread{Metadata: ledger.Object{"owner": "ann", "n": json.Number("12345678901234567890")}}
	if err := f.CreateThread(t.Context(), thread); err != nil {
		t.Fatal(err)
	}
	if thread.ID == uuid.Nil || thread.ID.Version() != 7 || thread.Status != ledger.Idle || thread.Created.IsZero() || thread.StateUpdated != thread.Created {
		t.Errorf("got thread %+v", thread)
	}
	if err := f.CreateThread(t.Context(), &ledger.Thread{ID: thread.ID}); !errors.Is(err, ledger.ErrExists) {
		t.Errorf("second thread with the same ID: %v", err)
	}
	got := f.thread(thread.ID)
	if got.Metadata["n"] != json.Number("12345678901234567890") {
		t.Errorf("got metadata %v", got.Metadata)
	}
	raw, err := json.Marshal(&ledger.Thread{})
	if err != nil {
		t.Fatal(err)
	}
	var back map[string]any
	if err := json.Unmarshal(raw, &back); err != nil || back["metadata"] == nil || back["config"] == nil {
		t.Errorf("nil objects encode as %s, %v", raw, err)
	}
}

// Objects that a filter rejects appear not to exist.
func TestFilterHidesObjects(t *testing.T) {
	f := newFixture(t, nil)
	thread := &ledger.Thread{Metadata: ledger.Object{"owner": "ann"}}
	if err := f.CreateThread(t.Context(), thread); err != nil {
		t.Fatal(err)
	}
	run := f.started(thread.ID)
	assistant := &ledger.Assistant{Graph: "g", Metadata: ledger.Object{"owner": "ann"}}
	cron := &ledger.Cron{Metadata: ledger.Object{"owner": "ann"}}
	temporary := f.create(&ledger.NewRun{Run: &ledger.Run{Thread: uuid.New(), Temporary: true, Metadata: ledger.Object{"owner": "ann"}}}).Run
	if err := errors.Join(f.CreateAssistant(t.Context(), assistant), f.CreateCron(t.Context(), cron)); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for name, call := range map[string]func(*ledger.Filter) error{
		"thread": func(by *ledger.Filter) error { _, err := f.Thread(ctx, thread.ID, by); return err },
		"patch thread": func(by *ledger.Filter) error {
			_, err := f.PatchThread(ctx, thread.ID, by, false, func(*ledger.Thread) error { return nil })
			return err
		},
		"runs":      func(by *ledger.Filter) error { _, err := f.Runs(ctx, thread.ID, by, "", ledger.Page{}); return err },
		"run":       func(by *ledger.Filter) error { _, err := f.Run(ctx, thread.ID, run.ID, by); return err },
		"temporary": func(by *ledger.Filter) error { _, err := f.Run(ctx, uuid.Nil, temporary.ID, by); return err },
		"cancel": func(by *ledger.Filter) error {
			_, _, err := f.Cancel(ctx, thread.ID, []uuid.UUID{run.ID}, ledger.CancelRun, by)
			return err
		},
		"delete run": func(by *ledger.Filter) error { _, err := f.Ledger.DeleteRun(ctx, thread.ID, run.ID, by); return err },
		"assistant":  func(by *ledger.Filter) error { _, err := f.Assistant(ctx, assistant.ID, by); return err },
		"versions":   func(by *ledger.Filter) error { _, err := f.Versions(ctx, assistant.ID, by, ledger.Page{}); return err },
		"set latest": func(by *ledger.Filter) error { _, err := f.SetLatest(ctx, assistant.ID, by, 1); return err },
		"patch assistant": func(by *ledger.Filter) error {
			_, err := f.PatchAssistant(ctx, assistant.ID, by, func(*ledger.Assistant) error { return nil })
			return err
		},
		"cron": func(by *ledger.Filter) error { _, err := f.Cron(ctx, cron.ID, by); return err },
		"patch cron": func(by *ledger.Filter) error {
			_, err := f.PatchCron(ctx, cron.ID, by, func(*ledger.Cron) error { return nil })
			return err
		},
	} {
		if err := call(bob); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("%s by another user: %v", name, err)
		}
		if err := call(ann); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, call := range map[string]func(*ledger.Filter) error{
		"delete assistant": func(by *ledger.Filter) error { return f.DeleteAssistant(ctx, assistant.ID, by) },
		"delete cron":      func(by *ledger.Filter) error { return f.DeleteCron(ctx, cron.ID, by) },
		"delete thread":    func(by *ledger.Filter) error { _, err := f.DeleteThread(ctx, thread.ID, by); return err },
	} {
		for by, want := range map[*ledger.Filter]error{bob: ledger.ErrNotFound} {
			if err := call(by); !errors.Is(err, want) {
				t.Errorf("%s by another user: %v", name, err)
			}
		}
		if err := call(ann); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := call(ann); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("%s again: %v", name, err)
		}
	}
}

func TestPatchBusyThread(t *testing.T) {
	f := newFixture(t, nil)
	thread := f.newThread()
	run := f.started(thread)
	patch := func(idle bool) (*ledger.Thread, error) {
		return f.PatchThread(t.Context(), thread, nil, idle, func(t *ledger.Thread) error {
			t.Metadata, t.Status, t.V2 = ledger.Object{"a": "b"}, ledger.Interrupted, true
			t.ID, t.Created = uuid.Nil, time.Time{}
			return nil
		})
	}
	if _, err := patch(true); !errors.Is(err, ledger.ErrBusy) {
		t.Errorf("patch that requires an idle thread: %v", err)
	}
	got, err := patch(false)
	if err != nil || got.Status != ledger.Busy || got.ID != thread || got.Created.IsZero() || !got.V2 {
		t.Errorf("got thread %+v, %v", got, err)
	}
	f.finish(&ledger.End{Run: run})
	got, err = patch(true)
	if err != nil || got.Status != ledger.Interrupted || f.thread(thread).Status != ledger.Interrupted {
		t.Errorf("got thread %+v, %v after the run", got, err)
	}
	no := errors.New("no")
	if _, err := f.PatchThread(t.Context(), thread, nil, false, func(*ledger.Thread) error { return no }); !errors.Is(err, no) {
		t.Errorf("failed change: %v", err)
	}
}

func TestThreadPushesAddHooks(t *testing.T) {
	f := newFixture(t, nil)
	thread := f.newThread()
	prepared := 0
	pushes := func(seen *ledger.Thread) func(*ledger.Thread) []*ledger.Hook {
		// Not in the transaction, which holds the lock of the thread.
		if _, err := f.PatchThread(t.Context(), thread, nil, false, func(th *ledger.Thread) error { th.Metadata = ledger.Object{"free": true}; return nil }); err != nil {
			t.Error(err)
		}
		prepared++
		return func(th *ledger.Thread) []*ledger.Hook {
			if string(th.Pushes) != string(seen.Pushes) || th.Metadata["free"] != true {
				t.Errorf("thread %+v, want it as stored", th)
			}
			return []*ledger.Hook{{ID: uuid.New(), URL: "http://a", Header: map[string]string{"X": "y"}, Body: []byte("a")}, {ID: uuid.New(), URL: "http://b"}}
		}
	}
	own := func(*ledger.Run) *ledger.Hook { return &ledger.Hook{URL: "http://own"} }
	f.finish(&ledger.End{Run: f.started(thread), Hook: own, Pushes: pushes})
	if hooks, err := f.DueHooks(t.Context(), 10, nil); err != nil || len(hooks) != 1 || hooks[0].ID != hooks[0].Run {
		t.Fatalf("hooks of a thread without pushes: %+v, %v", hooks, err)
	}
	if _, err := f.PatchThread(t.Context(), thread, nil, false, func(th *ledger.Thread) error { th.Pushes = json.RawMessage(`["p"]`); return nil }); err != nil {
		t.Fatal(err)
	}
	run := f.started(thread)
	f.finish(&ledger.End{Run: run, Hook: own, Pushes: pushes})
	hooks, err := f.DueHooks(t.Context(), 10, nil)
	if err != nil || len(hooks) != 3 || prepared != 1 {
		t.Fatalf("hooks %+v, %v; prepared %d times", hooks, err, prepared)
	}
	for _, h := range hooks {
		if h.Run != run.ID || h.URL == "http://a" && (h.Header["X"] != "y" || string(h.Body) != "a") {
			t.Errorf("hook %+v", h)
		}
		if h.URL == "http://b" {
			if err := f.HookDone(t.Context(), h.ID, time.Time{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if c, err := f.Contents(t.Context(), thread); err != nil || c.Webhooks != 3 {
		t.Errorf("contents %+v, %v", c, err)
	}
	if _, err := f.DeleteRun(t.Context(), thread, run.ID, nil); err != nil {
		t.Fatal(err)
	}
	if c, err := f.Contents(t.Context(), thread); err != nil || c.Webhooks != 1 {
		t.Errorf("contents without the run %+v, %v", c, err)
	}
	run = f.started(thread)
	f.finish(&ledger.End{Run: run, Pushes: pushes})
	if _, err := f.DeleteThread(t.Context(), thread, nil); err != nil {
		t.Fatal(err)
	}
	for r := range f.backend.Find(t.Context(), &ledger.Query{Kind: ledger.Hooks}) {
		t.Errorf("a webhook remains: %s", r.Doc)
	}
}

func TestDeleteThreadRemovesAllRows(t *testing.T) {
	f := newFixture(t, nil)
	thread, other := f.newThread(), f.newThread()
	f.finish(&ledger.End{Run: f.started(thread), Hook: func(*ledger.Run) *ledger.Hook { return &ledger.Hook{URL: "http://x"} }})
	run := f.started(thread)
	f.waiting(thread)
	kept := f.started(other)
	if err := f.Append(t.Context(), &ledger.Events{Thread: thread, Run: run.ID, First: 1, Last: 1}); err != nil {
		t.Fatal(err)
	}
	for _, th := range []uuid.UUID{thread, other} {
		if err := f.CreateCron(t.Context(), &ledger.Cron{Thread: &th}); err != nil {
			t.Fatal(err)
		}
	}
	open, err := f.DeleteThread(t.Context(), thread, nil)
	if err != nil || len(open) != 2 {
		t.Errorf("got open runs %v, %v", open, err)
	}
	left := map[ledger.Kind]int{}
	for kind := ledger.Assistants; kind <= ledger.Workers; kind++ {
		for range f.backend.Find(t.Context(), &ledger.Query{Kind: kind}) {
			left[kind]++
		}
	}
	if left[ledger.Threads] != 1 || left[ledger.Runs] != 1 || left[ledger.Crons] != 1 || left[ledger.Hooks] != 0 {
		t.Errorf("remaining rows: %v", left)
	}
	for e := range f.Events(t.Context(), thread, uuid.Nil, 0) {
		t.Errorf("got events %+v", e)
	}
	if _, err := f.Finish(t.Context(), &ledger.End{Run: run, Worker: f.worker, Status: ledger.Success}); !errors.Is(err, ledger.ErrLost) {
		t.Errorf("Finish of its run: %v", err)
	}
	f.finish(&ledger.End{Run: kept})
}

func TestInactiveThreadsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, &ledger.Options{Lease: time.Hour})
		thread := &ledger.Thread{TTL: &ledger.TTL{Strategy: "delete", Minutes: 1.5}}
		if err := f.CreateThread(t.Context(), thread); err != nil {
			t.Fatal(err)
		}
		f.newThread()
		expired := func() int {
			t.Helper()
			list, err := f.Expired(t.Context(), 10)
			if err != nil {
				t.Fatal(err)
			}
			return len(list)
		}
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time
		run := f.started(thread.ID)
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time
		if expired() != 0 {
			t.Error("busy thread expired")
		}
		f.finish(&ledger.End{Run: run})
		if got := f.thread(thread.ID); !got.TTL.Expires.Equal(time.Now().Add(90 * time.Second)) {
			t.Errorf("got expiry %v", got.TTL.Expires)
		}
		time.Sleep(89 * time.Second) //nolint:forbidigo // virtual time
		if expired() != 0 {
			t.Error("thread expired too early")
		}
		if next, err := f.NextDue(t.Context()); !next.IsZero() || err != nil {
			t.Errorf("next due at %v, %v, as if the thread had a run", next, err)
		}
		time.Sleep(time.Second) //nolint:forbidigo // virtual time
		if expired() != 1 {
			t.Error("thread did not expire")
		}
		if claimed := f.claim(1); len(claimed) != 0 {
			t.Errorf("claimed %v", claimed)
		}
	})
}

func TestTemporaryThreadIDsAreReserved(t *testing.T) {
	f := newFixture(t, nil)
	id, err := ledger.NewTemporaryThread()
	if err != nil {
		t.Fatal(err)
	}
	other, err := ledger.NewTemporaryThread()
	if err != nil || id == other {
		t.Errorf("%s and %s: %v", id, other, err)
	}
	if err := f.CreateThread(t.Context(), &ledger.Thread{ID: id}); !errors.Is(err, ledger.ErrExists) {
		t.Errorf("CreateThread: %v", err)
	}
	n := &ledger.NewRun{Run: &ledger.Run{Thread: id}, Create: &ledger.Thread{ID: id}}
	if _, err := f.CreateRun(t.Context(), n); !errors.Is(err, ledger.ErrExists) {
		t.Errorf("CreateRun: %v", err)
	}
	if _, err := f.Thread(t.Context(), id, nil); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("thread: %v", err)
	}
	f.create(&ledger.NewRun{Run: &ledger.Run{Thread: id, Temporary: true}})
}
