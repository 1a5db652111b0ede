package memory_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/bus"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

func TestIncompleteErasureIsRejected(t *testing.T) {
	s := newStore(t, nil)
	saver := checkpoint.NewMemory()
	l := ledger.New(ledger.NewMemory(), nil)
	ann := []store.Namespace{{"memories", "ann"}}
	for want, e := range map[string]*memory.Erasure{
		"no data selected":                       {Person: "ann", Saver: saver, Store: s, Ledger: l},
		"Namespaces requires Store":              {Namespaces: ann},
		"Threads requires Saver or Ledger":       {Threads: []string{"ann"}, Store: s},
		"Metadata requires Ledger":               {Metadata: map[string]any{"user_id": "ann"}, Saver: saver},
		"empty namespace: would select":          {Namespaces: []store.Namespace{{}}, Store: s},
		"empty thread ID":                        {Threads: []string{""}, Saver: saver},
		"Journals requires Store":                {Threads: []string{"ann"}, Saver: saver, Journals: []store.Namespace{{"pending"}}},
		"Reflectors and Journals require Person": {Namespaces: ann, Store: s, Journals: []store.Namespace{{"pending"}}},
		"Reflectors contains nil":                {Person: "ann", Namespaces: ann, Store: s, Reflectors: []*memory.Reflector[memory.Session, []memory.ItemChange]{nil}},
		"empty namespace in Journals":            {Person: "ann", Namespaces: ann, Store: s, Journals: []store.Namespace{{}}},
		"Log requires Ledger":                    {Threads: []string{"ann"}, Saver: saver, Log: &eventLog{}},
		`namespace ["a" ""] segment 1 is empty`:  {Namespaces: []store.Namespace{{"a", ""}}, Store: s},
	} {
		for name, do := range map[string]func(context.Context) (*memory.Erased, error){"Run": e.Run, "DryRun": e.DryRun} {
			if _, err := do(t.Context()); err == nil || !strings.Contains(err.Error(), "memory: erase: ") || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: the error is %v, want %q", name, err, want)
			}
		}
	}
}

// eventLog is a log of events that has some of one thread.
type eventLog struct {
	bus.Log
	thread  uuid.UUID
	dropped int
}

func (l *eventLog) Read(_ context.Context, thread uuid.UUID, _ uint64, _ bool) iter.Seq2[*ledger.Events, error] {
	return func(yield func(*ledger.Events, error) bool) {
		if thread == l.thread && l.dropped == 0 {
			yield(&ledger.Events{Thread: thread, First: 1, Last: 4}, nil)
		}
	}
}

func (l *eventLog) Drop(_ context.Context, thread uuid.UUID) error {
	if thread == l.thread {
		l.dropped++
	}
	return nil
}

// Overlapping namespaces are counted once, and other namespaces are kept.
func TestErasureCountsEachItemOnce(t *testing.T) {
	s := newStore(t, nil)
	for _, n := range []store.Namespace{{"m", "ann"}, {"m", "ann", "work"}, {"m", "anna"}, {"m"}} {
		if err := s.Put(t.Context(), n, "k", map[string]string{"content": "x"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	e := &memory.Erasure{Namespaces: []store.Namespace{{"m", "ann", "work"}, {"m", "ann"}, {"m", "ann"}}, Store: s}
	for _, do := range []func(context.Context) (*memory.Erased, error){e.DryRun, e.Run} {
		r, err := do(t.Context())
		if err != nil || r.Found != (memory.Holdings{Items: 2, Changes: 2}) || r.Scrubbed || r.CacheCleared {
			t.Errorf("the report is %+v, %v", r, err)
		}
	}
	left, err := s.Namespaces(t.Context(), nil)
	if err != nil || len(left) != 2 {
		t.Errorf("left are %v, %v", left, err)
	}
}

// Erasure waits for a running reflection, so that its writes are erased too. Reflections
// about other people continue.
func TestErasureWaitsForReflection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, nil)
		begun, release := make(chan struct{}), make(chan struct{})
		r, err := memory.OpenReflector(t.Context(), s, store.Namespace{"pending"}, func(ctx context.Context, key string, p memory.Session) ([]memory.ItemChange, error) {
			if key == "running" {
				close(begun)
				<-release
			}
			return nil, s.Put(ctx, store.Namespace{"memories", p.Vars["user_id"]}, key, map[string]string{"content": "learned"}, nil)
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		session := func(person string) memory.Session {
			return memory.Session{Vars: map[string]string{"user_id": person}, Messages: llm.Messages{llm.User("hello")}}
		}
		for _, w := range []struct {
			key, person string
			after       time.Duration
		}{{"running", "ann", 0}, {"waiting", "ann", time.Hour}, {"ann's thread/bob", "bob", time.Hour}, {"other", "bob", time.Hour}} {
			if _, err := r.Submit(t.Context(), w.key, session(w.person), w.after); err != nil {
				t.Fatal(err)
			}
		}
		<-begun
		e := &memory.Erasure{Person: "ann", Namespaces: []store.Namespace{{"memories", "ann"}}, Threads: []string{"ann's thread"}, Saver: checkpoint.NewMemory(), Store: s, Reflectors: []*memory.Reflector[memory.Session, []memory.ItemChange]{r}}
		if dry, err := e.DryRun(t.Context()); err != nil || dry.Found != (memory.Holdings{Pending: 3}) {
			t.Errorf("the dry run finds %v, %v", dry, err)
		}
		var report *memory.Erased
		done := make(chan struct{})
		go func() {
			defer close(done)
			report, err = e.Run(t.Context())
		}()
		synctest.Wait() // it waits for the run
		close(release)
		<-done
		if err != nil || report.Found != (memory.Holdings{Items: 1, Changes: 1, Pending: 3}) {
			t.Errorf("erased: %v, %v", report, err)
		}
		if err := r.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		left, err := s.Namespaces(t.Context(), &store.NamespacesOptions{Prefix: store.Namespace{"memories"}})
		if err != nil || len(left) != 1 || left[0][1] != "bob" {
			t.Errorf("left are %v, %v", left, err)
		}
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// The work of a closed reflector, or of another process, is in its journal.
func TestErasureFindsSessionsInJournal(t *testing.T) {
	for name, closed := range map[string]bool{"closed": true, "in no process": false} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, nil)
			journal := store.Namespace{"pending"}
			m := newStoreManager(t, s, llmtest.NewScript(), memory.StoreManagerOptions{})
			r, err := memory.OpenReflector(t.Context(), s, journal, m.ReflectOn, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, person := range []string{"ann", "bob"} {
				if _, err := r.Submit(t.Context(), "thread/"+person, memory.Session{Vars: map[string]string{"user_id": person}}, time.Hour); err != nil {
					t.Fatal(err)
				}
			}
			if err := r.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			e := &memory.Erasure{Person: "ann", Namespaces: []store.Namespace{{"memories", "ann"}}, Store: s}
			if closed {
				e.Reflectors = append(e.Reflectors, r)
			} else {
				e.Journals = append(e.Journals, journal)
			}
			if report, err := e.Run(t.Context()); err != nil || report.Found != (memory.Holdings{Pending: 1}) {
				t.Errorf("erased: %v, %v", report, err)
			}
			left, err := s.Search(t.Context(), journal, nil)
			if err != nil || len(left) != 1 || left[0].Key != "thread/bob" {
				t.Errorf("left are %v, %v", left, err)
			}
		})
	}
}

// erasable returns a ledger in memory with a worker and a running run.
func erasable(t *testing.T) (*ledger.Ledger, uuid.UUID, *ledger.Run) {
	t.Helper()
	l := ledger.New(ledger.NewMemory(), nil)
	worker := uuid.Must(uuid.NewV7())
	if _, err := l.Beat(t.Context(), worker, "test"); err != nil {
		t.Fatal(err)
	}
	thread := &ledger.Thread{Metadata: ledger.Object{"user_id": "ann"}}
	if err := l.CreateThread(t.Context(), thread); err != nil {
		t.Fatal(err)
	}
	c, err := l.CreateRun(t.Context(), &ledger.NewRun{Run: &ledger.Run{Thread: thread.ID, Graph: "g"}, Worker: worker})
	if err != nil || !c.Claimed {
		t.Fatalf("%+v, %v", c, err)
	}
	return l, worker, c.Run
}

// Erasure cancels a server run and waits for it.
func TestErasureCancelsServerRuns(t *testing.T) {
	l, worker, run := erasable(t)
	events := &eventLog{thread: run.Thread}
	e := &memory.Erasure{Metadata: map[string]any{"user_id": "ann"}, Ledger: l, Log: events}
	ended := make(chan error)
	go func() {
		for {
			ordered, err := l.Beat(t.Context(), worker, "test")
			if err != nil || len(ordered) == 1 && ordered[0].Order == ledger.CancelRun {
				_, finish := l.Finish(t.Context(), &ledger.End{Run: run, Worker: worker, Status: ledger.RunCanceled})
				ended <- errors.Join(err, finish)
				return
			}
		}
	}()
	report, err := e.Run(t.Context())
	if err := errors.Join(err, <-ended); err != nil {
		t.Error(err)
	}
	if want := (memory.Holdings{Threads: 1, Runs: 1, LogEvents: 4}); report.Found != want || events.dropped == 0 {
		t.Errorf("erased: %v", report)
	}
}

// A process that ignores the cancellation cannot restore the thread, and the report says
// so.
func TestErasureWaitForRunIsBounded(t *testing.T) {
	l, worker, run := erasable(t)
	e := &memory.Erasure{Metadata: map[string]any{"user_id": "ann"}, Ledger: l, Wait: time.Millisecond}
	report, err := e.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "did not end within 1ms") {
		t.Errorf("the error is %v", err)
	}
	if report.Found != (memory.Holdings{Threads: 1, Runs: 1}) || report.Left != (memory.Holdings{}) {
		t.Errorf("erased: %+v", report)
	}
	if _, err := l.Finish(t.Context(), &ledger.End{Run: run, Worker: worker, Status: ledger.Success}); !errors.Is(err, ledger.ErrLost) {
		t.Errorf("the run ends with %v", err)
	}
	if report, err := e.Run(t.Context()); err != nil || report.Found != (memory.Holdings{}) {
		t.Errorf("a second time: %v, %v", report, err)
	}
}

// broken is a saver that fails to delete one thread.
type broken struct {
	*checkpoint.Memory
	fails bool
}

var errBroken = errors.New("the disk is full")

func (b *broken) DeleteThread(ctx context.Context, thread string) error {
	if b.fails && thread == "ann 1" {
		return errBroken
	}
	return b.Memory.DeleteThread(ctx, thread)
}

// A failure in one place is reported; everything else is erased, and the next call erases
// the rest.
func TestFailedErasureErasesRest(t *testing.T) {
	s := newStore(t, nil)
	saver := &broken{checkpoint.NewMemory(), true}
	for _, thread := range []string{"ann 1", "ann 2"} {
		if err := saver.Put(t.Context(), &checkpoint.Put{Key: checkpoint.Key{Thread: thread, ID: checkpoint.NewID(0, checkpoint.ID{})}, Step: -1}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Put(t.Context(), store.Namespace{"m", "ann"}, "k", map[string]int{"v": 1}, nil); err != nil {
		t.Fatal(err)
	}
	e := &memory.Erasure{Threads: []string{"ann 1", "ann 2"}, Namespaces: []store.Namespace{{"m", "ann"}}, Saver: saver, Store: s}
	report, err := e.Run(t.Context())
	if !errors.Is(err, errBroken) || strings.Count(err.Error(), "disk is full") != 1 {
		t.Errorf("the error is %v", err)
	}
	if report.Left.SavedThreads != 1 || report.Left.Items != 0 || report.Found.Items != 1 {
		t.Errorf("the report is %+v", report)
	}
	saver.fails = false
	if report, err := e.Run(t.Context()); err != nil || report.Found.SavedThreads != 1 || report.Found.Items != 0 || !report.Scrubbed {
		t.Errorf("the next report is %+v, %v", report, err)
	}
}

// If a writer keeps writing, the erasure is incomplete, and the report says so.
func TestErasureReportsConcurrentWriter(t *testing.T) {
	s := newStore(t, nil)
	n := store.Namespace{"m", "ann"}
	saver := &busy{Memory: checkpoint.NewMemory(), write: func() error { return s.Put(t.Context(), n, "k", map[string]int{"v": 1}, nil) }}
	if err := saver.write(); err != nil {
		t.Fatal(err)
	}
	report, err := (&memory.Erasure{Threads: []string{"ann"}, Namespaces: []store.Namespace{n}, Saver: saver, Store: s}).Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "still being written") {
		t.Errorf("the error is %v", err)
	}
	if report.Found.Items != 3 || report.Left.Items != 1 {
		t.Errorf("the report is %+v", report)
	}
}

// busy is a saver that writes whenever it is read.
type busy struct {
	*checkpoint.Memory
	write func() error
}

func (b *busy) Size(ctx context.Context, thread string) (int64, error) {
	if err := b.write(); err != nil {
		return 0, err
	}
	return b.Memory.Size(ctx, thread)
}

// forgetful returns a store and two reflectors, as an agent with a profile and a
// collection has them. Both wait for an hour and then learn what Ann said.
func forgetful(t *testing.T, learn func(ctx context.Context, n store.Namespace, p memory.Session) ([]memory.ItemChange, error)) (*store.Store, []*memory.Reflector[memory.Session, []memory.ItemChange]) {
	t.Helper()
	s := newStore(t, nil)
	var all []*memory.Reflector[memory.Session, []memory.ItemChange]
	for _, kind := range []string{"profile", "notes"} {
		r, err := memory.OpenReflector(t.Context(), s, store.Namespace{"pending", kind}, func(ctx context.Context, _ string, p memory.Session) ([]memory.ItemChange, error) {
			return learn(ctx, store.Namespace{"users", "ann", kind}, p)
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Close(context.Background()) })
		submitSession(t, r, "Ann lives in London")
		all = append(all, r)
	}
	return s, all
}

func submitSession(t *testing.T, r *memory.Reflector[memory.Session, []memory.ItemChange], text string) *memory.Reflection[[]memory.ItemChange] {
	t.Helper()
	done, err := r.Submit(t.Context(), "thread/ann", memory.Session{Vars: map[string]string{"user": "ann"}, Messages: llm.Messages{llm.User(text)}}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// textUnder returns the text of all items under the prefix.
func textUnder(t *testing.T, s *store.Store, prefix ...string) string {
	t.Helper()
	items, err := s.Search(t.Context(), prefix, &store.SearchOptions{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, item := range items {
		out.Write(item.Value)
	}
	return out.String()
}

func TestErasureCoversAllReflectors(t *testing.T) {
	var s *store.Store
	s, all := forgetful(t, func(ctx context.Context, n store.Namespace, p memory.Session) ([]memory.ItemChange, error) {
		return nil, s.Put(ctx, n, "k", p, nil)
	})
	e := &memory.Erasure{Person: "ann", Namespaces: []store.Namespace{{"users", "ann"}}, Store: s,
		Reflectors: append(all, all...), Journals: []store.Namespace{{"pending", "notes"}, {"pending"}}}
	for _, do := range []func(context.Context) (*memory.Erased, error){e.DryRun, e.Run} {
		if report, err := do(t.Context()); err != nil || report.Found != (memory.Holdings{Pending: 2}) {
			t.Errorf("found: %v, %v", report, err)
		}
	}
	for _, r := range all {
		if err := r.Flush(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if left := textUnder(t, s, "users") + textUnder(t, s, "pending"); left != "" {
		t.Errorf("a reflector wrote back %s", left)
	}
}

// eraseJournals erases Ann as another process does, which does not have the reflectors.
func eraseJournals(t *testing.T, s *store.Store, want int) {
	t.Helper()
	e := &memory.Erasure{Person: "ann", Namespaces: []store.Namespace{{"users", "ann"}}, Store: s, Journals: []store.Namespace{{"pending"}}}
	if report, err := e.Run(t.Context()); err != nil || report.Found.Pending != want {
		t.Errorf("erased: %v, %v", report, err)
	}
}

func TestErasureCancelsWorkOfOtherProcesses(t *testing.T) {
	var s *store.Store
	learned := func(ctx context.Context, n store.Namespace, p memory.Session) ([]memory.ItemChange, error) { //nolint:unparam // the type of NewReflector's parameter
		return nil, s.Put(ctx, n, "k", p, nil)
	}
	t.Run("pending", func(t *testing.T) {
		var all []*memory.Reflector[memory.Session, []memory.ItemChange]
		s, all = forgetful(t, learned)
		done := submitSession(t, all[0], "and in Paris")
		eraseJournals(t, s, 2)
		if err := all[0].Flush(t.Context()); !errors.Is(err, memory.ErrCanceled) {
			t.Errorf("Flush: %v", err)
		}
		if _, err := done.Wait(t.Context()); !errors.Is(err, memory.ErrCanceled) {
			t.Errorf("Wait: %v", err)
		}
		if left := textUnder(t, s, "users") + textUnder(t, s, "pending"); left != "" {
			t.Errorf("left: %s", left)
		}
	})
	t.Run("submitted again", func(t *testing.T) {
		var all []*memory.Reflector[memory.Session, []memory.ItemChange]
		s, all = forgetful(t, learned)
		eraseJournals(t, s, 2)
		submitSession(t, all[1], "Ann is back")
		if pending := textUnder(t, s, "pending"); strings.Contains(pending, "London") || !strings.Contains(pending, "Ann is back") {
			t.Errorf("the journal has %s", pending)
		}
		if err := all[1].Flush(t.Context()); err != nil {
			t.Error(err)
		}
		if got := textUnder(t, s, "users"); strings.Contains(got, "London") || !strings.Contains(got, "Ann is back") {
			t.Errorf("learned: %s", got)
		}
	})
}

// A run that started before the erasure does not store its memories, and its journal entry
// does not reappear.
func TestErasureCancelsRunsOfOtherProcesses(t *testing.T) {
	for name, again := range map[string]bool{"running": false, "submitted again while running": true} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, nil)
			started, release := make(chan struct{}), make(chan struct{})
			model := llmtest.Scripted(t, llmtest.Ask(note("Ann lives in London")))
			m, err := memory.NewStoreManager(model, &memory.StoreManagerOptions{Namespace: []string{"users", "{user}"}})
			if err != nil {
				t.Fatal(err)
			}
			first := true
			r, err := memory.OpenReflector(t.Context(), s, store.Namespace{"pending"}, func(ctx context.Context, key string, p memory.Session) ([]memory.ItemChange, error) {
				if !first {
					return nil, nil
				}
				first = false
				close(started)
				<-release
				return m.ReflectOn(ctx, key, p)
			}, nil)
			if err != nil {
				t.Fatal(err)
			}
			session := func(text string) memory.Session {
				return memory.Session{Vars: map[string]string{"user": "ann"}, Messages: llm.Messages{llm.User(text)}}
			}
			running, err := r.Submit(t.Context(), "thread/ann", session("I live in London"), 0)
			if err != nil {
				t.Fatal(err)
			}
			<-started
			erased, err := r.Submit(t.Context(), "thread/ann", session("I moved to Paris"), time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			eraseJournals(t, s, 1)
			if again {
				if _, err := r.Submit(t.Context(), "thread/ann", session("hello"), time.Hour); err != nil {
					t.Fatal(err)
				}
				if pending := textUnder(t, s, "pending"); strings.Contains(pending, "London") || strings.Contains(pending, "Paris") {
					t.Errorf("the journal has %s", pending)
				}
			}
			close(release)
			for _, one := range []*memory.Reflection[[]memory.ItemChange]{running, erased} {
				if _, err := one.Wait(t.Context()); !errors.Is(err, memory.ErrCanceled) {
					t.Errorf("Wait: %v", err)
				}
			}
			if err := r.Flush(t.Context()); err != nil {
				t.Error(err)
			}
			if left := textUnder(t, s, "users") + textUnder(t, s, "pending"); left != "" {
				t.Errorf("left: %s", left)
			}
			if err := r.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
