package chaostest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/treadle-go/treadle/internal/delay"
)

// kinds are what runs do.
var kinds = []string{"plain", "sends", "asks", "sleeps"}

// faults are what breaks. Each returns what mends it.
var faults = []struct {
	name  string
	begin func(*cluster, *rand.Rand) (mend func())
	lasts time.Duration // at most
}{
	{"kill -9", func(c *cluster, r *rand.Rand) func() {
		n := c.nodes[r.IntN(len(c.nodes))]
		n.kill()
		return n.start
	}, time.Second},
	{"stop", func(c *cluster, r *rand.Rand) func() {
		n := c.nodes[r.IntN(len(c.nodes))]
		pid := n.signal(syscall.SIGSTOP)
		c.mu.Lock()
		c.stopped[pid] = true
		c.mu.Unlock()
		return func() { n.signal(syscall.SIGCONT) }
	}, 8 * time.Second},
	{"cut from Postgres", func(c *cluster, r *rand.Rand) func() {
		n := c.nodes[r.IntN(len(c.nodes))]
		n.proxy.Cut()
		return n.proxy.Heal
	}, 3 * time.Second},
	{"half-open to Postgres", func(c *cluster, r *rand.Rand) func() {
		n := c.nodes[r.IntN(len(c.nodes))]
		n.proxy.Swallow()
		return func() {
			n.proxy.Cut()
			n.proxy.Heal()
		}
	}, 3 * time.Second},
	{"NATS node down", func(c *cluster, r *rand.Rand) func() {
		s := c.nats[r.IntN(len(c.nats))]
		s.Stop()
		return func() {
			if err := s.Restart(); err != nil {
				c.t.Error(err)
			}
		}
	}, 2 * time.Second},
	{"all of NATS down", func(c *cluster, _ *rand.Rand) func() {
		for _, s := range c.nats {
			s.Stop()
		}
		return func() {
			for _, s := range c.nats {
				if err := s.Restart(); err != nil {
					c.t.Error(err)
				}
			}
		}
	}, 2 * time.Second},
}

func TestNothingIsLostWhateverBreaks(t *testing.T) {
	count := 60
	if os.Getenv("TREADLE_SOAK") != "" {
		count = 1000
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	c := newCluster(t, 3, 3)
	load, stop := context.WithCancel(t.Context())
	defer stop()
	tally := &tally{}
	var clients sync.WaitGroup
	for i := range 6 {
		clients.Go(func() { tally.use(load, t, c, rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	broken := breakThings(t, c, rand.New(rand.NewPCG(seed, 99)), count)
	stop()
	clients.Wait()
	if t.Failed() {
		return // the servers may be gone: see dump
	}
	tally.check(t, c)
	t.Logf("%d faults %v; %d runs (%d resumed, %d woken up, %d streams with %d events) ended as they should, %d after too many attempts, %d effects",
		count, broken, tally.runs, tally.resumed, tally.woken, tally.streams, tally.events, tally.givenUp, tally.effects)
}

// breakThings breaks things one after the other, some while others are broken.
func breakThings(t *testing.T, c *cluster, r *rand.Rand, count int) map[string]int {
	broken := map[string]int{}
	var mends sync.WaitGroup
	busy := make([]sync.Mutex, len(faults)) // one of a kind at a time
	for i := range count {
		k := r.IntN(len(faults))
		f := faults[k]
		if strings.Contains(f.name, "NATS") {
			k = len(faults) - 1 // they share the nodes
		} else if f.name != "kill -9" {
			k = 1 // they share the servers
		}
		for !busy[k].TryLock() {
			if delay.For(t.Context(), 50*time.Millisecond) != nil {
				return broken
			}
		}
		broken[f.name]++
		mend := f.begin(c, r)
		lasts := time.Duration(r.Int64N(int64(f.lasts)))
		if i%10 != 0 {
			lasts /= 4 // most are short
		}
		mends.Go(func() {
			defer busy[k].Unlock()
			_ = delay.For(t.Context(), lasts) // while something is broken
			mend()
		})
		_ = delay.For(t.Context(), time.Duration(r.Int64N(int64(600*time.Millisecond)))) // until the next fault
	}
	mends.Wait()
	return broken
}

// tally is what clients have seen.
type tally struct {
	mu                                                      sync.Mutex
	all                                                     []*accepted
	runs, resumed, woken, streams, events, givenUp, effects int
}

// use starts runs until load ends, and follows each to its end.
func (y *tally) use(load context.Context, t *testing.T, c *cluster, r *rand.Rand) {
	k := &client{c: c, rand: r, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4, ResponseHeaderTimeout: 15 * time.Second}}}
	defer k.http.CloseIdleConnections()
	for load.Err() == nil {
		// What was begun is followed to its end, after all is mended.
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		err := y.one(ctx, k, kinds[r.IntN(len(kinds))])
		cancel()
		if err != nil {
			t.Error(err)
			if errors.Is(err, context.DeadlineExceeded) {
				c.dump()
			}
			return
		}
	}
}

// one starts a run and follows it.
func (y *tally) one(ctx context.Context, k *client, kind string) error {
	run, err := k.start(ctx, kind)
	if err != nil {
		return err
	}
	y.mu.Lock()
	y.all = append(y.all, run)
	y.mu.Unlock()
	events, err := k.stream(ctx, run)
	if err != nil {
		return fmt.Errorf("stream of run %s on thread %s: %w", run.Run, run.Thread, err)
	}
	if up, err := y.gaveUp(ctx, k, run); up || err != nil {
		return err
	}
	if kind == "asks" {
		resume, err := k.run(ctx, run.Thread, map[string]any{"command": map[string]any{"resume": "yes"}})
		if err != nil {
			return err
		}
		more, err := k.stream(ctx, resume)
		if err != nil {
			return fmt.Errorf("stream of run %s on thread %s: %w", resume.Run, run.Thread, err)
		}
		events = append(events, more...)
		y.mu.Lock()
		y.resumed++
		y.mu.Unlock()
		if up, err := y.gaveUp(ctx, k, run); up || err != nil {
			return err
		}
	}
	told := steps
	if kind == "sleeps" {
		runs, err := k.woken(ctx, run)
		if err != nil {
			return err
		}
		y.mu.Lock()
		y.woken++
		y.mu.Unlock()
		if up, err := y.gaveUp(ctx, k, run); up || err != nil {
			return err
		}
		if runs == 2 {
			told = steps / 2
		}
	}
	if err := follows(run, events, told); err != nil {
		return err
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	y.runs++
	y.streams++
	y.events += len(events)
	return nil
}

// follows checks that a stream has told of every step up to the last, in order.
func follows(run *accepted, events []event, last int) error {
	seen := 0
	for _, e := range events {
		if e.name != "updates" {
			continue
		}
		var update map[string]struct {
			Step *int `json:"step"`
		}
		if err := json.Unmarshal([]byte(e.data), &update); err != nil {
			continue // a question
		}
		for _, u := range update {
			if u.Step == nil {
				continue
			}
			// A step whose process died behind it is told again by the next one.
			if *u.Step > seen+1 || *u.Step < seen {
				return fmt.Errorf("the stream of thread %s tells step %d behind %d: %v", run.Thread, *u.Step, seen, events)
			}
			seen = *u.Step
		}
	}
	if seen != last {
		return fmt.Errorf("the stream of thread %s ends behind step %d of %d: %v", run.Thread, seen, last, events)
	}
	return nil
}

// gaveUp reports whether a run of the thread was ended because too many of its processes died.
func (y *tally) gaveUp(ctx context.Context, k *client, run *accepted) (bool, error) {
	var th struct {
		Status string
		Error  json.RawMessage
	}
	if err := k.try(ctx, http.MethodGet, "/threads/"+run.Thread, nil, nil, &th); err != nil {
		return false, err
	}
	if th.Status == "error" && strings.Contains(string(th.Error), "WorkerLost") {
		y.mu.Lock()
		defer y.mu.Unlock()
		y.givenUp++
		run.givenUp = true
		return true, nil
	}
	return false, nil
}

// check looks at what is stored when all is over.
func (y *tally) check(t *testing.T, c *cluster) {
	t.Helper()
	k := &client{c: c, rand: rand.New(rand.NewPCG(1, 1)), http: http.DefaultClient}
	for _, run := range y.all {
		if run.givenUp {
			continue
		}
		var th struct {
			Status string
			Error  json.RawMessage
			Values state
		}
		if err := k.try(t.Context(), http.MethodGet, "/threads/"+run.Thread, nil, nil, &th); err != nil {
			t.Error(err)
			continue
		}
		var log []string
		for step := range steps {
			if run.kind != "sends" {
				log = append(log, fmt.Sprint(step))
				continue
			}
			for _, name := range []string{"a", "b", "c"} {
				log = append(log, fmt.Sprint(step, name))
			}
		}
		if th.Status != "idle" || !slices.Equal(th.Values.Log, log) || run.kind == "asks" && th.Values.Reply != "yes" {
			t.Errorf("thread %s (%s) is %s %s with %+v, want the log %v", run.Thread, run.kind, th.Status, th.Error, th.Values, log)
		}
	}
	y.checkEffects(t, c)
	var open int
	if err := c.pool.QueryRow(t.Context(), "SELECT count(*) FROM treadle.server_row WHERE kind = 4 AND open").Scan(&open); err != nil || open != 0 {
		t.Errorf("%d runs have not ended, %v", open, err)
	}
}

// checkEffects checks that each effect has one idempotency key, and that none has happened
// again after a later step had begun, which it does when the effects before it are recorded.
// A process that was stopped in the middle of an effect ends it when it wakes up; no
// library can keep it from that, which is what the keys are for.
func (y *tally) checkEffects(t *testing.T, c *cluster) {
	t.Helper()
	rows, err := c.pool.Query(t.Context(), "SELECT thread, step, name, key, pid FROM chaos_effects ORDER BY id")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	at := map[string]int{}
	keys := map[string]string{}
	for rows.Next() {
		var thread, name, key string
		var step, pid int
		if err := rows.Scan(&thread, &step, &name, &key, &pid); err != nil {
			t.Fatal(err)
		}
		y.effects++
		what := fmt.Sprint(thread, " ", step, name)
		if keys[what] == "" {
			keys[what] = key
		}
		if keys[what] != key {
			t.Errorf("effect %s has the keys %s and %s", what, keys[what], key)
		}
		if step < at[thread] && !c.stopped[pid] {
			t.Errorf("thread %s: an effect of step %d happened behind one of step %d", thread, step, at[thread])
		}
		at[thread] = max(at[thread], step)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
}
