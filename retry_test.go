package treadle_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/dynamic"
	"github.com/treadle-go/treadle/internal/observe"
	"github.com/treadle-go/treadle/reduce"
)

// passing is an error that the default policy retries.
type passing struct{ what string }

func (p passing) Error() string   { return p.what }
func (p passing) Temporary() bool { return true }

// failing returns a node that fails n times and then writes that it ran.
func failing(n int, err error) func(context.Context, diary) (page, error) {
	calls := 0
	return func(context.Context, diary) (page, error) {
		if calls++; calls <= n {
			return did("never written"), err
		}
		return did(fmt.Sprint("call ", calls)), nil
	}
}

// tally counts the calls of concurrent nodes.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func (c *tally) note(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[string]int{}
	}
	c.counts[what]++
	return c.counts[what]
}

// single returns a graph with one node.
func single(t *testing.T, fn func(context.Context, diary) (page, error), opts ...treadle.NodeOption) *treadle.Graph[diary, diary] {
	t.Helper()
	b := treadle.New[diary]("single")
	treadle.AddNode(b, "node", fn, opts...)
	b.Edge(treadle.Start, "node")
	return weave(t, b, nil)
}

// timed runs f and returns its duration.
func timed(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

// Parity: 177.
func TestRetrySleepsExactly(t *testing.T) {
	always := func(error) bool { return true }
	for name, tt := range map[string]struct {
		policy treadle.RetryPolicy
		fails  int
		slept  time.Duration
		calls  int // 0: it never succeeds
	}{
		"defaults":          {treadle.RetryPolicy{NoJitter: true}, 2, 1500 * time.Millisecond, 3},
		"immediate success": {treadle.RetryPolicy{NoJitter: true}, 0, 0, 1},
		"used up":           {treadle.RetryPolicy{NoJitter: true}, 3, 1500 * time.Millisecond, 0},
		"factor":            {treadle.RetryPolicy{Initial: time.Second, Factor: 3, Attempts: 4, NoJitter: true}, 3, 13 * time.Second, 4},
		"max":               {treadle.RetryPolicy{Initial: 10 * time.Second, Factor: 10, Max: 15 * time.Second, Attempts: 4, NoJitter: true}, 3, 40 * time.Second, 4},
		"one attempt":       {treadle.RetryPolicy{Attempts: 1, NoJitter: true}, 1, 0, 0},
		"own predicate":     {treadle.RetryPolicy{On: always, NoJitter: true}, 1, 500 * time.Millisecond, 2},
		"the cap of 128 s":  {treadle.RetryPolicy{Initial: 100 * time.Second, Attempts: 3, NoJitter: true}, 2, 228 * time.Second, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := single(t, failing(tt.fails, passing{"try again"}), treadle.Retry(tt.policy))
				var out diary
				var err error
				same(t, "slept", tt.slept, timed(func() { out, err = g.Run(t.Context(), diary{}) }))
				if tt.calls == 0 {
					if !errors.Is(err, passing{"try again"}) {
						t.Errorf("got %v", err)
					}
					same(t, "log", reduce.List[string](nil), out.Log)
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				same(t, "log", reduce.List[string]{fmt.Sprint("call ", tt.calls)}, out.Log)
			})
		})
	}
}

// Tasks with several attempts report them on the wire, while they run and in saved states.
// Other tasks have only LangGraph's keys.
func TestWireReportsAttempts(t *testing.T) {
	for name, tt := range map[string]struct {
		fails    int
		attempts any
		retries  int
	}{
		"immediate success": {0, nil, 0},
		"retried":           {2, 3.0, 2},
		"failed":            {30, 25.0, 20},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := treadle.New[diary]("single")
				treadle.AddNode(b, "node", failing(tt.fails, passing{"try again"}), treadle.Retry(treadle.RetryPolicy{Attempts: 25, NoJitter: true}))
				b.Edge(treadle.Start, "node")
				th := weave(t, b, &treadle.Options{Saver: checkpoint.NewMemory()}).Thread("t")
				check := func(where string, task map[string]any) {
					t.Helper()
					same(t, where, tt.attempts, task["attempts"])
					list, _ := task["retries"].([]any)
					same(t, "retries: "+where, tt.retries, len(list))
					if len(list) < 2 {
						return
					}
					second, _ := list[1].(map[string]any)
					same(t, where, map[string]any{"error": "try again", "started_at": "2000-01-01T00:00:00.5Z", "ended_at": "2000-01-01T00:00:00.5Z"}, second)
				}
				ends := 0
				for ev, err := range th.Stream(t.Context(), diary{}, treadle.Modes(treadle.ModeTasks)) {
					if err != nil {
						same(t, "the run fails", tt.fails >= 25, true)
						break
					}
					if _, ok := ev.(treadle.TaskFinished); ok {
						check("event", wired(t, ev))
						ends++
					}
				}
				same(t, "ends", 1, ends)
				tasks := 0
				for snap, err := range th.History(t.Context(), nil) {
					if err != nil {
						t.Fatal(err)
					}
					raw, err := dynamic.StateJSON(snap, false)
					if err != nil {
						t.Fatal(err)
					}
					var state struct{ Tasks []map[string]any }
					if err := json.Unmarshal(raw, &state); err != nil {
						t.Fatal(err)
					}
					for _, task := range state.Tasks {
						if task["name"] == "node" {
							check("state", task)
							tasks++
						}
					}
				}
				same(t, "tasks", 1, tasks)
			})
		})
	}
}

// wired returns an event as a client receives it.
func wired(t *testing.T, ev treadle.Event) (out map[string]any) {
	t.Helper()
	raw, err := dynamic.Wire{}.Encode(ev)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestRetryPolicyTellsHowLongToWait(t *testing.T) {
	p := treadle.RetryPolicy{Initial: time.Second, Factor: 3, Max: 4 * time.Second, Attempts: 4, NoJitter: true}
	for attempt, want := range []time.Duration{time.Second, 3 * time.Second, 4 * time.Second} {
		if wait, again := p.Wait(attempt + 1); wait != want || !again {
			t.Errorf("after attempt %d: %v, %v, want %v, true", attempt+1, wait, again, want)
		}
	}
	if wait, again := p.Wait(4); wait != 0 || again {
		t.Errorf("after the last attempt: %v, %v", wait, again)
	}
	if wait, again := (treadle.RetryPolicy{}).Wait(2); wait < time.Second || wait >= 2*time.Second || !again {
		t.Errorf("by default, after attempt 2: %v, %v", wait, again)
	}
}

// Parity: 177.
func TestRetryJitterBelowOneSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := map[time.Duration]bool{}
		for range 20 {
			g := single(t, failing(1, passing{"x"}), treadle.Retry())
			slept := timed(func() { wantLog(t, g, diary{}, "call 2") })
			if slept < 500*time.Millisecond || slept >= 1500*time.Millisecond {
				t.Errorf("slept %v", slept)
			}
			seen[slept] = true
		}
		if len(seen) < 2 {
			t.Errorf("always slept the same: %v", seen)
		}
	})
}

// Parity: 177.
func TestFirstMatchingRetryPolicyDecides(t *testing.T) {
	errA, errB, errC := errors.New("a"), errors.New("b"), errors.New("c")
	on := func(target error) func(error) bool { return func(err error) bool { return errors.Is(err, target) } }
	policies := treadle.Retry(
		treadle.RetryPolicy{On: on(errA), Initial: time.Second, Attempts: 2, NoJitter: true},
		treadle.RetryPolicy{On: on(errB), Initial: time.Minute, Attempts: 4, NoJitter: true},
		treadle.RetryPolicy{On: on(errA), Initial: time.Hour, Attempts: 9, NoJitter: true},
	)
	for name, tt := range map[string]struct {
		fails []error
		slept time.Duration
		err   error
	}{
		"the first":               {[]error{errA}, time.Second, nil},
		"the first, used up":      {[]error{errA, errA}, time.Second, errA},
		"the second":              {[]error{errB, errB, errB}, 3*time.Minute + 128*time.Second, nil},
		"each failure separately": {[]error{errA, errB}, time.Second + 2*time.Minute, nil},
		"attempts are shared":     {[]error{errB, errA}, time.Minute, errA},
		"none":                    {[]error{errC}, 0, errC},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				g := single(t, func(context.Context, diary) (page, error) {
					if calls++; calls <= len(tt.fails) {
						return page{}, tt.fails[calls-1]
					}
					return did("done"), nil
				}, policies)
				var err error
				same(t, "slept", tt.slept, timed(func() { _, err = g.Run(t.Context(), diary{}) }))
				if !errors.Is(err, tt.err) {
					t.Errorf("got %v, want %v", err, tt.err)
				}
			})
		})
	}
}

// Parity: 178.
func TestRetriedAttemptsKeepIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var infos []treadle.Info
		start := time.Now()
		g := single(t, func(ctx context.Context, _ diary) (page, error) {
			infos = append(infos, treadle.InfoFrom(ctx))
			return page{}, passing{"x"}
		}, treadle.Retry(treadle.RetryPolicy{Attempts: 3, NoJitter: true}))
		_, err := g.With(treadle.RunID("run-1")).Run(t.Context(), diary{})
		failure, ok := errors.AsType[*treadle.NodeError](err)
		if !ok {
			t.Fatalf("got %v", err)
		}
		same(t, "the failure's attempt", 3, failure.Attempt)
		var attempts []int
		for _, i := range infos {
			attempts = append(attempts, i.Attempt)
			same(t, "identity", []any{infos[0].TaskID, "run-1", "node", 1, true}, []any{i.TaskID, i.RunID, i.Node, i.Step, i.FirstAttempt.Equal(start)})
		}
		same(t, "attempts", []int{1, 2, 3}, attempts)
	})
}

// statusError is an HTTP error.
type statusError int

func (s statusError) Error() string   { return fmt.Sprint("status ", int(s)) }
func (s statusError) StatusCode() int { return int(s) }

// Parity: 175.
func TestTransientErrors(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{errors.New("anything"), false},
		{passing{"x"}, true},
		{fmt.Errorf("wrapped: %w", passing{"x"}), true},
		{statusError(429), true},
		{statusError(500), true},
		{statusError(503), true},
		{statusError(404), false},
		{statusError(200), false},
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, true},
		{&net.DNSError{Err: "no such host", IsNotFound: true}, true},
		{syscall.ECONNRESET, true},
		{io.ErrUnexpectedEOF, true},
		{io.EOF, false},
		{context.DeadlineExceeded, true},
		{context.Canceled, false},
		{fmt.Errorf("%w because %w", context.Canceled, passing{"x"}), false},
		{&treadle.TimeoutError{}, true},
	} {
		if got := treadle.Transient(tt.err); got != tt.want {
			t.Errorf("Transient(%v) = %v", tt.err, got)
		}
	}
}

// Permanent errors are not retried.
//
// Parity: 175.
func TestDefaultPolicyIgnoresPermanentErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		g := single(t, func(context.Context, diary) (page, error) {
			calls++
			return page{}, statusError(404)
		}, treadle.Retry())
		_, err := g.Run(t.Context(), diary{})
		if !errors.Is(err, statusError(404)) {
			t.Errorf("got %v", err)
		}
		same(t, "calls", 1, calls)
	})
}

// A panic is a failure like others: a policy may want it.
func TestPanicMayBeRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		g := single(t, func(context.Context, diary) (page, error) {
			if calls++; calls == 1 {
				panic("oh")
			}
			return did("done"), nil
		}, treadle.Retry(treadle.RetryPolicy{NoJitter: true, On: func(error) bool { return true }}))
		wantLog(t, g, diary{}, "done")
	})
}

// In a parallel step, a retry does not delay other nodes, and only the failed node runs
// again.
func TestRetryInParallelStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := treadle.New[diary]("parallel")
		siblings := 0
		var siblingAt time.Duration
		start := time.Now()
		treadle.AddNode(b, "bad", failing(2, passing{"x"}), treadle.Retry(treadle.RetryPolicy{NoJitter: true}))
		treadle.AddNode(b, "good", func(context.Context, diary) (page, error) {
			siblings++
			siblingAt = time.Since(start)
			return did("good"), nil
		})
		b.Edge(treadle.Start, "bad")
		b.Edge(treadle.Start, "good")
		slept := timed(func() { wantLog(t, weave(t, b, nil), diary{}, "call 3", "good") })
		same(t, "slept, sibling's calls and time", []any{1500 * time.Millisecond, 1, time.Duration(0)}, []any{slept, siblings, siblingAt})
	})
}

// The graphs that a node runs have the same namespaces in every attempt. If they are
// saved, an attempt continues where the previous one stopped; otherwise, it starts from
// scratch.
func TestRetriedSubgraph(t *testing.T) {
	for name, tt := range map[string]struct {
		run    func(*testing.T, *treadle.Graph[diary, diary]) (diary, error)
		firsts int
	}{
		"stored": {func(t *testing.T, g *treadle.Graph[diary, diary]) (diary, error) {
			return g.Thread("t").Run(t.Context(), diary{})
		}, 1},
		"not stored": {func(t *testing.T, g *treadle.Graph[diary, diary]) (diary, error) { return g.Run(t.Context(), diary{}) }, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls, firsts := 0, 0
				spaces := map[string]bool{}
				cb := treadle.New[diary]("child")
				treadle.AddNode(cb, "first", func(ctx context.Context, _ diary) (page, error) {
					firsts++
					return did("first"), nil
				})
				treadle.AddNode(cb, "second", func(ctx context.Context, _ diary) (page, error) {
					spaces[strings.Join(treadle.InfoFrom(ctx).Namespace, "|")] = true
					if calls++; calls < 3 {
						return page{}, passing{"x"}
					}
					return did("second"), nil
				})
				cb.Edge(treadle.Start, "first")
				cb.Edge("first", "second")
				b := treadle.New[diary]("parent")
				treadle.AddGraph(b, "sub", weave(t, cb, nil), treadle.Retry(treadle.RetryPolicy{NoJitter: true}))
				b.Edge(treadle.Start, "sub")
				out, err := tt.run(t, weave(t, b, &treadle.Options{Saver: checkpoint.NewMemory()}))
				if err != nil {
					t.Fatal(err)
				}
				same(t, "log", reduce.List[string]{"first", "second"}, out.Log)
				same(t, "calls and namespaces", []int{tt.firsts, 3, 1}, []int{firsts, calls, len(spaces)})
			})
		})
	}
}

// Cancellation ends the backoff of a retry immediately.
//
// Parity: 195.
func TestCancelEndsBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		g := single(t, failing(9, passing{"x"}), treadle.Retry(treadle.RetryPolicy{Initial: time.Hour, NoJitter: true}))
		var err error
		same(t, "slept", time.Second, timed(func() { _, err = g.Run(ctx, diary{}) }))
		if !errors.Is(err, context.Canceled) || !errors.Is(err, passing{"x"}) {
			t.Errorf("got %v, want the cancellation and the earlier failure", err)
		}
	})
}

func TestNegativeRetriesAreBuildErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		opt  treadle.NodeOption
		want string
	}{
		"attempts":      {treadle.Retry(treadle.RetryPolicy{}, treadle.RetryPolicy{Attempts: -1}), "retry policy 2: negative value"},
		"initial":       {treadle.Retry(treadle.RetryPolicy{Initial: -1}), "retry policy 1: negative value"},
		"timeout":       {treadle.Timeout(-time.Second), "timeout must be positive"},
		"zero timeout":  {treadle.Timeout(0), "timeout must be positive"},
		"zero idleness": {treadle.IdleTimeout(0), "timeout must be positive"},
	} {
		t.Run(name, func(t *testing.T) {
			b := treadle.New[diary]("single")
			treadle.AddNode(b, "node", does("x"), tt.opt)
			b.Edge(treadle.Start, "node")
			_, err := b.Compile(nil)
			problem, ok := errors.AsType[*treadle.BuildError](err)
			if !ok {
				t.Fatalf("got %v", err)
			}
			same(t, "problem", treadle.BuildError{Graph: "single", Node: "node", Msg: tt.want}, *problem)
		})
	}
}

// sleepy waits for d, or until it is canceled.
func sleepy(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Parity: 179, 180, 181.
func TestTimeouts(t *testing.T) {
	type want struct {
		took    time.Duration
		timeout *treadle.TimeoutError // nil: it ends well
	}
	hang := func(ctx context.Context) error { return sleepy(ctx, time.Hour) }
	// busy gives a sign of life every second for a minute.
	busy := func(sign func(context.Context)) func(context.Context) error {
		return func(ctx context.Context) error {
			for range 60 {
				sign(ctx)
				if err := sleepy(ctx, time.Second); err != nil {
					return err
				}
			}
			return nil
		}
	}
	emit := func(ctx context.Context) { treadle.Emit(ctx, "alive") }
	for name, tt := range map[string]struct {
		node func(context.Context) error
		opts []treadle.NodeOption
		want want
	}{
		"in time":                {func(ctx context.Context) error { return sleepy(ctx, time.Second) }, []treadle.NodeOption{treadle.Timeout(2 * time.Second)}, want{time.Second, nil}},
		"too long":               {hang, []treadle.NodeOption{treadle.Timeout(2 * time.Second)}, want{2 * time.Second, &treadle.TimeoutError{Node: "node", Limit: 2 * time.Second}}},
		"activity does not help": {busy(emit), []treadle.NodeOption{treadle.Timeout(5500 * time.Millisecond)}, want{5500 * time.Millisecond, &treadle.TimeoutError{Node: "node", Limit: 5500 * time.Millisecond}}},
		"idle":                   {hang, []treadle.NodeOption{treadle.IdleTimeout(2 * time.Second)}, want{2 * time.Second, &treadle.TimeoutError{Node: "node", Limit: 2 * time.Second, Idle: true}}},
		"both, run first":        {busy(emit), []treadle.NodeOption{treadle.Timeout(9500 * time.Millisecond), treadle.IdleTimeout(2 * time.Second)}, want{9500 * time.Millisecond, &treadle.TimeoutError{Node: "node", Limit: 9500 * time.Millisecond}}},
		"both, idle first":       {hang, []treadle.NodeOption{treadle.Timeout(9 * time.Second), treadle.IdleTimeout(2 * time.Second)}, want{2 * time.Second, &treadle.TimeoutError{Node: "node", Limit: 2 * time.Second, Idle: true}}},
		"never idle":             {busy(emit), []treadle.NodeOption{treadle.IdleTimeout(2 * time.Second)}, want{time.Minute, nil}},
		"heartbeats":             {busy(treadle.Heartbeat), []treadle.NodeOption{treadle.IdleTimeout(2 * time.Second), treadle.HeartbeatOnly()}, want{time.Minute, nil}},
		"heartbeats only":        {busy(emit), []treadle.NodeOption{treadle.IdleTimeout(1500 * time.Millisecond), treadle.HeartbeatOnly()}, want{1500 * time.Millisecond, &treadle.TimeoutError{Node: "node", Limit: 1500 * time.Millisecond, Idle: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, parallel := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					b := treadle.New[diary]("timeouts")
					treadle.AddNode(b, "node", func(ctx context.Context, _ diary) (page, error) { return did("done"), tt.node(ctx) }, tt.opts...)
					b.Edge(treadle.Start, "node")
					if parallel {
						treadle.AddNode(b, "sibling", does("sibling"))
						b.Edge(treadle.Start, "sibling")
					}
					g := weave(t, b, nil)
					var out diary
					var err error
					same(t, "took", tt.want.took, timed(func() { out, err = g.Run(t.Context(), diary{}) }))
					if tt.want.timeout == nil {
						if err != nil || out.Log[0] != "done" {
							t.Errorf("got %v, %v", out, err)
						}
						return
					}
					late, ok := errors.AsType[*treadle.TimeoutError](err)
					if !ok {
						t.Fatalf("got %v", err)
					}
					same(t, "timeout", *tt.want.timeout, *late)
					same(t, "log", reduce.List[string](nil), out.Log)
				})
			}
		})
	}
}

// Parity: 182.
func TestSignsOfLife(t *testing.T) {
	inner := single(t, func(ctx context.Context, _ diary) (page, error) { return page{}, nil })
	heart := single(t, func(ctx context.Context, _ diary) (page, error) {
		treadle.Heartbeat(ctx)
		return page{}, nil
	})
	// slowly signals from inside a nested graph whose own start was long ago.
	slowly := func(sign func(context.Context)) func(context.Context) {
		g := single(t, func(ctx context.Context, _ diary) (page, error) {
			for range 10 {
				if err := sleepy(ctx, time.Second); err != nil {
					return page{}, err
				}
				sign(ctx)
			}
			return page{}, nil
		})
		return func(ctx context.Context) { _, _ = g.Run(ctx, diary{}) }
	}
	call := func(kind observe.Kind, chunk bool) func(context.Context) {
		return func(ctx context.Context) {
			_, span := observe.Begin(ctx, observe.Call{Kind: kind, Name: "call"})
			if chunk {
				span.Chunk("a piece")
			}
			span.End("result", nil)
		}
	}
	for name, sign := range map[string]func(context.Context){
		"custom event":              func(ctx context.Context) { treadle.Emit(ctx, 1) },
		"heartbeat":                 treadle.Heartbeat,
		"model":                     call(observe.Model, true),
		"tool":                      call(observe.Tool, false),
		"retriever":                 call(observe.Retriever, false),
		"nested graph":              func(ctx context.Context) { _, _ = inner.Run(ctx, diary{}) },
		"heartbeat in nested graph": func(ctx context.Context) { _, _ = heart.Run(ctx, diary{}) },
		"event from nested graph":   slowly(func(ctx context.Context) { treadle.Emit(ctx, 1) }),
		"beat from nested graph":    slowly(treadle.Heartbeat),
		"model in nested graph":     slowly(call(observe.Model, true)),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := single(t, func(ctx context.Context, _ diary) (page, error) {
					for range 10 {
						if err := sleepy(ctx, time.Second); err != nil {
							return page{}, err
						}
						sign(ctx)
					}
					return did("done"), ctx.Err()
				}, treadle.IdleTimeout(1500*time.Millisecond))
				wantLog(t, g, diary{}, "done")
			})
		})
	}
}

// Outside a node, and in a node that no clock watches, a heartbeat is nothing.
//
// Parity: 182.
func TestHeartbeatWithoutTimeout(t *testing.T) {
	treadle.Heartbeat(t.Context())
	g := single(t, func(ctx context.Context, _ diary) (page, error) {
		treadle.Heartbeat(ctx)
		return did("done"), nil
	})
	wantLog(t, g, diary{}, "done")
}

// What a timed-out attempt still returns, writes or emits is dropped, also
// from inside a graph that it runs.
//
// Parity: 183.
func TestTimedOutAttemptHasNothingMoreToSay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nested := single(t, func(ctx context.Context, _ diary) (page, error) {
			<-ctx.Done()
			treadle.Emit(ctx, "late, from inside")
			return page{}, nil
		})
		calls := 0
		g := single(t, func(ctx context.Context, _ diary) (page, error) {
			if calls++; calls == 2 {
				treadle.Emit(ctx, "second")
				return did("second"), nil
			}
			treadle.Emit(ctx, "in time")
			_, _ = nested.Run(ctx, diary{})
			treadle.Emit(ctx, "late")
			_, span := observe.Begin(ctx, observe.Call{Kind: observe.Model})
			span.Chunk("late token")
			span.End("late message", nil)
			return did("swallowed the timeout"), nil
		}, treadle.Timeout(time.Second), treadle.Retry(treadle.RetryPolicy{NoJitter: true}))
		var got []any
		for ev, err := range g.Stream(t.Context(), diary{}, treadle.Modes(treadle.ModeCustom, treadle.ModeMessages, treadle.ModeUpdates)) {
			if err != nil {
				t.Fatal(err)
			}
			switch ev := ev.(type) {
			case treadle.Custom:
				got = append(got, ev.Value)
			case treadle.Token:
				got = append(got, ev.Chunk)
			case treadle.Updated:
				got = append(got, ev.Update.String())
			}
		}
		same(t, "events", []any{"in time", "second", `{"log":["second"]}`}, got)
	})
}

// The canceled context contains the cause.
func TestTimedOutAttemptGetsCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cause error
		g := single(t, func(ctx context.Context, _ diary) (page, error) {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return page{}, ctx.Err()
		}, treadle.Timeout(time.Second))
		_, err := g.Run(t.Context(), diary{})
		if late, ok := errors.AsType[*treadle.TimeoutError](cause); !ok || !errors.Is(err, late) {
			t.Errorf("cause %v, error %v", cause, err)
		}
	})
}

// A node that ignores its context is abandoned after a grace period of five seconds; the
// run continues without it.
func TestDeafAttemptIsAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		g := single(t, func(ctx context.Context, _ diary) (page, error) {
			if treadle.InfoFrom(ctx).Attempt == 1 {
				<-release
				return did("too late"), nil
			}
			return did("second"), nil
		}, treadle.Timeout(time.Second), treadle.Retry(treadle.RetryPolicy{NoJitter: true}))
		took := timed(func() { wantLog(t, g, diary{}, "second") })
		same(t, "took", time.Second+5*time.Second+500*time.Millisecond, took)

		alone := single(t, func(context.Context, diary) (page, error) {
			<-release
			return page{}, nil
		}, treadle.IdleTimeout(time.Second))
		_, err := alone.Run(t.Context(), diary{})
		late, ok := errors.AsType[*treadle.TimeoutError](err)
		if !ok {
			t.Fatalf("got %v", err)
		}
		same(t, "timeout", treadle.TimeoutError{Node: "node", Idle: true, Limit: time.Second, Abandoned: true}, *late)
		close(release)
	})
}

// A graph in an abandoned attempt saves nothing more, although its nodes finish: the next
// attempt owns the namespace.
func TestAbandonedSubgraphStoresNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		calls := &tally{}
		cb := treadle.New[diary]("child")
		treadle.AddNode(cb, "deaf", func(context.Context, diary) (page, error) {
			if calls.note("deaf") == 1 {
				<-release
				return did("too late"), nil
			}
			close(release)
			synctest.Wait() // the first attempt has come to its end now
			return did("second"), nil
		})
		treadle.AddNode(cb, "after", func(context.Context, diary) (page, error) {
			calls.note("after")
			return did("after"), nil
		})
		cb.Edge(treadle.Start, "deaf")
		cb.Edge("deaf", "after")
		b := treadle.New[diary]("parent")
		treadle.AddGraph(b, "sub", weave(t, cb, nil), treadle.Timeout(time.Second), treadle.Retry(treadle.RetryPolicy{NoJitter: true}))
		b.Edge(treadle.Start, "sub")
		out, err := weave(t, b, &treadle.Options{Saver: checkpoint.NewMemory()}).Thread("t").Run(t.Context(), diary{})
		if err != nil {
			t.Fatal(err)
		}
		same(t, "log", reduce.List[string]{"second", "after"}, out.Log)
		same(t, "calls", map[string]int{"deaf": 2, "after": 1}, calls.counts)
	})
}

// Timeouts that a node's own code runs into are its own.
//
// Parity: 181.
func TestUsersOwnTimeoutErrorsStayTheirs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := single(t, func(ctx context.Context, _ diary) (page, error) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			return page{}, sleepy(ctx, time.Minute)
		}, treadle.Timeout(time.Hour))
		var err error
		same(t, "took", time.Second, timed(func() { _, err = g.Run(t.Context(), diary{}) }))
		if _, ours := errors.AsType[*treadle.TimeoutError](err); ours || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the node's own DeadlineExceeded", err)
		}
	})
}

// Parity: 185.
func TestSendOverridesTimeout(t *testing.T) {
	build := func(t *testing.T, opts ...treadle.NodeOption) *treadle.Graph[diary, diary] {
		b := treadle.New[diary]("sends")
		work := treadle.AddNode(b, "work", func(ctx context.Context, d time.Duration) (page, error) {
			return did(d.String()), sleepy(ctx, d)
		}, opts...)
		treadle.AddNode(b, "fan", func(context.Context, diary) (treadle.Goto, error) {
			return append(treadle.Send(work, time.Second), treadle.Send(work, time.Minute).Timeout(2*time.Minute)...), nil
		}, treadle.Destinations("work"))
		b.Edge(treadle.Start, "fan")
		return weave(t, b, nil)
	}
	t.Run("longer than the node's", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			wantLog(t, build(t, treadle.Timeout(2*time.Second)), diary{}, "1s", "1m0s")
		})
	})
	t.Run("where the node has none", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := treadle.New[diary]("sends")
			attempts := 0
			work := treadle.AddNode(b, "work", func(ctx context.Context, d time.Duration) (page, error) {
				attempts++
				return page{}, sleepy(ctx, d)
			}, treadle.Retry(treadle.RetryPolicy{Attempts: 2, NoJitter: true}))
			treadle.AddBranch(b, treadle.Start, func(context.Context, diary) (treadle.Goto, error) {
				return treadle.Send(work, time.Hour).Timeout(3 * time.Second), nil
			}, "work")
			g := weave(t, b, nil)
			var err error
			same(t, "took", 2*3*time.Second+500*time.Millisecond, timed(func() { _, err = g.Run(t.Context(), diary{}) }))
			late, ok := errors.AsType[*treadle.TimeoutError](err)
			if !ok {
				t.Fatalf("got %v", err)
			}
			same(t, "timeout", treadle.TimeoutError{Node: "work", Limit: 3 * time.Second}, *late)
			same(t, "attempts", 2, attempts)
		})
	})
	t.Run("is stored with the send", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := treadle.New[diary]("sends")
			work := treadle.AddNode(b, "work", func(ctx context.Context, d time.Duration) (page, error) {
				return page{}, sleepy(ctx, d)
			})
			treadle.AddBranch(b, treadle.Start, func(context.Context, diary) (treadle.Goto, error) {
				return treadle.Send(work, time.Hour).Timeout(3 * time.Second), nil
			}, "work")
			thread := weave(t, b, &treadle.Options{Saver: checkpoint.NewMemory()}).Thread("t")
			for _, run := range []func() error{
				func() error { _, err := thread.Run(t.Context(), diary{}); return err },
				func() error { _, err := thread.Continue(t.Context()); return err },
			} {
				var err error
				same(t, "took", 3*time.Second, timed(func() { err = run() }))
				if _, ok := errors.AsType[*treadle.TimeoutError](err); !ok {
					t.Errorf("got %v", err)
				}
			}
		})
	})
}

// recovers is an error handler that writes the failure it received.
func recovers(_ context.Context, in diary, failure *treadle.NodeError) (page, error) {
	return did(fmt.Sprintf("recovered %s of %q: %v", failure.Node, in.Topic, failure.Err)), nil
}

// A handled failure is not a failure, regardless of where the node runs and which streams
// are open.
//
// Parity: 187.
func TestErrorHandlerRecoversOnEveryPath(t *testing.T) {
	boom := errors.New("boom")
	bad := func(context.Context, diary) (page, error) { return did("lost"), boom }
	handled := `recovered bad of "owls": boom`
	oneNode := func() *treadle.Builder[diary] {
		b := treadle.New[diary]("single")
		treadle.AddNode(b, "bad", bad, treadle.OnError(recovers))
		treadle.AddNode(b, "skipped", does("skipped"))
		b.Edge(treadle.Start, "bad")
		b.Edge("bad", "skipped")
		return b
	}
	parallel := func() *treadle.Builder[diary] {
		b := treadle.New[diary]("parallel")
		treadle.AddNode(b, "bad", bad, treadle.OnError(recovers))
		treadle.AddNode(b, "good", does("good"))
		treadle.AddNode(b, "last", does("last"))
		b.Edge(treadle.Start, "bad")
		b.Edge(treadle.Start, "good")
		b.Edge("good", "last")
		treadle.AddBranch(b, "bad", func(context.Context, diary) (treadle.Goto, error) {
			t.Error("the branch of a failed node was called")
			return treadle.To(treadle.End), nil
		}, treadle.End)
		return b
	}
	nest := func(child *treadle.Builder[diary], opts ...treadle.NodeOption) *treadle.Builder[diary] {
		b := treadle.New[diary]("parent")
		treadle.AddGraph(b, "sub", weave(t, child, nil), opts...)
		b.Edge(treadle.Start, "sub")
		return b
	}
	sent := func() *treadle.Builder[diary] {
		b := treadle.New[diary]("sent")
		n := treadle.AddNode(b, "bad", bad, treadle.OnError(recovers))
		treadle.AddBranch(b, treadle.Start, func(context.Context, diary) (treadle.Goto, error) {
			return append(treadle.Send(n, diary{Topic: "owls"}), treadle.Send(n, diary{Topic: "cats"})...), nil
		}, "bad")
		return b
	}
	failingChild := func() *treadle.Builder[diary] {
		b := treadle.New[diary]("child")
		treadle.AddNode(b, "bad", bad)
		b.Edge(treadle.Start, "bad")
		return b
	}
	called := func() *treadle.Builder[diary] {
		child := weave(t, failingChild(), nil)
		b := treadle.New[diary]("caller")
		treadle.AddNode(b, "bad", func(ctx context.Context, s diary) (page, error) {
			_, err := child.Run(ctx, s)
			if err == nil {
				t.Error("the child did not fail")
			}
			return page{}, boom
		}, treadle.OnError(recovers))
		b.Edge(treadle.Start, "bad")
		return b
	}
	for name, tt := range map[string]struct {
		b    *treadle.Builder[diary]
		want []string
	}{
		"single task":       {oneNode(), []string{handled}},
		"parallel":          {parallel(), []string{handled, "good", "last"}},
		"in a subgraph":     {nest(oneNode()), []string{handled}},
		"in both":           {nest(parallel()), []string{handled, "good", "last"}},
		"sends":             {sent(), []string{handled, `recovered bad of "cats": boom`}},
		"the subgraph":      {nest(failingChild(), treadle.OnError(recoversSub)), []string{`recovered sub of "owls": boom`}},
		"a graph in a node": {called(), []string{handled}},
	} {
		for kind, o := range map[string]*treadle.Options{"": nil, ", one at a time": {MaxConcurrency: 1}, ", step timeout": {StepTimeout: time.Minute}, ", saver": {Saver: checkpoint.NewMemory()}} {
			t.Run(name+kind, func(t *testing.T) {
				g := weave(t, tt.b, o)
				wantLog(t, g, diary{Topic: "owls"}, tt.want...)
				if o != nil && o.Saver != nil {
					out, err := g.Thread("t").Run(t.Context(), diary{Topic: "owls"})
					if err != nil {
						t.Fatal(err)
					}
					same(t, "on a thread", tt.want, []string(out.Log))
				}
				for _, modes := range [][]treadle.Mode{{treadle.ModeUpdates}, {treadle.ModeCustom, treadle.ModeMessages}, {treadle.ModeEvents, treadle.ModeDebug}} {
					for ev, err := range g.Stream(t.Context(), diary{Topic: "owls"}, treadle.Modes(modes...), treadle.Subgraphs()) {
						if err != nil {
							t.Fatal(err)
						}
						if end, ok := ev.(treadle.Finished[diary]); ok {
							same(t, "streamed", tt.want, []string(end.Output.Log))
						}
					}
				}
			})
		}
	}
}

// recoversSub is like recovers, but for a failure two levels deep.
func recoversSub(_ context.Context, in diary, failure *treadle.NodeError) (page, error) {
	inner, ok := errors.AsType[*treadle.NodeError](failure.Err)
	if !ok {
		return page{}, errors.New("the subgraph's own failure is gone")
	}
	return did(fmt.Sprintf("recovered %s of %q: %v", failure.Node, in.Topic, inner.Err)), nil
}

// The handler runs after the last attempt. It receives the number of that attempt, and a
// live context even if the attempt's context was canceled.
//
// Parity: 124, 187.
func TestErrorHandlerRunsAfterRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		handle := func(ctx context.Context, in diary, failure *treadle.NodeError) (page, error) {
			info := treadle.InfoFrom(ctx)
			same(t, "info", []any{"node", 3, "run-1", 1, "the run's"}, []any{info.Node, info.Attempt, info.RunID, info.Step, must(treadle.ContextFrom[string](ctx))})
			same(t, "failure", []any{"single", "node", 3, 1}, []any{failure.Graph, failure.Node, failure.Attempt, failure.Step})
			if _, ok := errors.AsType[*treadle.TimeoutError](failure); !ok {
				t.Errorf("the failure is %v", failure)
			}
			treadle.Emit(ctx, "handled")
			return did("handled"), ctx.Err()
		}
		g := single(t, func(ctx context.Context, _ diary) (page, error) {
			calls++
			return page{}, sleepy(ctx, time.Hour)
		}, treadle.Timeout(time.Second), treadle.Retry(treadle.RetryPolicy{NoJitter: true}), treadle.OnError(handle)).
			With(treadle.RunID("run-1"), treadle.Context("the run's"))
		wantLog(t, g, diary{}, "handled")
		same(t, "calls", 3, calls)
		var custom []any
		for ev, err := range g.Stream(t.Context(), diary{}, treadle.Modes(treadle.ModeCustom)) {
			if err != nil {
				t.Fatal(err)
			}
			if c, ok := ev.(treadle.Custom); ok {
				custom = append(custom, c.Value)
			}
		}
		same(t, "emitted", []any{"handled"}, custom)
	})
}

func must[T any](v T, ok bool) T {
	if !ok {
		panic("there is none")
	}
	return v
}

// Parity: 187.
func TestErrorHandlerRoutes(t *testing.T) {
	type rescue struct {
		Log  reduce.List[string]
		Goto treadle.Goto
	}
	b := treadle.New[diary]("routes")
	treadle.AddNode(b, "bad", func(context.Context, diary) (page, error) { return page{}, errors.New("boom") },
		treadle.OnError(func(context.Context, diary, *treadle.NodeError) (rescue, error) {
			return rescue{reduce.List[string]{"handled"}, treadle.To("repair")}, nil
		}), treadle.Destinations("repair"))
	treadle.AddNode(b, "repair", does("repair"))
	treadle.AddNode(b, "usual", does("usual"))
	b.Edge(treadle.Start, "bad")
	b.Edge("bad", "usual")
	wantLog(t, weave(t, b, nil), diary{}, "handled", "repair")
}

// Parity: 187.
func TestErrorHandlerFailureFailsRun(t *testing.T) {
	boom, worse := errors.New("boom"), errors.New("worse")
	for name, handle := range map[string]func(context.Context, diary, *treadle.NodeError) (page, error){
		"error": func(context.Context, diary, *treadle.NodeError) (page, error) { return did("lost"), worse },
		"panic": func(context.Context, diary, *treadle.NodeError) (page, error) { panic(worse) },
	} {
		t.Run(name, func(t *testing.T) {
			out, err := single(t, func(context.Context, diary) (page, error) { return page{}, boom }, treadle.OnError(handle)).Run(t.Context(), diary{})
			if !errors.Is(err, boom) || !errors.Is(err, worse) {
				t.Errorf("got %v, want both errors", err)
			}
			same(t, "log", reduce.List[string](nil), out.Log)
		})
	}
}

// A handler may decline by returning the failure it received.
func TestErrorHandlerMayDecline(t *testing.T) {
	boom := errors.New("boom")
	g := single(t, func(context.Context, diary) (page, error) { return page{}, boom },
		treadle.OnError(func(_ context.Context, _ diary, failure *treadle.NodeError) (page, error) { return page{}, failure }))
	if _, err := g.Run(t.Context(), diary{}); !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
}

func TestErrorHandlerRejectsOtherInputType(t *testing.T) {
	b := treadle.New[diary]("wrong")
	treadle.AddNode(b, "node", does("x"), treadle.OnError(func(context.Context, int, *treadle.NodeError) (page, error) { return page{}, nil }))
	b.Edge(treadle.Start, "node")
	_, err := b.Compile(nil)
	problem, ok := errors.AsType[*treadle.BuildError](err)
	if !ok {
		t.Fatalf("got %v", err)
	}
	same(t, "problem", treadle.BuildError{Graph: "wrong", Node: "node", Msg: "error handler takes int, but the node takes treadle_test.diary"}, *problem)
}

// Each node has its own handler; a node without one fails the run.
//
// Parity: 188.
func TestErrorHandlerIsPerNode(t *testing.T) {
	boom := errors.New("boom")
	bad := func(context.Context, diary) (page, error) { return page{}, boom } //nolint:unparam // a node has two results
	tell := func(what string) treadle.NodeOption {
		return treadle.OnError(func(_ context.Context, _ diary, f *treadle.NodeError) (page, error) {
			return did(what + " handles " + f.Node), nil
		})
	}
	build := func(third ...treadle.NodeOption) *treadle.Graph[diary, diary] {
		b := treadle.New[diary]("several")
		treadle.AddNode(b, "a", bad, tell("A"))
		treadle.AddNode(b, "b", bad, tell("B"))
		treadle.AddNode(b, "c", bad, third...)
		for _, n := range []string{"a", "b", "c"} {
			b.Edge(treadle.Start, n)
		}
		return weave(t, b, nil)
	}
	wantLog(t, build(tell("C")), diary{}, "A handles a", "B handles b", "C handles c")
	_, err := build().Run(t.Context(), diary{})
	failure, ok := errors.AsType[*treadle.NodeError](err)
	if !ok || failure.Node != "c" || !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
}

// Messages to an enclosing level and the end of the run are not failures.
//
// Parity: 188.
func TestErrorHandlerIgnoresControlFlow(t *testing.T) {
	never := treadle.OnError(func(_ context.Context, _ diary, f *treadle.NodeError) (page, error) {
		t.Errorf("the handler received %v", f)
		return did("swallowed"), nil
	})
	t.Run("parent command", func(t *testing.T) {
		cb := treadle.New[diary]("child")
		treadle.AddNode(cb, "away", func(context.Context, diary) (handOff, error) {
			up := did("up")
			return handOff{Update: &up, Parent: true}, nil
		}, treadle.Handoff(treadle.End), treadle.OnError(func(context.Context, diary, *treadle.NodeError) (handOff, error) {
			t.Error("the handler was called")
			return handOff{}, nil
		}))
		cb.Edge(treadle.Start, "away")
		b := treadle.New[diary]("parent")
		treadle.AddGraph(b, "sub", weave(t, cb, nil), never)
		b.Edge(treadle.Start, "sub")
		wantLog(t, weave(t, b, nil), diary{}, "up")
	})
	t.Run("drain", func(t *testing.T) {
		done := make(chan struct{})
		cb := chain("child", "one", "two")
		treadle.AddNode(cb, "stop", func(context.Context, diary) (page, error) {
			close(done)
			return page{}, nil
		})
		cb.Edge(treadle.Start, "stop")
		b := treadle.New[diary]("parent")
		treadle.AddGraph(b, "sub", weave(t, cb, nil), never)
		b.Edge(treadle.Start, "sub")
		if _, err := weave(t, b, nil).With(treadle.Drain(done)).Run(t.Context(), diary{}); !errors.Is(err, treadle.ErrDrained) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("cancellation", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		g := single(t, func(ctx context.Context, _ diary) (page, error) {
			cancel()
			<-ctx.Done()
			return page{}, ctx.Err()
		}, never)
		if _, err := g.Run(ctx, diary{}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

// What passes a handler by is a signal: a question, a command to the parent, a
// drained run. Everything else is a failure.
func TestPausesAreNotFailures(t *testing.T) {
	cb := treadle.New[diary]("child")
	treadle.AddNode(cb, "away", func(context.Context, diary) (handOff, error) { return handOff{Parent: true}, nil }, treadle.Handoff(treadle.End))
	cb.Edge(treadle.Start, "away")
	child := weave(t, cb, nil)
	asking := func(ctx context.Context) error {
		_, err := treadle.Interrupt[string](ctx, "?")
		return err
	}
	for name, tt := range map[string]struct {
		err  func(ctx context.Context) error // as a node sees it
		want bool
	}{
		"none":     {func(context.Context) error { return nil }, false},
		"failure":  {func(context.Context) error { return passing{"x"} }, false},
		"wrapped":  {func(context.Context) error { return fmt.Errorf("it: %w", treadle.ErrDrained) }, true},
		"canceled": {func(context.Context) error { return context.Canceled }, false},
		"question": {asking, true},
		"command":  {func(ctx context.Context) error { _, err := child.Run(ctx, diary{}); return err }, true},
	} {
		t.Run(name, func(t *testing.T) {
			var got []bool
			b := treadle.New[diary]("signals")
			treadle.AddNode(b, "node", func(ctx context.Context, _ diary) (page, error) {
				err := tt.err(ctx)
				got = append(got, treadle.IsPause(err))
				return page{}, err
			}, treadle.Uses(child))
			b.Edge(treadle.Start, "node")
			_, err := weave(t, b, &treadle.Options{Saver: checkpoint.NewMemory()}).Thread("t").Run(t.Context(), diary{})
			same(t, "signals", []bool{tt.want}, got)
			same(t, "the run has an error", name != "none" && name != "command", err != nil)
		})
	}
}

// A handled failure stays handled: if the step fails for another reason, a continuation
// runs neither the node nor its handler again.
//
// Parity: 188.
func TestHandledFailureSurvivesContinue(t *testing.T) {
	calls, handled, fail := 0, 0, true
	b := treadle.New[diary]("kept")
	ready := make(chan struct{})
	treadle.AddNode(b, "bad", func(context.Context, diary) (page, error) {
		calls++
		return page{}, errors.New("boom")
	}, treadle.OnError(func(_ context.Context, _ diary, f *treadle.NodeError) (page, error) {
		defer close(ready)
		handled++
		return did("handled " + f.Err.Error()), nil
	}))
	treadle.AddNode(b, "worse", func(context.Context, diary) (page, error) {
		<-ready
		if fail {
			return page{}, errors.New("worse")
		}
		return did("fine"), nil
	})
	treadle.AddNode(b, "skipped", does("skipped"))
	b.Edge(treadle.Start, "bad")
	b.Edge(treadle.Start, "worse")
	b.Edge("bad", "skipped")
	thread := weave(t, b, &treadle.Options{Saver: checkpoint.NewMemory(), MaxConcurrency: 1}).Thread("t")
	if _, err := thread.Run(t.Context(), diary{}); err == nil {
		t.Fatal("the step did not fail")
	}
	fail = false
	out, err := thread.Continue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	same(t, "log", reduce.List[string]{"handled boom", "fine"}, out.Log)
	same(t, "calls", []int{1, 1}, []int{calls, handled})
}

// A stream names the handler where the node's own result would be.
//
// Parity: 187.
func TestErrorHandlerInStreams(t *testing.T) {
	g := single(t, func(context.Context, diary) (page, error) { return page{}, errors.New("boom") }, treadle.OnError(recovers))
	var got []string
	for ev, err := range g.Stream(t.Context(), diary{Topic: "owls"}, treadle.Modes(treadle.ModeUpdates, treadle.ModeTasks)) {
		if err != nil {
			t.Fatal(err)
		}
		switch ev := ev.(type) {
		case treadle.TaskStarted:
			got = append(got, "start "+ev.Node)
		case treadle.TaskFinished:
			got = append(got, fmt.Sprintf("end %s %s %v", ev.Node, ev.Result, ev.Err != nil))
		case treadle.Updated:
			got = append(got, fmt.Sprintf("update %s %s", ev.Node, ev.Update))
		}
	}
	same(t, "events", []string{
		"start node",
		"end node {} true",
		`update __error_handler__node {"log":["recovered node of \"owls\": boom"]}`,
		`end __error_handler__node {"log":["recovered node of \"owls\": boom"]} false`,
	}, got)
}

// Parity: 189.
func TestDefaultsApplyToUnsetOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts := &tally{}
		hang := func(name string) func(context.Context, diary) (page, error) {
			return func(ctx context.Context, _ diary) (page, error) {
				attempts.note(name)
				return page{}, sleepy(ctx, time.Hour)
			}
		}
		handler := func(who string) treadle.NodeOption {
			return treadle.OnError(func(_ context.Context, _ diary, f *treadle.NodeError) (told, error) {
				late, _ := errors.AsType[*treadle.TimeoutError](f)
				return told{did(fmt.Sprintf("%s: %s after %v", who, f.Node, late.Limit)).Log, treadle.To("next")}, nil
			})
		}
		b := treadle.New[diary]("defaults")
		treadle.AddNode(b, "plain", hang("plain"))
		treadle.AddNode(b, "own", hang("own"), treadle.Timeout(time.Second), treadle.Retry(treadle.RetryPolicy{Attempts: 1}), handler("own"))
		treadle.AddNode(b, "next", does("next"))
		b.Defaults(treadle.Timeout(time.Hour), treadle.Retry(treadle.RetryPolicy{Attempts: 9}))
		// Later defaults win, and a node's own options win over all of them, regardless of
		// the order.
		b.Defaults(treadle.Timeout(3*time.Second), treadle.Retry(treadle.RetryPolicy{Attempts: 2, NoJitter: true}), handler("default"))
		b.Edge(treadle.Start, "plain")
		b.Edge(treadle.Start, "own")
		g := weave(t, b, nil)
		wantLog(t, g, diary{}, "own: own after 1s", "default: plain after 3s", "next")
		same(t, "attempts", map[string]int{"own": 1, "plain": 2}, attempts.counts)
	})
}

type told struct {
	Log  reduce.List[string]
	Goto treadle.Goto
}

// A graph's defaults apply to its own nodes, not to the nodes of its subgraphs.
//
// Parity: 189.
func TestDefaultsDoNotReachSubgraphs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boom := passing{"boom"}
		calls := 0
		cb := treadle.New[diary]("child")
		treadle.AddNode(cb, "bad", func(context.Context, diary) (page, error) {
			calls++
			return page{}, boom
		})
		cb.Edge(treadle.Start, "bad")
		b := treadle.New[diary]("parent")
		treadle.AddGraph(b, "sub", weave(t, cb, nil))
		b.Edge(treadle.Start, "sub")
		b.Defaults(treadle.Retry(treadle.RetryPolicy{Attempts: 2, NoJitter: true}), treadle.OnError(recoversSub))
		wantLog(t, weave(t, b, nil), diary{Topic: "owls"}, `recovered sub of "owls": boom`)
		same(t, "calls: the subgraph makes two attempts, its node one each", 2, calls)
	})
}

// Parity: 189.
func TestDefaultCache(t *testing.T) {
	calls := map[string]int{}
	count := func(name string) func(context.Context, diary) (page, error) {
		return func(context.Context, diary) (page, error) {
			calls[name]++
			return did(name), nil
		}
	}
	b := treadle.New[diary]("cached")
	treadle.AddNode(b, "a", count("a"))
	treadle.AddNode(b, "b", count("b"), treadle.CacheBy(0, func(diary) string { return fmt.Sprint(calls["b"]) }))
	b.Defaults(treadle.Cache(0))
	b.Edge(treadle.Start, "a")
	b.Edge("a", "b")
	g := weave(t, b, nil)
	for range 3 {
		wantLog(t, g, diary{}, "a", "b")
	}
	same(t, "calls", map[string]int{"a": 1, "b": 3}, calls)
}

// A failure of the default handler is final: no handler handles it.
//
// Parity: 189.
func TestDefaultHandlerDoesNotHandleItself(t *testing.T) {
	calls := 0
	b := treadle.New[diary]("defaults")
	treadle.AddNode(b, "bad", func(context.Context, diary) (page, error) { return page{}, errors.New("boom") })
	b.Edge(treadle.Start, "bad")
	b.Defaults(treadle.OnError(func(context.Context, diary, *treadle.NodeError) (page, error) {
		calls++
		return page{}, errors.New("worse")
	}))
	if _, err := weave(t, b, nil).Run(t.Context(), diary{}); err == nil || !strings.Contains(err.Error(), "worse") {
		t.Errorf("got %v", err)
	}
	same(t, "calls", 1, calls)
}

// Parity: 193.
func TestDrain(t *testing.T) {
	build := func(t *testing.T, done chan struct{}, at string, o *treadle.Options) *treadle.Graph[diary, diary] {
		b := treadle.New[diary]("drain")
		for _, n := range []string{"a", "b", "c"} {
			treadle.AddNode(b, n, func(context.Context, diary) (page, error) {
				if n == at {
					close(done)
				}
				return did(n), nil
			})
		}
		b.Edge(treadle.Start, "a")
		b.Sequence("a", "b", "c")
		return weave(t, b, o)
	}
	t.Run("stops after the step under way", func(t *testing.T) {
		done := make(chan struct{})
		out, err := build(t, done, "a", nil).With(treadle.Drain(done)).Run(t.Context(), diary{})
		if !errors.Is(err, treadle.ErrDrained) {
			t.Errorf("got %v", err)
		}
		same(t, "log", reduce.List[string]{"a"}, out.Log)
	})
	t.Run("in the last step it is too late", func(t *testing.T) {
		done := make(chan struct{})
		wantLog(t, build(t, done, "c", nil).With(treadle.Drain(done)), diary{}, "a", "b", "c")
	})
	t.Run("before the first", func(t *testing.T) {
		done := make(chan struct{})
		close(done)
		out, err := build(t, nil, "", nil).With(treadle.Drain(done)).Run(t.Context(), diary{Topic: "owls"})
		if !errors.Is(err, treadle.ErrDrained) {
			t.Errorf("got %v", err)
		}
		same(t, "the input is applied", diary{Topic: "owls"}, out)
	})
	t.Run("the thread can be continued", func(t *testing.T) {
		done := make(chan struct{})
		g := build(t, done, "b", &treadle.Options{Saver: checkpoint.NewMemory()})
		if _, err := g.Thread("t", treadle.Drain(done)).Run(t.Context(), diary{}); !errors.Is(err, treadle.ErrDrained) {
			t.Errorf("got %v", err)
		}
		snap, err := g.Thread("t").State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		same(t, "next", []string{"c"}, snap.Next)
		same(t, "no error is stored", "", snap.Tasks[0].Error)
		out, err := g.Thread("t").Continue(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		same(t, "log", reduce.List[string]{"a", "b", "c"}, out.Log)
	})
	t.Run("streams end with it", func(t *testing.T) {
		done := make(chan struct{})
		var got []string
		for ev, err := range build(t, done, "a", nil).With(treadle.Drain(done)).Stream(t.Context(), diary{}) {
			if err != nil {
				got = append(got, fmt.Sprint(errors.Is(err, treadle.ErrDrained)))
				continue
			}
			got = append(got, ev.Where().Node)
		}
		same(t, "stream", []string{"a", "true"}, got)
	})
}

// A drain reaches subgraphs; the results of tasks that finished alongside them are kept.
//
// Parity: 193.
func TestDrainReachesSubgraphs(t *testing.T) {
	done := make(chan struct{})
	closed := false
	calls := &tally{}
	cb := treadle.New[diary]("child")
	treadle.AddNode(cb, "c1", func(context.Context, diary) (page, error) {
		if !closed {
			close(done)
			closed = true
		}
		return did("c1"), nil
	})
	treadle.AddNode(cb, "c2", does("c2"))
	cb.Edge(treadle.Start, "c1")
	cb.Edge("c1", "c2")
	b := treadle.New[diary]("parent")
	treadle.AddGraph(b, "sub", weave(t, cb, nil))
	treadle.AddNode(b, "beside", func(context.Context, diary) (page, error) {
		calls.note("beside")
		return did("beside"), nil
	})
	b.Edge(treadle.Start, "sub")
	b.Edge(treadle.Start, "beside")
	g := weave(t, b, &treadle.Options{Saver: checkpoint.NewMemory()})
	out, err := g.Thread("t", treadle.Drain(done)).Run(t.Context(), diary{})
	if !errors.Is(err, treadle.ErrDrained) {
		t.Fatalf("got %v", err)
	}
	same(t, "nothing of the step is committed", reduce.List[string](nil), out.Log)
	snap, err := g.Thread("t").State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	same(t, "next", []string{"sub"}, snap.Next)
	if out, err = g.Thread("t").Continue(t.Context()); err != nil {
		t.Fatal(err)
	}
	same(t, "log", reduce.List[string]{"beside", "c1", "c2"}, out.Log)
	same(t, "what had finished did not run again", 1, calls.counts["beside"])
}

// Parity: 115.
func TestStepTimeout(t *testing.T) {
	for name, tasks := range map[string]int{"single": 1, "parallel": 3} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := treadle.New[diary]("steps")
				var cleaned atomic.Int32
				for i := range tasks {
					n := fmt.Sprint("n", i)
					treadle.AddNode(b, n, func(ctx context.Context, _ diary) (page, error) {
						defer cleaned.Add(1)
						treadle.Emit(ctx, n)
						return page{}, sleepy(ctx, time.Hour)
					}, treadle.Retry(treadle.RetryPolicy{NoJitter: true}), treadle.OnError(recovers))
					b.Edge(treadle.Start, n)
				}
				g := weave(t, b, &treadle.Options{StepTimeout: 2 * time.Second})
				events, failed := 0, error(nil)
				took := timed(func() {
					for _, err := range g.Stream(t.Context(), diary{}, treadle.Modes(treadle.ModeCustom)) {
						failed = err
						if err == nil {
							events++
						}
					}
				})
				late, ok := errors.AsType[*treadle.TimeoutError](failed)
				if !ok {
					t.Fatalf("got %v", failed)
				}
				same(t, "timeout", treadle.TimeoutError{Limit: 2 * time.Second}, *late)
				same(t, "took, events, cleaned up", []any{2 * time.Second, tasks, int32(tasks)}, []any{took, events, cleaned.Load()})
			})
		})
	}
}

// Every step has the whole time.
func TestStepTimeoutIsPerStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := treadle.New[diary]("steps")
		nap := func(ctx context.Context, _ diary) (page, error) { return did("nap"), sleepy(ctx, 3*time.Second) }
		treadle.AddNode(b, "a", nap)
		treadle.AddNode(b, "b", nap)
		b.Edge(treadle.Start, "a")
		b.Edge("a", "b")
		wantLog(t, weave(t, b, &treadle.Options{StepTimeout: 4 * time.Second}), diary{}, "nap", "nap")
	})
}

// A command for the parent goes up although the step it came from ran out of
// time.
//
// Parity: 98, 100.
func TestParentCommandBeatsStepTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cb := treadle.New[diary]("child")
		treadle.AddNode(cb, "away", func(context.Context, diary) (handOff, error) {
			up := did("up")
			return handOff{Update: &up, Parent: true}, nil
		}, treadle.Handoff(treadle.End))
		treadle.AddNode(cb, "slow", func(ctx context.Context, _ diary) (page, error) {
			return page{}, sleepy(ctx, time.Hour)
		})
		cb.Edge(treadle.Start, "away")
		cb.Edge(treadle.Start, "slow")
		child := weave(t, cb, &treadle.Options{StepTimeout: time.Second})
		_, err := child.Run(t.Context(), diary{})
		if _, late := errors.AsType[*treadle.TimeoutError](err); late || err == nil || !strings.Contains(err.Error(), "sent a command to the parent graph") {
			t.Errorf("at the root: got %v", err)
		}
		b := treadle.New[diary]("parent")
		treadle.AddNode(b, "call", func(ctx context.Context, s diary) (page, error) {
			_, err := child.Run(ctx, s)
			return page{}, err
		})
		b.Edge(treadle.Start, "call")
		wantLog(t, weave(t, b, nil), diary{}, "up")
	})
}

// Parity: 111, 195.
func TestCancelReachesAllNodesAndWaits(t *testing.T) {
	for name, tasks := range map[string]int{"single": 1, "parallel": 4} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				why := errors.New("enough")
				ctx, cancel := context.WithCancelCause(t.Context())
				b := treadle.New[diary]("cancelled")
				var cleaned atomic.Int32
				for i := range tasks {
					n := fmt.Sprint("n", i)
					treadle.AddNode(b, n, func(ctx context.Context, _ diary) (page, error) {
						<-ctx.Done()
						<-time.After(time.Second) // cleaning up takes a while
						cleaned.Add(1)
						return page{}, ctx.Err()
					})
					b.Edge(treadle.Start, n)
				}
				time.AfterFunc(time.Second, func() { cancel(why) })
				var err error
				took := timed(func() { _, err = weave(t, b, nil).Run(ctx, diary{}) })
				if !errors.Is(err, context.Canceled) || !errors.Is(err, why) {
					t.Errorf("got %v, want the cancellation and its cause", err)
				}
				same(t, "took, cleaned up", []any{2 * time.Second, int32(tasks)}, []any{took, cleaned.Load()})
			})
		})
	}
}

// Parity: 111.
func TestFailureCancelsSiblingsAndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boom := errors.New("boom")
		b := treadle.New[diary]("siblings")
		cleaned := false
		treadle.AddNode(b, "a", func(ctx context.Context, _ diary) (page, error) {
			<-ctx.Done()
			<-time.After(time.Second)
			cleaned = true
			return page{}, ctx.Err()
		})
		treadle.AddNode(b, "bad", func(ctx context.Context, _ diary) (page, error) {
			return page{}, errors.Join(sleepy(ctx, time.Second), boom)
		})
		b.Edge(treadle.Start, "a")
		b.Edge(treadle.Start, "bad")
		var err error
		took := timed(func() { _, err = weave(t, b, nil).Run(t.Context(), diary{}) })
		failure, ok := errors.AsType[*treadle.NodeError](err)
		if !ok || failure.Node != "bad" || !errors.Is(err, boom) {
			t.Errorf("got %v, want bad's failure and not its echo", err)
		}
		same(t, "took, cleaned up", []any{2 * time.Second, true}, []any{took, cleaned})
	})
}

// A node that returns a cancellation error without being canceled has failed.
//
// Parity: 191.
func TestUserCancellationIsFailure(t *testing.T) {
	for name, siblings := range map[string]bool{"single": false, "parallel": true} {
		t.Run(name, func(t *testing.T) {
			b := treadle.New[diary]("cancelled")
			if siblings {
				treadle.AddNode(b, "a", func(ctx context.Context, _ diary) (page, error) {
					<-ctx.Done()
					return page{}, ctx.Err()
				})
				b.Edge(treadle.Start, "a")
			}
			treadle.AddNode(b, "node", func(context.Context, diary) (page, error) { return page{}, fmt.Errorf("mine: %w", context.Canceled) })
			b.Edge(treadle.Start, "node")
			_, err := weave(t, b, nil).Run(t.Context(), diary{})
			failure, ok := errors.AsType[*treadle.NodeError](err)
			if !ok || failure.Node != "node" || !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want node's failure", err)
			}
		})
	}
	t.Run("a handler may answer it", func(t *testing.T) {
		g := single(t, func(context.Context, diary) (page, error) { return page{}, context.Canceled }, treadle.OnError(recovers))
		wantLog(t, g, diary{}, `recovered node of "": context canceled`)
	})
}
