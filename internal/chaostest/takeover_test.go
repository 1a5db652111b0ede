package chaostest

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/treadle-go/treadle/internal/delay"
)

// The runs of a process that was killed go on elsewhere within 2 s (median) and 3 s (worst),
// those of one that was stopped within 8 s, and one that wakes up changes nothing. The times
// are promised while the database answers, so those in which it did not are measured again.
func TestRunsOfALostProcessGoOnElsewhereSoon(t *testing.T) {
	kills := 6
	if os.Getenv("TREADLE_SOAK") != "" {
		kills = 20
	}
	c := newCluster(t, 3, 1)
	k := &client{c: c, rand: rand.New(rand.NewPCG(1, 2)), http: http.DefaultClient}
	again := 3
	took := func(n *node, limit time.Duration, lose, find func()) time.Duration {
		for {
			thread := c.startOn(t, k, n)
			slowest := c.watch(t)
			began := time.Now()
			lose()
			late := c.goesOn(t, thread, began)
			slow := slowest()
			find()
			c.ends(t, k, thread)
			if late <= limit || slow < time.Second || again == 0 {
				return late
			}
			again--
			t.Logf("measured again: a run went on after %v, and the database took %v for a row", late, slow)
		}
	}
	var all []time.Duration
	for i := range kills {
		n := c.nodes[i%len(c.nodes)]
		all = append(all, took(n, 3*time.Second, n.kill, n.start))
	}
	slices.Sort(all)
	t.Logf("after kill -9 a run goes on within %v (median), %v (worst of %d)", all[kills/2], all[kills-1], kills)
	if all[kills/2] > 2*time.Second || all[kills-1] > 3*time.Second {
		t.Errorf("runs of killed processes went on after %v", all)
	}
	n := c.nodes[0]
	late := took(n, 8*time.Second, func() { n.signal(syscall.SIGSTOP) }, func() { n.signal(syscall.SIGCONT) })
	t.Logf("after SIGSTOP a run goes on within %v", late)
	if late > 8*time.Second {
		t.Errorf("the run of a stopped process went on after %v", late)
	}
}

// watch inserts rows until slowest is called, which returns the longest time that one took.
func (c *cluster) watch(t *testing.T) (slowest func() time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	longest := make(chan time.Duration, 1)
	go func() {
		var most time.Duration
		for last := time.Now(); ; last = time.Now() {
			_, err := c.pool.Exec(ctx, "INSERT INTO chaos_effects (thread) VALUES ('')")
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
func (c *cluster) startOn(t *testing.T, k *client, n *node) (thread string) {
	t.Helper()
	one := &client{c: &cluster{nodes: []*node{n}}, rand: k.rand, http: k.http}
	thread = uuid.NewString()
	if err := one.try(t.Context(), http.MethodPost, "/threads", nil, map[string]any{"thread_id": thread}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := one.run(t.Context(), thread, map[string]any{"input": map[string]any{"delay": 300}}); err != nil {
		t.Fatal(err)
	}
	c.effectsOf(t, thread, 1)
	return thread
}

// effectsOf waits until a thread has so many effects, and returns the processes that had them.
func (c *cluster) effectsOf(t *testing.T, thread string, n int) []int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		rows, err := c.pool.Query(ctx, "SELECT pid FROM chaos_effects WHERE thread = $1 ORDER BY id", thread)
		if err != nil {
			t.Fatal(err)
		}
		pids, err := pgx.CollectRows(rows, pgx.RowTo[int])
		if err != nil {
			t.Fatal(err)
		}
		if len(pids) >= n {
			return pids
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("thread %s has %d of %d effects", thread, len(pids), n)
		}
	}
}

// goesOn returns how long it took until another process had an effect.
func (c *cluster) goesOn(t *testing.T, thread string, began time.Time) time.Duration {
	t.Helper()
	for n := 2; ; n++ {
		pids := c.effectsOf(t, thread, n)
		if pids[len(pids)-1] != pids[0] {
			return time.Since(began) - 300*time.Millisecond // the effect itself
		}
	}
}

// ends waits until a thread has ended as it should.
func (c *cluster) ends(t *testing.T, k *client, thread string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var th struct {
		Status string
		Values state
	}
	for th.Status != "idle" {
		if err := k.try(ctx, http.MethodGet, "/threads/"+thread, nil, nil, &th); err != nil || th.Status == "error" {
			t.Fatal(th.Status, err)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal(errors.New("the run does not end"))
		}
	}
	if len(th.Values.Log) != steps {
		t.Errorf("thread %s has the log %v", thread, th.Values.Log)
	}
}
