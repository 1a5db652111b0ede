package memory_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

var pendingWork = store.Namespace{"reflector", "pending"}

func memoryStore(t *testing.T, opts *store.Options) *store.Store {
	t.Helper()
	s, err := store.NewMemory(opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func durable(t *testing.T, s *store.Store, run func(context.Context, string, words) (string, error), opts *memory.ReflectorOptions[words, string]) tested {
	t.Helper()
	r, err := memory.OpenReflector(t.Context(), s, pendingWork, run, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close(context.Background()) })
	return tested{r, t}
}

// recorded returns the journal entry of a key, without the time.
func recorded(t *testing.T, s *store.Store, key string) string {
	t.Helper()
	item, err := s.Get(t.Context(), pendingWork, key, nil)
	if errors.Is(err, store.ErrNotFound) {
		return "nothing"
	}
	var e map[string]any
	if err != nil || item.Decode(&e) != nil {
		t.Fatalf("%v: %s", err, item.Value)
	}
	delete(e, "due")
	raw, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestRestartResumesPendingWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := memoryStore(t, &store.Options{TTL: time.Minute}), newLog() // which is not for pending work
		first := durable(t, s, l.slow, nil)
		later := first.submit("later", "a", time.Hour)
		first.submit("overdue", "b", 10*time.Minute)
		first.submit("called off", "c", time.Hour)
		for i := range 250 { // more than a page
			first.submit(fmt.Sprint("many ", i), "", 2*time.Hour)
		}
		if _, err := first.Cancel(t.Context(), "called off"); err != nil {
			t.Fatal(err)
		}
		if err := first.Close(t.Context()); err != nil {
			t.Errorf("nothing is lost, but: %v", err)
		}
		ended(t, later, "", memory.ErrClosed)
		<-time.After(30 * time.Minute)
		told := map[string]int{}
		second := durable(t, s, l.slow, &memory.ReflectorOptions[words, string]{Workers: 1,
			Done: func(key, _ string, _ error) { told[strings.Fields(key)[0]]++ }})
		second.submit("later", "d", time.Hour)
		second.drain()
		l.lines = l.lines[:2] // the others follow
		l.check(t, "30m0s overdue begins: b", "1h30m0s later begins: a d")
		if told["later"] != 1 || told["overdue"] != 1 || told["many"] != 250 {
			t.Errorf("Done received %v", told)
		}
		if items, err := s.Search(t.Context(), pendingWork, nil); err != nil || len(items) > 0 {
			t.Errorf("%d entries are left, %v", len(items), err)
		}
	})
}

// What was running when the process ended runs again, together with what came
// while it ran. The end of the process is a reflector that hangs.
func TestRestartResumesRunningWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := memoryStore(t, nil), newLog()
		dead := durable(t, s, l.slow, nil)
		dead.submit("clean", "99h", 0)
		dead.submit("dirty", "99h", 0)
		synctest.Wait()
		check(t, "clean", recorded(t, s, "clean"), `{"pending":["99h"]}`)
		dead.submit("dirty", "b", time.Hour)
		dead.submit("dirty", "c", time.Hour)
		check(t, "dirty", recorded(t, s, "dirty"), `{"pending":["b","c"],"running":["99h"]}`)

		got := map[string]string{}
		next := durable(t, s, func(_ context.Context, key string, w words) (string, error) {
			return strings.Join(w, " "), nil
		}, &memory.ReflectorOptions[words, string]{Workers: 1, Done: func(key, result string, _ error) { got[key] = result }})
		next.drain()
		check(t, "clean", got["clean"], "99h")
		check(t, "dirty", got["dirty"], "99h b c")
		check(t, "clean", recorded(t, s, "clean"), "nothing")

		stop, cancel := context.WithCancel(t.Context())
		cancel()
		if err := dead.Close(stop); err != nil {
			t.Error(err)
		}
	})
}

// The journal always contains exactly the work that has not run.
func TestJournalTracksWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memoryStore(t, nil)
		down := errors.New("down")
		r := durable(t, s, func(ctx context.Context, _ string, w words) (string, error) {
			select {
			case <-time.After(10 * time.Second):
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
			if w[0] == "bad" {
				return "", down
			}
			return "", nil
		}, nil)
		r.submit("k", "a", 0)
		<-time.After(time.Second)
		check(t, "running", recorded(t, s, "k"), `{"pending":["a"]}`)
		r.submit("k", "b", time.Hour)
		check(t, "dirty", recorded(t, s, "k"), `{"pending":["b"],"running":["a"]}`)
		<-time.After(10 * time.Second)
		check(t, "scheduled", recorded(t, s, "k"), `{"pending":["b"]}`)
		if _, err := r.Cancel(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		check(t, "idle", recorded(t, s, "k"), "nothing")
		if h, err := s.History(t.Context(), pendingWork, "k"); err != nil || len(h) != 1 || h[0].Kind != store.Forgotten {
			t.Errorf("the payloads are still in the history: %v, %v", h, err)
		}

		ended(t, r.submit("k", "bad", 0), "", down)
		check(t, "failed", recorded(t, s, "k"), "nothing")

		stopped := r.submit("k", "c", 0)
		synctest.Wait()
		r.submit("k", "d", time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Close(ctx); err != nil {
			t.Error(err)
		}
		ended(t, stopped, "", context.Canceled)
		check(t, "stopped", recorded(t, s, "k"), `{"pending":["d"],"running":["c"]}`)
	})
}

// Work that ends while Close waits for it is removed, and pending work after it is kept.
func TestCloseKeepsPendingWorkAfterRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := memoryStore(t, nil), newLog()
		r := durable(t, s, l.slow, nil)
		r.submit("k", "5s", 0)
		synctest.Wait()
		r.submit("k", "b", 0)
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
		l.check(t, "0s k begins: 5s", "5s k ends")
		check(t, "journal", recorded(t, s, "k"), `{"pending":["b"]}`)
	})
}

// refusing is a backend that can be made to fail.
type refusing struct {
	store.Backend
	err error
}

func (b *refusing) Do(ctx context.Context, batch *store.Batch) (*store.Results, error) {
	if b.err != nil && len(batch.Writes) > 0 {
		return nil, b.err
	}
	return b.Backend.Do(ctx, batch)
}

func TestFailingStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("disk full")
		b := &refusing{Backend: store.NewMemoryBackend()}
		s, err := store.New(b, nil)
		if err != nil {
			t.Fatal(err)
		}
		l := newLog()
		r := durable(t, s, l.slow, nil)
		kept := r.submit("k", "a", time.Second)
		b.err = full
		for _, key := range []string{"k", "other"} {
			if _, err := r.Submit(t.Context(), key, words{"b"}, time.Hour); !errors.Is(err, full) {
				t.Errorf("submit to %s: %v", key, err)
			}
		}
		if ok, err := r.Cancel(t.Context(), "k"); ok || !errors.Is(err, full) {
			t.Errorf("cancel: %v, %v", ok, err)
		}
		// What was acknowledged runs as if nothing had been asked.
		ended(t, kept, "a", full)
		l.check(t, "1s k begins: a")
		b.err = nil
		r.drain()
		check(t, "journal", recorded(t, s, "k"), `{"pending":["a"]}`)
	})
}

func TestUnreadableWorkIsReported(t *testing.T) {
	s := memoryStore(t, nil)
	if err := s.Put(t.Context(), pendingWork, "k", map[string]any{"pending": 7}, nil); err != nil {
		t.Fatal(err)
	}
	_, err := memory.OpenReflector(t.Context(), s, pendingWork, newLog().slow, nil)
	if err == nil || !strings.Contains(err.Error(), `"k"`) {
		t.Errorf("got %v", err)
	}
	if _, err := memory.NewReflector[int, int](nil, nil); err == nil {
		t.Error("there is nothing to run, and no error")
	}
}

// A submit that was under way when the reflector was closed is in the journal, and
// stays there when the run before it ends.
func TestCloseDuringSubmit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := memoryStore(t, nil), newLog()
		gate := make(chan struct{})
		r := durable(t, s, l.slow, &memory.ReflectorOptions[words, string]{Merge: func(before, now words) (words, error) {
			<-gate
			return before.Reduce(now), nil
		}})
		r.submit("k", "5s", 0)
		synctest.Wait()
		pending := r.submit("k", "b", 0)
		submitted, closed := make(chan error), make(chan error)
		go func() {
			_, err := r.Submit(t.Context(), "k", words{"c"}, 0)
			submitted <- err
		}()
		synctest.Wait()
		go func() { closed <- r.Close(t.Context()) }()
		synctest.Wait()
		close(gate)
		if err := errors.Join(<-submitted, <-closed); err != nil {
			t.Error(err)
		}
		ended(t, pending, "", memory.ErrClosed)
		l.check(t, "0s k begins: 5s", "5s k ends")
		check(t, "journal", recorded(t, s, "k"), `{"pending":["b","c"]}`)
	})
}
