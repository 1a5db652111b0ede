package treadle_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/reduce"
)

type wakeState struct {
	Days int
	Log  reduce.List[string]
}

type wakeLog struct{ Log reduce.List[string] }

// sleepers returns a graph whose node sleeps for the number of days in its input and then
// counts that it woke.
func sleepers(t *testing.T, saver checkpoint.Saver, log *slog.Logger, wakes func(ctx context.Context, s wakeState) error) *treadle.Graph[wakeState, wakeState] {
	t.Helper()
	b := treadle.New[wakeState]("sleepers")
	treadle.AddNode(b, "sleep", func(ctx context.Context, s wakeState) (wakeLog, error) {
		if err := treadle.Sleep(ctx, time.Duration(s.Days)*24*time.Hour); err != nil {
			return wakeLog{}, err
		}
		err := wakes(ctx, s)
		return wakeLog{reduce.List[string]{"woke"}}, err
	})
	b.Edge(treadle.Start, "sleep")
	g, err := b.Compile(&treadle.Options{Saver: saver, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func sent(t *testing.T, err error) {
	t.Helper()
	if _, ok := errors.AsType[*treadle.InterruptError](err); !ok {
		t.Fatalf("the run ended with %v, want it to wait", err)
	}
}

// waking runs Wake until stop is called.
func waking(t *testing.T, graphs ...treadle.AnyGraph) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- treadle.Wake(ctx, graphs...) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestWakeContinuesThreadsAtTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		woke := map[string]time.Duration{}
		began := time.Now()
		g := sleepers(t, checkpoint.NewMemory(), nil, func(ctx context.Context, _ wakeState) error {
			mu.Lock()
			defer mu.Unlock()
			thread := treadle.InfoFrom(ctx).Thread
			if _, again := woke[thread]; again {
				t.Errorf("thread %s woke twice", thread)
			}
			woke[thread] = time.Since(began)
			return nil
		})
		for days := range 5 { // before Wake starts
			_, err := g.Thread(fmt.Sprint("day ", days+1)).Run(t.Context(), wakeState{Days: days + 1})
			sent(t, err)
		}
		defer waking(t, g)()
		synctest.Wait()
		for days := range 5 { // and while it runs
			_, err := g.Thread(fmt.Sprint("later ", days+1)).Run(t.Context(), wakeState{Days: days + 1})
			sent(t, err)
		}
		time.Sleep(10 * 24 * time.Hour) //nolint:forbidigo // the time of synctest
		mu.Lock()
		defer mu.Unlock()
		if len(woke) != 10 {
			t.Fatalf("%d threads woke, want 10", len(woke))
		}
		for thread, after := range woke {
			_, days, _ := strings.Cut(thread, " ")
			want := time.Duration(days[0]-'0') * 24 * time.Hour
			if after != want {
				t.Errorf("thread %s woke after %v, want %v", thread, after, want)
			}
			out, err := g.Thread(thread).State(t.Context())
			if err != nil || len(out.Next) > 0 {
				t.Errorf("thread %s has %v to run: %v", thread, out.Next, err)
			}
		}
	})
}

// A scan of the saver finds threads that wait because of another process.
func TestWakeFindsThreadsOfOtherProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		saver := checkpoint.NewMemory()
		var woke atomic.Int32
		wakes := func(context.Context, wakeState) error { woke.Add(1); return nil }
		g, elsewhere := sleepers(t, saver, nil, wakes), sleepers(t, saver, nil, wakes) // two plans share nothing
		defer waking(t, g)()
		time.Sleep(time.Hour) //nolint:forbidigo // the time of synctest
		_, err := elsewhere.Thread("1").Run(t.Context(), wakeState{Days: 1})
		sent(t, err)
		time.Sleep(24 * time.Hour) //nolint:forbidigo // the time of synctest
		synctest.Wait()
		if n := woke.Load(); n != 1 {
			t.Errorf("it woke %d times, want once", n)
		}
		// Deleted threads are forgotten.
		_, err = elsewhere.Thread("2").Run(t.Context(), wakeState{Days: 1})
		sent(t, err)
		time.Sleep(time.Hour) //nolint:forbidigo // the time of synctest
		if err := saver.DeleteThread(t.Context(), "2"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(48 * time.Hour) //nolint:forbidigo // the time of synctest
		if n := woke.Load(); n != 1 {
			t.Errorf("a deleted thread woke")
		}
	})
}

func TestSignalWakesThread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		build := func(saver checkpoint.Saver) *treadle.Graph[wakeState, wakeState] {
			b := treadle.New[wakeState]("orders")
			treadle.AddNode(b, "wait", func(ctx context.Context, _ wakeState) (wakeLog, error) {
				by, err := treadle.WaitFor[string](ctx, "paid", &treadle.WaitOptions{Deadline: time.Now().Add(72 * time.Hour), OnTimeout: "nobody"})
				return wakeLog{reduce.List[string]{by}}, err
			})
			b.Edge(treadle.Start, "wait")
			return treadle.Must(b.Compile(&treadle.Options{Saver: saver}))
		}
		saver := checkpoint.NewMemory()
		g, elsewhere := build(saver), build(saver)
		defer waking(t, g)()
		for _, name := range []string{"here", "there", "never"} {
			_, err := g.Thread(name).Run(t.Context(), wakeState{})
			sent(t, err)
		}
		time.Sleep(time.Hour) //nolint:forbidigo // the time of synctest
		began := time.Now()
		if err := g.Thread("here").Signal(t.Context(), "paid", "Ada"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		log := func(name string) []string {
			var s wakeState
			snap, err := g.Thread(name).State(t.Context())
			if err == nil {
				err = snap.Read(&s)
			}
			if err != nil {
				t.Fatal(err)
			}
			return s.Log
		}
		if got := log("here"); !slices.Equal(got, []string{"Ada"}) || time.Since(began) > 0 {
			t.Errorf("a signal of this process: %q after %v", got, time.Since(began))
		}
		if err := elsewhere.Thread("there").Signal(t.Context(), "paid", "Bob"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) //nolint:forbidigo // the time of synctest
		if got := log("there"); !slices.Equal(got, []string{"Bob"}) {
			t.Errorf("a signal of another process: %q", got)
		}
		time.Sleep(72 * time.Hour) //nolint:forbidigo // the time of synctest
		if got := log("never"); !slices.Equal(got, []string{"nobody"}) {
			t.Errorf("without a signal: %q", got)
		}
	})
}

// flakySaver fails while it is broken.
type flakySaver struct {
	*checkpoint.Memory
	broken atomic.Bool
}

var errBroken = errors.New("the database is away")

func (s *flakySaver) Get(ctx context.Context, key checkpoint.Key) (*checkpoint.Checkpoint, error) {
	if s.broken.Load() {
		return nil, errBroken
	}
	return s.Memory.Get(ctx, key)
}

func (s *flakySaver) Threads(ctx context.Context) iter.Seq2[checkpoint.Thread, error] {
	if s.broken.Load() {
		return func(yield func(checkpoint.Thread, error) bool) { yield(checkpoint.Thread{}, errBroken) }
	}
	return s.Memory.Threads(ctx)
}

func TestWakeLogsErrorsAndContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		saver := &flakySaver{Memory: checkpoint.NewMemory()}
		var mu sync.Mutex
		var text bytes.Buffer
		log := slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			return text.Write(p)
		}), nil))
		logged := func() string {
			mu.Lock()
			defer mu.Unlock()
			defer text.Reset()
			return text.String()
		}
		var tries, fine atomic.Int32
		g := sleepers(t, saver, log, func(ctx context.Context, _ wakeState) error {
			if treadle.InfoFrom(ctx).Thread == "fails" {
				tries.Add(1)
				return errors.New("no such account")
			}
			fine.Add(1)
			return nil
		})
		defer waking(t, g)()
		for name, days := range map[string]int{"fails": 1, "fine": 1, "late": 2} {
			_, err := g.Thread(name).Run(t.Context(), wakeState{Days: days})
			sent(t, err)
		}
		time.Sleep(36 * time.Hour) //nolint:forbidigo // the time of synctest
		if tries.Load() != 1 || fine.Load() != 1 {
			t.Errorf("%d tries of the node that fails, want 1; %d woke, want 1", tries.Load(), fine.Load())
		}
		if got := logged(); strings.Count(got, "no such account") != 1 || !strings.Contains(got, "thread=fails") {
			t.Errorf("logged %q", got)
		}
		saver.broken.Store(true)
		time.Sleep(24 * time.Hour) //nolint:forbidigo // the time of synctest
		if got := logged(); !strings.Contains(got, errBroken.Error()) || strings.Count(got, "\n") > 3000 {
			t.Errorf("logged %d lines: %.300q", strings.Count(got, "\n"), got)
		}
		saver.broken.Store(false)
		time.Sleep(time.Hour) //nolint:forbidigo // the time of synctest
		if fine.Load() != 2 {
			t.Error("a thread that was due while the database was away did not wake")
		}
		// Somebody continues the thread that failed, and it fails again.
		if _, err := g.Thread("fails").Continue(t.Context()); err == nil || tries.Load() != 2 {
			t.Errorf("continued: %v after %d tries", err, tries.Load())
		}
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestWakeRejectsInvalidArguments(t *testing.T) {
	none := func(context.Context, wakeState) error { return nil }
	saver := checkpoint.NewMemory()
	g := sleepers(t, saver, nil, none)
	var missing *treadle.Graph[wakeState, wakeState]
	for want, err := range map[string]error{
		"no graphs: pass":         treadle.Wake(t.Context()),
		"graph 1 of 1 is nil":     treadle.Wake(t.Context(), nil),
		"graph 2 of 2 is nil":     treadle.Wake(t.Context(), g, missing),
		"graph has no saver":      treadle.Wake(t.Context(), sleepers(t, nil, nil, none)),
		"cannot list threads":     treadle.Wake(t.Context(), sleepers(t, struct{ checkpoint.Saver }{saver}, nil, none)),
		"two graphs of one saver": treadle.Wake(t.Context(), g, sleepers(t, saver, nil, none)),
		"nil context":             treadle.Wake(nil, g), //nolint:staticcheck // the tested case
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
}

// Sleeping threads need no goroutine, and Wake keeps little state for them.
func TestTenThousandSleepersAreCheap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 10_000
		saver := checkpoint.NewMemory()
		g := sleepers(t, saver, nil, func(context.Context, wakeState) error { return errors.New("woken") })
		_, err := g.Thread("0").Run(t.Context(), wakeState{Days: 1})
		sent(t, err)
		for i := 1; i < n; i++ { // which takes less time than to run each
			if err := saver.CopyThread(t.Context(), "0", fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
		heap := func() int64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		goroutines, before := runtime.NumGoroutine(), heap()
		stop := waking(t, g)
		time.Sleep(10 * time.Second) //nolint:forbidigo // the time of synctest
		synctest.Wait()
		if more := runtime.NumGoroutine() - goroutines; more > 1 {
			t.Errorf("%d goroutines more, want only Wake's", more)
		}
		if each := (heap() - before) / n; each > 600 {
			t.Errorf("a sleeper costs Wake %d bytes", each)
		}
		stop()
	})
}

// Wake ends with its context, after the runs that it has started.
func TestWakeEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Bool
		g := sleepers(t, checkpoint.NewMemory(), nil, func(ctx context.Context, _ wakeState) error {
			<-ctx.Done()
			time.Sleep(time.Second) //nolint:forbidigo // the time of synctest
			ended.Store(true)
			return ctx.Err()
		})
		_, err := g.Thread("1").Run(t.Context(), wakeState{Days: 1})
		sent(t, err)
		stop := waking(t, g)
		time.Sleep(25 * time.Hour) //nolint:forbidigo // the time of synctest
		stop()
		if !ended.Load() {
			t.Error("Wake returned before its run had ended")
		}
		// The thread's run was canceled.
		var names []string
		for th, err := range g.Unfinished(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, th.ID())
		}
		if !slices.Equal(names, []string{"1"}) {
			t.Errorf("unfinished are %q", names)
		}
	})
}

// A pending interrupt does not keep a sleeping thread from waking, and the woken node
// raises the same interrupt again.
func TestWakeKeepsInterruptsPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := treadle.New[wakeState]("both")
		treadle.AddNode(b, "ask", func(ctx context.Context, _ wakeState) (wakeLog, error) {
			said, err := treadle.Interrupt[string](ctx, "well?")
			return wakeLog{reduce.List[string]{said}}, err
		})
		treadle.AddNode(b, "sleep", func(ctx context.Context, _ wakeState) (wakeLog, error) {
			return wakeLog{reduce.List[string]{"slept"}}, treadle.Sleep(ctx, time.Hour)
		})
		b.Edge(treadle.Start, "ask")
		b.Edge(treadle.Start, "sleep")
		g := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()}))
		defer waking(t, g)()
		_, err := g.Thread("1").Run(t.Context(), wakeState{})
		asked, _ := errors.AsType[*treadle.InterruptError](err)
		time.Sleep(2 * time.Hour) //nolint:forbidigo // the time of synctest
		snap, err := g.Thread("1").State(t.Context())
		if err != nil || len(snap.Pauses) != 1 || snap.Pauses[0].Kind != treadle.QuestionPause ||
			!slices.ContainsFunc(asked.Pauses, func(p treadle.Pause) bool { return p.ID == snap.Pauses[0].ID }) {
			t.Fatalf("waits for %+v: %v", snap.Pauses, err)
		}
		out, err := g.Thread("1").Resume(t.Context(), "yes")
		if err != nil || !slices.Equal([]string(out.Log), []string{"yes", "slept"}) {
			t.Errorf("%q, %v", out.Log, err)
		}
	})
}

// No other process can change this process's memory, so Wake does not scan it.
func TestWakeDoesNotScanIdleMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := sleepers(t, checkpoint.NewMemory(), nil, func(context.Context, wakeState) error { return nil })
		stop := waking(t, g)
		defer stop()
		_, err := g.Thread("1").Run(t.Context(), wakeState{Days: 3650})
		sent(t, err)
		synctest.Wait()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		time.Sleep(3651 * 24 * time.Hour) //nolint:forbidigo // the time of synctest
		synctest.Wait()
		runtime.ReadMemStats(&after)
		snap, err := g.Thread("1").State(t.Context())
		if err != nil || len(snap.Next) > 0 {
			t.Errorf("after ten years the thread has %v to run, %v", snap.Next, err)
		}
		// A look each minute would be five million looks.
		if n := after.Mallocs - before.Mallocs; n > 1_000_000 {
			t.Errorf("ten years of sleep took %d allocations", n)
		}
	})
}

func TestWakeSeesThreadsOfEqualGraph(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		saver := checkpoint.NewMemory()
		nothing := func(context.Context, wakeState) error { return nil }
		stop := waking(t, sleepers(t, saver, nil, nothing))
		defer stop()
		time.Sleep(30 * 24 * time.Hour) //nolint:forbidigo // the time of synctest, in which looks have become rare
		g := sleepers(t, saver, nil, nothing)
		_, err := g.Thread("1").Run(t.Context(), wakeState{Days: 1})
		sent(t, err)
		time.Sleep(24*time.Hour + time.Second) //nolint:forbidigo // the time of synctest
		synctest.Wait()
		if snap, err := g.Thread("1").State(t.Context()); err != nil || len(snap.Next) > 0 {
			t.Errorf("after its sleep the thread has %v to run, %v", snap.Next, err)
		}
	})
}
