package memory_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

// words are payloads that add up.
type words []string

func (w words) Reduce(more words) words { return slices.Concat(w, more) }

// chat returns n messages with the IDs first, first+1, and so on.
func chat(first, n int) (ms llm.Messages) {
	for i := first; i < first+n; i++ {
		m := llm.User(fmt.Sprint("Message ", i))
		m.ID = fmt.Sprint(i)
		ms = append(ms, m)
	}
	return ms
}

// shown returns the IDs of the messages.
func shown(ms llm.Messages) string {
	var ids []string
	for _, m := range ms {
		ids = append(ids, m.ID)
	}
	return strings.Join(ids, " ")
}

func check(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// A log records what has run, with the time since the start of the test.
type log struct {
	began time.Time
	mu    sync.Mutex
	lines []string
}

func newLog() *log { return &log{began: time.Now()} }

func (l *log) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf("%v ", time.Since(l.began))+fmt.Sprintf(format, args...))
}

func (l *log) check(t *testing.T, want ...string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if d := cmp.Diff(want, l.lines); d != "" {
		t.Error(d)
	}
}

// slow simulates a run that takes as long as its last word specifies and logs its
// progress.
func (l *log) slow(ctx context.Context, key string, w words) (string, error) {
	text := strings.Join(w, " ")
	l.add("%s begins: %s", key, text)
	if d, err := time.ParseDuration(w[len(w)-1]); err == nil {
		select {
		case <-time.After(d):
		case <-ctx.Done():
			l.add("%s is cancelled", key)
			return "", context.Cause(ctx)
		}
		l.add("%s ends", key)
	}
	return text, nil
}

// tested is a reflector under test: its calls do not fail.
type tested struct {
	*memory.Reflector[words, string]
	t *testing.T
}

func reflector(t *testing.T, run func(context.Context, string, words) (string, error), opts *memory.ReflectorOptions[words, string]) tested {
	t.Helper()
	r, err := memory.NewReflector(run, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close(context.Background()) })
	return tested{r, t}
}

func (r tested) submit(key, word string, after time.Duration) *memory.Reflection[string] {
	r.t.Helper()
	h, err := r.Submit(r.t.Context(), key, words{word}, after)
	if err != nil {
		r.t.Fatal(err)
	}
	return h
}

func (r tested) drain() {
	r.t.Helper()
	if err := r.Drain(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

func ended(t *testing.T, h *memory.Reflection[string], want string, wantErr error) {
	t.Helper()
	got, err := h.Wait(t.Context())
	if got != want || !errors.Is(err, wantErr) {
		t.Errorf("the work ended with %q, %v; want %q, %v", got, err, want, wantErr)
	}
}

// LangMem keeps only the newest payload.
//
// Defect: §4.1 what was submitted before the newest payload is lost.
func TestSubmitsMergeUntilQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog()
		r := reflector(t, l.slow, nil)
		a := r.submit("k", "a", time.Second)
		<-time.After(900 * time.Millisecond)
		b := r.submit("k", "b", time.Second)
		<-time.After(900 * time.Millisecond)
		c := r.submit("k", "c", time.Second)
		r.drain()
		for _, h := range []*memory.Reflection[string]{a, b, c} {
			ended(t, h, "a b c", nil)
		}
		l.check(t, "2.8s k begins: a b c")
	})
}

func TestNewestPayloadWinsWithoutReduce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := memory.NewReflector(func(_ context.Context, _ string, n int) (int, error) { return n, nil }, nil)
		if err != nil {
			t.Fatal(err)
		}
		first, err := r.Submit(t.Context(), "k", 1, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Submit(t.Context(), "k", 2, 0); err != nil {
			t.Fatal(err)
		}
		if got, err := first.Wait(t.Context()); got != 2 || err != nil {
			t.Errorf("got %d, %v", got, err)
		}
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Conversations are merged by message ID: submitting the whole conversation each time has
// the same effect as submitting only new messages.
func TestConversationsAreMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := memory.NewReflector(func(_ context.Context, _ string, ms llm.Messages) (string, error) { return shown(ms), nil }, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, ms := range []llm.Messages{chat(1, 2), chat(1, 4), chat(5, 1)} {
			if _, err := r.Submit(t.Context(), "k", ms, time.Second); err != nil {
				t.Fatal(err)
			}
		}
		h, err := r.Submit(t.Context(), "k", nil, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := h.Wait(t.Context()); got != "1 2 3 4 5" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestFailedMergeKeepsPendingWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("refused")
		l := newLog()
		r := reflector(t, l.slow, &memory.ReflectorOptions[words, string]{Merge: func(words, words) (words, error) { return nil, refused }})
		a := r.submit("k", "a", time.Second)
		if _, err := r.Submit(t.Context(), "k", words{"b"}, time.Minute); !errors.Is(err, refused) {
			t.Errorf("got %v", err)
		}
		ended(t, a, "a", nil)
		l.check(t, "1s k begins: a")
	})
}

// In LangMem, submits without an ID share one key and cancel each other.
//
// Defect: §4.1 (1) without a thread id the submits of all users cancel each other.
func TestSubmitRequiresKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog()
		r := reflector(t, l.slow, nil)
		if _, err := r.Submit(t.Context(), "", words{"a"}, 0); !errors.Is(err, memory.ErrNoKey) {
			t.Errorf("submit: got %v", err)
		}
		if _, err := r.Cancel(t.Context(), ""); !errors.Is(err, memory.ErrNoKey) {
			t.Errorf("cancel: got %v", err)
		}
		r.submit("alice", "a", 1*time.Second)
		r.submit("bob", "b", 2*time.Second)
		r.drain()
		l.check(t, "1s alice begins: a", "2s bob begins: b")
	})
}

// Upstream: the run does not have the store of the submit.
//
// Defect: §4.1 (2) the worker overrides the store of the run with none.
func TestRunKeepsContextValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		s, err := store.NewMemory(nil)
		if err != nil {
			t.Fatal(err)
		}
		r := reflector(t, func(ctx context.Context, k string, w words) (string, error) {
			return "", ctx.Value(key{}).(*store.Store).Put(ctx, store.Namespace{"m"}, k, map[string]any{"words": w}, nil)
		}, nil)
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, s))
		h, err := r.Submit(ctx, "k", words{"a"}, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		cancel() // the run of the graph is over long before
		ended(t, h, "", nil)
		if _, err := s.Get(t.Context(), store.Namespace{"m"}, "k", nil); err != nil {
			t.Error(err)
		}
	})
}

// In LangMem, a submit marks running work as canceled, which it is not.
//
// Defect: §4.1 (3) a submit marks running work as canceled, which completes nevertheless.
func TestSubmitDuringRunRunsAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog()
		r := reflector(t, l.slow, nil)
		first := r.submit("k", "10s", 0)
		<-time.After(time.Second)
		second := r.submit("k", "b", time.Second) // due long before the first ends
		ended(t, first, "10s", nil)
		ended(t, second, "b", nil)
		l.check(t, "0s k begins: 10s", "10s k ends", "10s k begins: b")
	})
}

// Upstream: the end of a run takes away the entry of newer work, which is then
// not merged.
//
// Defect: §4.1 (4) the end of a run drops the entry of newer work, so that both run.
func TestThirdSubmitJoinsSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog()
		r := reflector(t, l.slow, nil)
		r.submit("k", "10s", 0)
		<-time.After(time.Second)
		second := r.submit("k", "b", 20*time.Second)
		<-time.After(14 * time.Second) // the first has ended
		third := r.submit("k", "c", 20*time.Second)
		ended(t, second, "b c", nil)
		ended(t, third, "b c", nil)
		l.check(t, "0s k begins: 10s", "10s k ends", "35s k begins: b c")
	})
}

// In LangMem, shutdown runs all work immediately, including canceled work, and crashes.
//
// Defect: §4.1 (5) shutdown runs what is not due yet.
// Defect: §4.1 (5) shutdown runs what was canceled, and the worker dies of it.
func TestCloseRunsNoFutureWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog()
		r := reflector(t, l.slow, nil)
		called := r.submit("called off", "a", time.Hour)
		later := r.submit("later", "b", time.Hour)
		running := r.submit("running", "5s", 0)
		if ok, err := r.Cancel(t.Context(), "called off"); !ok || err != nil {
			t.Errorf("cancel: %v, %v", ok, err)
		}
		synctest.Wait()
		err := r.Close(t.Context())
		if !errors.Is(err, memory.ErrClosed) || !strings.Contains(err.Error(), `["later"]`) {
			t.Errorf("close does not report unfinished work: %v", err)
		}
		ended(t, called, "", memory.ErrCanceled)
		ended(t, later, "", memory.ErrClosed)
		ended(t, running, "5s", nil)
		if _, err := r.Submit(t.Context(), "k", words{"c"}, 0); !errors.Is(err, memory.ErrClosed) {
			t.Errorf("submit: %v", err)
		}
		if err := r.Close(t.Context()); err != nil {
			t.Errorf("close again: %v", err)
		}
		r.drain() // nothing is left to wait for
		<-time.After(2 * time.Hour)
		l.check(t, "0s running begins: 5s", "5s running ends")
	})
}

// In LangMem, work in the far future delays work that is due now.
//
// Defect: §4.1 (6) far-off work delays what is due now.
func TestWaitIgnoresLaterWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog()
		r := reflector(t, l.slow, &memory.ReflectorOptions[words, string]{Workers: 1})
		r.submit("later", "a", time.Hour)
		<-time.After(300 * time.Millisecond)
		r.submit("now", "b", 0)
		r.submit("soon", "c", time.Millisecond)
		r.drain()
		l.check(t, "300ms now begins: b", "301ms soon begins: c", "1h0m0s later begins: a")
	})
}

// Upstream: a slow run blocks all.
//
// Defect: §4.1 (7) one slow reflection blocks all others.
func TestSlowWorkBlocksNoOtherKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog()
		r := reflector(t, l.slow, &memory.ReflectorOptions[words, string]{Workers: 2})
		r.submit("slow", "1h", 0)
		<-time.After(time.Second)
		r.submit("b", "2s", 0)
		<-time.After(time.Second)
		r.submit("c", "c", 0) // waits for a worker
		r.drain()
		l.check(t, "0s slow begins: 1h", "1s b begins: 2s", "3s b ends", "3s c begins: c", "1h0m0s slow ends")
	})
}

// Upstream: work that is due at the same time is compared by its payload, which
// can fail.
//
// Defect: §4.1 (8) work that is due at the same time is compared by payload, which can fail.
func TestWorkDueSimultaneously(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var got []string
		r, err := memory.NewReflector(func(_ context.Context, key string, _ map[string]any) (struct{}, error) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, key)
			return struct{}{}, nil
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for i := range 50 {
			key := fmt.Sprintf("key %02d", i)
			want = append(want, key)
			if _, err := r.Submit(t.Context(), key, map[string]any{"messages": []any{i}}, time.Second); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		slices.Sort(got)
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestCancelKeepsRunningWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog()
		r := reflector(t, l.slow, nil)
		running := r.submit("k", "10s", 0)
		<-time.After(time.Second)
		dirty := r.submit("k", "b", 0)
		for _, want := range []bool{true, false} {
			if ok, err := r.Cancel(t.Context(), "k"); ok != want || err != nil {
				t.Errorf("cancel: %v, %v; want %v", ok, err, want)
			}
		}
		ended(t, dirty, "", memory.ErrCanceled)
		ended(t, running, "10s", nil)
		again := r.submit("k", "c", time.Second)
		ended(t, again, "c", nil)
		l.check(t, "0s k begins: 10s", "10s k ends", "11s k begins: c")
	})
}

func TestFlushRunsNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("down")
		l := newLog()
		r := reflector(t, func(ctx context.Context, key string, w words) (string, error) {
			out, err := l.slow(ctx, key, w)
			if key == "bad" {
				err = down
			}
			return out, err
		}, nil)
		r.submit("a", "5s", 0)
		<-time.After(time.Second)
		r.submit("a", "more", time.Hour)
		r.submit("b", "b", time.Hour)
		r.submit("bad", "c", time.Hour)
		flushed := make(chan error)
		go func() { flushed <- r.Flush(t.Context(), "a") }()
		synctest.Wait()
		r.submit("a", "and more", time.Hour) // joins the flushed work and does not delay it
		if err := <-flushed; err != nil {
			t.Error(err)
		}
		if err := r.Flush(t.Context(), "nobody"); err != nil {
			t.Error(err)
		}
		l.check(t, "0s a begins: 5s", "5s a ends", "5s a begins: more and more")
		if err := r.Flush(t.Context()); !errors.Is(err, down) {
			t.Errorf("flush of all: %v", err)
		}
		if got := time.Since(l.began); got != 5*time.Second {
			t.Errorf("all was flushed after %v", got)
		}
	})
}

func TestWaitEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := reflector(t, newLog().slow, nil)
		h := r.submit("k", "1h", 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := h.Wait(ctx)
		for _, err := range []error{err, r.Drain(ctx), r.Flush(ctx)} {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		}
		ended(t, h, "1h", nil)
	})
}

func TestCloseCancelsRunsAfterDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog()
		r := reflector(t, l.slow, nil)
		h := r.submit("k", "1h", 0)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := r.Close(ctx); err != nil {
			t.Error(err)
		}
		ended(t, h, "", context.Canceled)
		l.check(t, "0s k begins: 1h", "1m0s k is cancelled")
	})
}

// Neither a panic nor the end of the goroutine ends anything but the run itself,
// and Done hears of it.
func TestPanicsAreIsolated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog()
		r := reflector(t, func(_ context.Context, key string, w words) (string, error) {
			switch w[0] {
			case "panic":
				panic("boom")
			case "exit":
				runtime.Goexit()
			}
			return w[0], nil
		}, &memory.ReflectorOptions[words, string]{Workers: 1, Done: func(key, result string, err error) {
			p, ok := errors.AsType[*memory.PanicError](err)
			l.add("%s: %q %v", key, result, ok && p.Key == key && p.Stack != "")
			if ok {
				panic("done")
			}
			runtime.Goexit()
		}})
		for _, word := range []string{"panic", "exit", "well", "well"} {
			h := r.submit("k", word, 0)
			if _, err := h.Wait(t.Context()); (err == nil) != (word == "well") {
				t.Errorf("%s: %v", word, err)
			}
		}
		l.check(t, `0s k: "" true`, `0s k: "" true`, `0s k: "well" false`, `0s k: "well" false`)
	})
}

// A run may end at any moment of a submit; the key is still one.
func TestRunEndsDuringSubmit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running *memory.Reflection[string]
		l := newLog()
		r := reflector(t, l.slow, &memory.ReflectorOptions[words, string]{Merge: func(before, now words) (words, error) {
			_, err := running.Wait(context.Background())
			return before.Reduce(now), err
		}})
		running = r.submit("k", "5s", 0)
		synctest.Wait()
		r.submit("k", "b", time.Hour)
		second := r.submit("k", "7s", 0) // while it merges, the first run ends
		synctest.Wait()
		third := r.submit("k", "c", 0)
		ended(t, second, "b 7s", nil)
		ended(t, third, "c", nil)
		l.check(t, "0s k begins: 5s", "5s k ends", "5s k begins: b 7s", "12s k ends", "12s k begins: c")
	})
}
