package chaostest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/treadle-go/treadle/internal/delay"
	"github.com/treadle-go/treadle/internal/test/netfault"
)

// The runs of a killed process continue elsewhere within 2 s (median) and 3 s (worst),
// those of a stopped process within 8 s, and a process that wakes up changes nothing. The
// times apply while the database responds, so measurements during which it did not are
// repeated.
func TestRunsOfLostProcessContinueSoon(t *testing.T) {
	kills := 6
	if soak() {
		kills = 20
	}
	c := newCluster(t, onNATS, 3)
	if _, err := c.pool.Exec(t.Context(), "CREATE TABLE chaos_watch (id bigserial PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	k := newClient(c, c.random("client"), nil)
	defer k.close()
	again := 3
	took := func(n *node, limit time.Duration, lose, find func()) time.Duration {
		for {
			thread := c.startOn(t, n)
			slowest := c.slowest(t)
			began := time.Now()
			lose()
			late := c.continues(t, thread, began)
			slow := slowest()
			find()
			c.ends(t, k, thread)
			if late <= limit || slow < time.Second || again == 0 {
				return late
			}
			again--
			t.Logf("measured again: a run continued after %v, and the database took %v for a row", late, slow)
		}
	}
	var all []time.Duration
	for i := range kills {
		n := c.nodes[i%len(c.nodes)]
		all = append(all, took(n, 3*time.Second, n.kill, n.start))
	}
	slices.Sort(all)
	t.Logf("after kill -9 a run continues within %v (median), %v (worst of %d)", all[kills/2], all[kills-1], kills)
	if all[kills/2] > 2*time.Second || all[kills-1] > 3*time.Second {
		t.Errorf("runs of killed processes continued after %v", all)
	}
	n := c.nodes[0]
	var goOn func()
	late := took(n, 8*time.Second, func() { goOn = n.stop() }, func() { goOn() })
	t.Logf("after SIGSTOP a run continues within %v", late)
	if late > 8*time.Second {
		t.Errorf("the run of a stopped process continued after %v", late)
	}
}

// slowest inserts rows until the function it returns is called, which returns the longest
// time that a row took.
func (c *cluster) slowest(t *testing.T) func() time.Duration {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	longest := make(chan time.Duration, 1)
	go func() {
		var most time.Duration
		for last := time.Now(); ; last = time.Now() {
			_, err := c.pool.Exec(ctx, "INSERT INTO chaos_watch DEFAULT VALUES")
			if ctx.Err() != nil {
				longest <- most
				return
			}
			if err != nil {
				t.Error(err)
			}
			_ = delay.For(ctx, 20*time.Millisecond)                // between two rows
			most = max(most, time.Since(last)-20*time.Millisecond) // also while this process does not run
		}
	}()
	return func() time.Duration {
		cancel()
		return <-longest
	}
}

// startOn starts a run in a certain process and returns when its first effect has happened.
func (c *cluster) startOn(t *testing.T, n *node) (thread string) {
	t.Helper()
	k := newClient(c, c.random("one"), n)
	defer k.close()
	thread, err := k.thread(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.run(t.Context(), thread, input("plain", 1, pace{steps: steps, delay: 300})); err != nil {
		t.Fatal(err)
	}
	c.effectsOf(t, thread, 1)
	return thread
}

// effectsOf waits until a thread has n effects, and returns them.
func (c *cluster) effectsOf(t *testing.T, thread string, n int) []effect {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		done := c.sink.of(thread)
		if len(done) >= n {
			return done
		}
		if err := delay.For(ctx, 5*time.Millisecond); err != nil {
			t.Fatalf("thread %s has %d of %d effects", thread, len(done), n)
		}
	}
}

// continues returns how long it took until another process had an effect.
func (c *cluster) continues(t *testing.T, thread string, began time.Time) time.Duration {
	t.Helper()
	for n := 2; ; n++ {
		done := c.effectsOf(t, thread, n)
		if last := done[len(done)-1]; last.PID != done[0].PID {
			return last.At.Sub(began) - 300*time.Millisecond // the effect itself
		}
	}
}

// ends waits until a thread has ended as it should.
func (c *cluster) ends(t *testing.T, k *client, thread string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	th, err := k.until(ctx, thread, "the end of its run", func(th *threadState) bool { return th.Status == "idle" || th.Status == "error" })
	if err != nil || th.Status != "idle" || len(th.Values.Log) != steps {
		t.Fatalf("thread %s is %s with the log %v: %v", thread, th.Status, th.Values.Log, err)
	}
}

// inFlight starts the long units at one server, waits until their runs have started there,
// and returns a function that waits for their end, at any server.
func (y *load) inFlight(t *testing.T, at *node, patience time.Duration) (wait func()) {
	t.Helper()
	c := y.c
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	k := newClient(c, c.random("in flight"), at)
	var all sync.WaitGroup
	errs := make([]error, len(units))
	long := 0
	for i, u := range units {
		if u.name != "stateless" && u.name != "tool" && u.name != "cron" {
			long++
			all.Go(func() { errs[i] = y.do(ctx, k, u, pace{steps: 4, delay: 400, sleep: 2000}) })
		}
	}
	busy := func() bool {
		y.mu.Lock()
		defer y.mu.Unlock()
		n := 0
		for _, x := range y.all {
			if x.thread != "" && len(c.sink.of(x.thread)) > 0 {
				n++
			}
		}
		return n == long
	}
	for !busy() {
		if err := delay.For(ctx, 5*time.Millisecond); err != nil {
			t.Fatalf("the runs did not start: %v", err)
		}
	}
	k.mu.Lock()
	k.only = nil
	k.mu.Unlock()
	return func() {
		t.Helper()
		all.Wait()
		cancel()
		k.close()
		for _, err := range errs {
			if err != nil {
				t.Error(err)
			}
		}
	}
}

// A response can get lost while a process takes over the runs of another, or gives its own
// away.
func TestTakeoverLosesResponses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind string
		lose func(t *testing.T, from *node)
		self bool // the transaction is of the process that is lost
	}{
		{"leave", func(_ *testing.T, from *node) { from.kill() }, false},
		{"take over", func(_ *testing.T, from *node) { from.kill() }, false},
		{"fence", func(_ *testing.T, from *node) { from.kill() }, false},
		{"release", func(t *testing.T, from *node) { from.terminate(t) }, true},
		{"leave", func(t *testing.T, from *node) { from.terminate(t) }, true},
	} {
		for _, f := range commitFaults {
			if f.When == netfault.AfterResponse && !soak() {
				continue
			}
			t.Run(fmt.Sprintf("%s/%t/%s", c.kind, c.self, faultName(&f)), func(t *testing.T) {
				t.Parallel()
				r := &rig{on: onNotify, servers: 2}
				cl := r.use(t, t)
				from, to := cl.nodes[0], cl.nodes[1]
				y := newLoad(cl)
				wait := y.inFlight(t, from, 2*time.Minute)
				by := to
				if c.self {
					by = from
				}
				fired, disarm := by.arm(c.kind, 1, f)
				mended := cl.breaks(c.kind, faultName(&f))
				c.lose(t, from)
				select {
				case <-fired:
				case <-time.After(30 * time.Second):
					// The other process may end the lease first: it notices the end of the session.
					if c.kind != "leave" || !c.self {
						t.Errorf("no transaction was of the kind %q", c.kind)
					}
				}
				disarm()
				from.start() // unless it is up
				mended()
				wait()
				y.check(t, time.Minute, false)
			})
		}
	}
}

// A process is stopped, loses its connections, and wakes up after another process has
// ended its runs: canceled ones, and those that it has taken over.
func TestStoppedProcessDropsRuns(t *testing.T) {
	t.Parallel()
	for _, on := range onPostgres {
		for _, cut := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/cut=%t", on, cut), func(t *testing.T) {
				t.Parallel()
				c := newCluster(t, on, 2)
				from, to := c.nodes[0], c.nodes[1]
				y := newLoad(c)
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				wait := y.inFlight(t, from, 2*time.Minute)
				a, b := newClient(c, c.random("from"), from), newClient(c, c.random("to"), to)
				defer a.close()
				defer b.close()
				// One more run, which is canceled while its process is stopped.
				x := &expected{unit: "cancel"}
				var err error
				if x.thread, err = a.thread(ctx); err != nil {
					t.Fatal(err)
				}
				p := pace{steps: 3, delay: 60}
				run, err := y.begun(ctx, a, x, p)
				if err != nil {
					t.Fatal(err)
				}
				goOn := from.stop()
				mended := c.breaks("SIGSTOP", fmt.Sprintf("cut=%t", cut))
				if err := y.stop(ctx, b, x, run, "interrupt", "interrupted"); err != nil {
					t.Error(err)
				}
				if cut {
					from.proxy.Cut()
					from.proxy.Heal()
				}
				goOn()
				mended()
				// The process finds out that it has lost the run.
				for drops := false; !drops; {
					r, err := from.reported(ctx)
					drops = err == nil && !slices.Contains(names(r), run.Run)
					if err := delay.For(ctx, 50*time.Millisecond); err != nil {
						t.Fatalf("the process still executes run %s, which was canceled", run.Run)
					}
				}
				if err := y.again(ctx, b, x, p); err != nil {
					t.Error(err)
				}
				y.mu.Lock()
				y.all = append(y.all, x)
				y.mu.Unlock()
				wait()
				y.check(t, time.Minute, false)
			})
		}
	}
}

// names returns the runs of a report.
func names(r *report) (all []string) {
	for _, id := range r.Runs {
		all = append(all, id.String())
	}
	return all
}
