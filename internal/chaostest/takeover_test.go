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
)

// The runs of a process that was killed go on elsewhere within 2 s (median) and 3 s (worst),
// those of one that was stopped within 8 s, and one that wakes up changes nothing.
func TestRunsOfALostProcessGoOnElsewhereSoon(t *testing.T) {
	kills := 6
	if os.Getenv("TREADLE_SOAK") != "" {
		kills = 20
	}
	c := newCluster(t, 3, 1)
	k := &client{c: c, rand: rand.New(rand.NewPCG(1, 2)), http: http.DefaultClient}
	var took []time.Duration
	for i := range kills {
		n := c.nodes[i%len(c.nodes)]
		thread := c.startOn(t, k, n)
		began := time.Now()
		n.kill()
		took = append(took, c.goesOn(t, thread, began))
		n.start()
		c.ends(t, k, thread)
	}
	slices.Sort(took)
	t.Logf("after kill -9 a run goes on within %v (median), %v (worst of %d)", took[kills/2], took[kills-1], kills)
	if took[kills/2] > 2*time.Second || took[kills-1] > 3*time.Second {
		t.Errorf("runs of killed processes went on after %v", took)
	}
	n := c.nodes[0]
	thread := c.startOn(t, k, n)
	began := time.Now()
	n.signal(syscall.SIGSTOP)
	late := c.goesOn(t, thread, began)
	t.Logf("after SIGSTOP a run goes on within %v", late)
	if late > 8*time.Second {
		t.Errorf("the run of a stopped process went on after %v", late)
	}
	n.signal(syscall.SIGCONT)
	c.ends(t, k, thread)
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
