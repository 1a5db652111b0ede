package runs

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/ledger"
)

// reading returns a runner that executes nothing, and a log of a run of its.
func reading(t *testing.T, keep bool) (*Runner, *log) {
	t.Helper()
	r := &Runner{ledger: ledger.New(ledger.NewMemory(), nil), stopped: make(chan struct{})}
	run := &ledger.Run{ID: uuid.New(), Thread: uuid.New()}
	l := &log{runner: r, feed: r.feeds.use(run.Thread), run: run, keep: keep}
	t.Cleanup(l.flush)
	return r, l
}

func (l *log) write(n int) {
	for range n {
		l.add(&Entry{Run: l.run.ID, Protocol: V2, Name: "custom", data: json.RawMessage(strconv.FormatUint(l.feed.last()+1, 10))})
	}
}

func TestSlowReaderFallsBackToLedger(t *testing.T) {
	r, l := reading(t, true)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	const all = 3 * maxEntries
	l.write(10)
	next := uint64(1)
	for e, err := range r.ReadThread(ctx, l.run.Thread, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Seq != next || string(e.Data()) != strconv.FormatUint(next, 10) {
			t.Fatalf("entry %d is %s; want %d", e.Seq, e.Data(), next)
		}
		if next == 10 { // the reader sleeps while the run continues
			l.write(all - 10)
			l.flush()
		}
		if next++; next > all {
			break
		}
	}
	if n := len(l.feed.entries); n > maxEntries {
		t.Errorf("the feed has %d entries", n)
	}
}

func TestSlowReaderOfUnkeptRunLosesPlace(t *testing.T) {
	r, l := reading(t, false)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	l.write(10)
	var got error
	n := 0
	for _, err := range r.ReadThread(ctx, l.run.Thread, 0) {
		got = err
		if err != nil {
			break
		}
		if n++; n == 5 {
			l.write(2 * maxEntries)
		}
	}
	if !errors.Is(got, ErrSlow) || n != 10 {
		t.Errorf("%d entries and then %v", n, got)
	}
	// A new reader gets the available entries.
	n = 0
	for _, err := range r.Kept(ctx, l.run.Thread, 10) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != maxEntries {
		t.Errorf("%d entries are left", n)
	}
}

func TestReadThreadEndsWithContextOrRunner(t *testing.T) {
	r, l := reading(t, false)
	ctx, cancel := context.WithCancel(t.Context())
	for _, tt := range []struct {
		stop func()
		want error
	}{{cancel, context.Canceled}, {func() { close(r.stopped) }, ErrStopped}} {
		done := make(chan error)
		go func() {
			for _, err := range r.ReadThread(ctx, l.run.Thread, 0) {
				done <- err
			}
		}()
		tt.stop()
		if err := <-done; !errors.Is(err, tt.want) {
			t.Errorf("the reader ends with %v; want %v", err, tt.want)
		}
		ctx = context.WithoutCancel(ctx) //nolint:fatcontext // there are two of them
	}
}

// Who waits for the end of a run needs no other entry of it.
func TestWaitNeverMissesEnd(t *testing.T) {
	r, l := reading(t, false)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	job := &ledger.NewRun{Run: &ledger.Run{ID: l.run.ID, Thread: l.run.Thread, Graph: "g", Status: ledger.Pending, Strategy: ledger.Enqueue, Kwargs: json.RawMessage("{}")},
		Create: &ledger.Thread{ID: l.run.Thread, Metadata: ledger.Object{}, Config: ledger.Object{}}}
	if _, err := r.ledger.CreateRun(ctx, job); err != nil {
		t.Fatal(err)
	}
	l.write(10)
	ended := make(chan *Entry)
	go func() {
		end, err := r.End(ctx, l.run, true)
		if err != nil {
			t.Error(err)
		}
		ended <- end
	}()
	l.write(2 * maxEntries)
	l.add(&Entry{Run: l.run.ID, End: &End{Status: "success"}})
	if end := <-ended; end == nil || end.End == nil {
		t.Errorf("the last entry is %+v", end)
	}
	// The next run of the thread has pushed it out.
	next := &log{runner: r, feed: l.feed, run: &ledger.Run{ID: uuid.New(), Thread: l.run.Thread}}
	next.write(2 * maxEntries)
	if _, _, err := r.ledger.Cancel(ctx, l.run.Thread, []uuid.UUID{l.run.ID}, ledger.CancelRun, nil); err != nil {
		t.Fatal(err)
	}
	if e, err := r.End(ctx, l.run, true); err != nil || e != nil {
		t.Errorf("the missing end is %+v, %v", e, err)
	}
}

// The client that created a run reads none of the thread's earlier entries, so the cost of
// a run does not grow with the thread.
func TestReaderOfNewRunSkipsOlderEntries(t *testing.T) {
	r, l := reading(t, false)
	l.write(10)
	for _, e := range l.feed.entries {
		e.mu.Lock()
	}
	run := &ledger.Run{ID: uuid.New(), Thread: l.run.Thread, Worker: r.worker, Seq: l.feed.last()}
	next := &log{runner: r, feed: l.feed, run: run}
	next.write(1)
	next.add(&Entry{Run: run.ID, End: &End{Status: "success"}})
	if end, err := r.End(t.Context(), run, true); err != nil || end == nil || end.End == nil {
		t.Errorf("the end is %+v, %v", end, err)
	}
	n := 0
	for _, err := range r.Read(t.Context(), run, 0, true) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 2 {
		t.Errorf("%d entries are read, want 2", n)
	}
}
