package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/bus"
	"github.com/treadle-go/treadle/internal/delay"
	"github.com/treadle-go/treadle/ledger"
)

// logged is a bus with a log that does not answer.
type logged struct{ bus.Bus }

func (logged) Log() bus.Log { return deadLog{} }

type deadLog struct{}

var errDead = errors.New("no server can be reached")

func (deadLog) Append(context.Context, *ledger.Events) error { return errDead }

func (deadLog) Drop(context.Context, uuid.UUID) error { return errDead }

func (deadLog) Read(context.Context, uuid.UUID, uint64, bool) iter.Seq2[*ledger.Events, error] {
	return func(yield func(*ledger.Events, error) bool) { yield(nil, errDead) }
}

// sharing returns a runner that executes nothing and uses a bus, and a run.
func sharing(t *testing.T, b bus.Bus) (*Runner, *ledger.Run) {
	t.Helper()
	t.Cleanup(func() { _ = b.Close() })
	r := &Runner{ledger: ledger.New(ledger.NewMemory(), nil), stopped: make(chan struct{}), logger: slog.New(slog.DiscardHandler), o: Options{Bus: b}}
	return r, &ledger.Run{ID: uuid.New(), Thread: uuid.New(), Attempt: 1}
}

// numbered returns entries with these numbers.
func numbered(run *ledger.Run, before *uint64, numbers ...uint64) []*Entry {
	es := make([]*Entry, len(numbers))
	for i, n := range numbers {
		es[i] = &Entry{Seq: n, Run: run.ID, Name: "values", data: json.RawMessage("1")}
	}
	es[0].before = before
	return es
}

// put stores entries as another process does.
func put(t *testing.T, r *Runner, run *ledger.Run, es []*Entry) {
	t.Helper()
	pack := &ledger.Events{Thread: run.Thread, Run: run.ID, First: es[0].Seq, Last: es[len(es)-1].Seq, Data: packEntries(es)}
	if err := r.ledger.Append(t.Context(), pack); err != nil {
		t.Fatal(err)
	}
}

func shown(f *Feed) (numbers []uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.entries {
		numbers = append(numbers, e.Seq)
	}
	return numbers
}

func TestTakenRunReplaysRecordedEvents(t *testing.T) {
	r, run := sharing(t, bus.NewMemory())
	feed := r.feeds.use(run.Thread)
	feed.insert(numbered(run, nil, 1, 2))
	put(t, r, run, numbered(run, nil, 1, 2))
	put(t, r, run, numbered(run, nil, 1001, 1002)) // not followed yet
	run.Attempt = 3
	got, last := r.catchUp(t.Context(), run, feed)
	if got != feed || last == nil || *last != 1002 {
		t.Fatalf("another feed %v, the last entry %v", got != feed, last)
	}
	feed.startAt(2000)
	feed.append(&Entry{Run: run.ID})
	if numbers := shown(feed); !slices.Equal(numbers, []uint64{1, 2, 1001, 1002, 2001}) {
		t.Errorf("the readers see %d", numbers)
	}
}

func TestUnreadableGapDisconnectsReaders(t *testing.T) {
	r, run := sharing(t, logged{bus.NewMemory()})
	feed := r.feeds.use(run.Thread)
	feed.insert(numbered(run, nil, 1, 2))
	reading := make(chan error, 1)
	begun := make(chan struct{})
	go func() {
		reader := r.feeds.use(run.Thread)
		_, _, more := reader.after(2)
		close(begun)
		reading <- reader.waitMore(context.Background(), more, r.stopped)
	}()
	<-begun
	run.Attempt = 3
	got, last := r.catchUp(t.Context(), run, feed)
	if got == feed || last != nil || r.feeds.use(run.Thread) != got {
		t.Errorf("the same feed %v, the last entry %v", got == feed, last)
	}
	if err := <-reading; !errors.Is(err, errCut) {
		t.Errorf("the reader gets %v", err)
	}
}

func TestCancelDuringCatchUpKeepsReaders(t *testing.T) {
	r, run := sharing(t, bus.NewMemory())
	feed := r.feeds.use(run.Thread)
	feed.insert(numbered(run, nil, 1, 2))
	put(t, r, run, numbered(run, nil, 1001, 1002))
	run.Attempt = 3
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, last := r.catchUp(ctx, run, feed); got != feed || last == nil || *last != 1002 {
		t.Errorf("another feed %v, the last entry %v", got != feed, last)
	}
}

// Who waits for the end of a run needs none of the entries before it.
func TestWaitersStayConnected(t *testing.T) {
	r, _ := sharing(t, bus.NewMemory())
	thread := uuid.New()
	made, err := r.ledger.CreateRun(t.Context(), &ledger.NewRun{
		Run:    &ledger.Run{Thread: thread, Strategy: ledger.Reject, Graph: "g", Assistant: uuid.New(), Kwargs: json.RawMessage("{}")},
		Create: &ledger.Thread{ID: thread},
	})
	if err != nil {
		t.Fatal(err)
	}
	run := made.Run
	r.ctx = t.Context()
	t.Cleanup(r.loops.Wait)
	old := r.feeds.use(run.Thread)
	ended := make(chan *Entry, 1)
	go func() {
		e, err := r.End(t.Context(), run, false)
		if err != nil {
			t.Error(err)
		}
		ended <- e
	}()
	waits := func(f *Feed) bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.wake != nil
	}
	for !waits(old) {
		_ = delay.For(t.Context(), time.Millisecond)
	}
	r.feeds.replace(old).append(&Entry{Run: run.ID, End: &End{Status: "success"}})
	if e := <-ended; e == nil || e.End.Status != "success" {
		t.Errorf("the end is %+v", e)
	}
}

func TestLedgerEventsAfterGapWaitForLog(t *testing.T) {
	before := uint64(2)
	for _, test := range []struct {
		name  string
		stale bool // a gap has been there for long
		next  []*Entry
		want  string
	}{
		{"the process has read all before it", false, numbered(&ledger.Run{}, &before, 1001), "[1 2 1001]"},
		{"it has not", false, numbered(&ledger.Run{}, nil, 1001), "[1 2]"},
		{"it has not, and the log does not answer", true, numbered(&ledger.Run{}, nil, 1001), "[1 2]"},
		{"no gap", true, numbered(&ledger.Run{}, nil, 3), "[1 2 3]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, run := sharing(t, logged{bus.NewMemory()})
			feed := r.feeds.use(run.Thread)
			feed.insert(numbered(run, nil, 1, 2))
			put(t, r, run, test.next)
			f := follower{r: r, feed: feed, whole: time.Now()}
			if test.stale {
				f.whole = time.Now().Add(-2 * gapTime)
			}
			f.look(t.Context(), true)
			if got := fmt.Sprint(shown(feed)); got != test.want {
				t.Errorf("the readers see %s, want %s", got, test.want)
			}
		})
	}
}

func TestStepCommitRequiresEvents(t *testing.T) {
	r, run := sharing(t, bus.NewMemory())
	l := &log{runner: r, feed: r.feeds.use(run.Thread), run: run, keep: true, dropped: true}
	if err := l.settle(); err == nil {
		t.Error("the step is committed although events of it are lost")
	}
	l.dropped = false
	l.write(3)
	if err := l.settle(); err != nil {
		t.Error(err)
	}
}

// A process that has read a run for a while, and has stopped to, has a part of it.
func TestPartialFeedIsNotComplete(t *testing.T) {
	r, run := sharing(t, bus.NewMemory())
	first := numbered(run, nil, 1, 2)
	first[0].first = true
	feed := r.feeds.use(run.Thread)
	feed.insert(slices.Clone(first))
	last := numbered(run, nil, 3, 4)
	last[1].End = &End{}
	put(t, r, run, first)
	put(t, r, run, last)
	var got []uint64
	for e, err := range r.past(t.Context(), run.Thread, run.ID, 2, feed) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.Seq)
	}
	if !slices.Equal(got, []uint64{3, 4}) {
		t.Errorf("the entries %d are read, want 3 and 4", got)
	}
	feed.insert(last)
	if !feed.covers(run.ID, 1, false) {
		t.Error("the feed has all entries, but does not report it")
	}
}

// withoutLog is a bus that leaves events to the ledger.
type withoutLog struct{ bus.Bus }

func (withoutLog) Log() bus.Log { return nil }

// If the response to a pack is lost, the pack is stored again together with later entries.
func TestOverlappingPacksAreReadOnce(t *testing.T) {
	r, run := sharing(t, withoutLog{bus.NewMemory()})
	put(t, r, run, numbered(run, nil, 1, 2))
	put(t, r, run, numbered(run, nil, 3))
	put(t, r, run, numbered(run, nil, 3, 4))
	var got []uint64
	for e, err := range r.past(t.Context(), run.Thread, run.ID, 1, r.feeds.use(run.Thread)) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.Seq)
	}
	if want := []uint64{2, 3, 4}; !slices.Equal(got, want) {
		t.Errorf("read %v, want %v", got, want)
	}
}

// They come into the feed while the reader is on its way to the ledger.
func TestReadFinishesWhileFeedFills(t *testing.T) {
	r, run := sharing(t, bus.NewMemory())
	es := numbered(run, nil, 1, 2, 3)
	es[0].first, es[2].End = true, &End{}
	put(t, r, run, es)
	r.feeds.use(run.Thread).insert(slices.Clone(es))
	var got []uint64
	r.rest(t.Context(), run, 1, func(e *Entry, err error) bool {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.Seq)
		return true
	})
	if !slices.Equal(got, []uint64{2, 3}) {
		t.Errorf("the entries %d are read, want 2 and 3", got)
	}
}

// The ledger's events are shown without the log if none is missing between them.
func TestReadersWithoutLogGetWholeEvents(t *testing.T) {
	begins := func(run *ledger.Run, numbers ...uint64) []*Entry {
		es := numbered(run, nil, numbers...)
		es[0].first = true
		return es
	}
	ends := func(es []*Entry) []*Entry {
		es[len(es)-1].End = &End{}
		return es
	}
	for _, test := range []struct {
		name  string
		after uint64
		packs func(*ledger.Run) [][]*Entry
		want  string
	}{
		{"all of the run", 0, func(r *ledger.Run) [][]*Entry { return [][]*Entry{begins(r, 11, 12), ends(numbered(r, nil, 13))} }, "[11 12 13] <nil>"},
		{"without its beginning", 0, func(r *ledger.Run) [][]*Entry { return [][]*Entry{ends(numbered(r, nil, 12, 13))} }, "[] no server can be reached"},
		{"after a number", 11, func(r *ledger.Run) [][]*Entry { return [][]*Entry{ends(numbered(r, nil, 12, 13))} }, "[12 13] <nil>"},
		{"with a gap", 0, func(r *ledger.Run) [][]*Entry { return [][]*Entry{begins(r, 11), ends(numbered(r, nil, 13))} }, "[11] no server can be reached"},
		{"without its end", 0, func(r *ledger.Run) [][]*Entry { return [][]*Entry{begins(r, 11, 12)} }, "[11 12] no server can be reached"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, run := sharing(t, logged{bus.NewMemory()})
			for _, pack := range test.packs(run) {
				put(t, r, run, pack)
			}
			var got []uint64
			var failed error
			for e, err := range r.past(t.Context(), run.Thread, run.ID, test.after, r.feeds.use(run.Thread)) {
				failed = err
				if err == nil {
					got = append(got, e.Seq)
				}
			}
			if got := fmt.Sprint(got, " ", failed); got != test.want {
				t.Errorf("the reader gets %s, want %s", got, test.want)
			}
		})
	}
}
