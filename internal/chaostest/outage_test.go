package chaostest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/internal/delay"
	"github.com/treadle-go/treadle/internal/pgtest"
)

// newClient is a client that uses all servers.
func newClient(c *cluster, seed uint64) *client {
	return &client{c: c, rand: rand.New(rand.NewPCG(seed, seed)), http: &http.Client{Transport: &http.Transport{}}}
}

// useUntil lets clients start runs and follow them until load ends.
func (y *tally) useUntil(load context.Context, t *testing.T, c *cluster, clients int) *sync.WaitGroup {
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() { y.use(load, t, c, rand.New(rand.NewPCG(1, uint64(i)))) })
	}
	return &all
}

// count is how many runs have ended.
func (y *tally) count() int {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.runs
}

// ended waits until more runs have ended.
func (y *tally) ended(t *testing.T, more int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for from := y.count(); y.count() < from+more; {
		if err := delay.For(ctx, 10*time.Millisecond); err != nil {
			t.Fatalf("%d of %d runs have ended: %v", y.count()-from, more, err)
		}
	}
}

// readAgain reads the stream of every run from its beginning.
func (y *tally) readAgain(t *testing.T, c *cluster) {
	t.Helper()
	k := newClient(c, 3)
	defer k.http.CloseIdleConnections()
	for _, run := range y.all {
		if run.kind == "asks" || run.kind == "sleeps" || run.givenUp {
			continue // its steps are in two runs, or not all there
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		events, err := k.stream(ctx, run)
		if err == nil {
			err = follows(run, events, steps)
		}
		cancel()
		if err != nil {
			t.Errorf("run %s is read again: %v", run.Run, err)
		}
	}
}

// Without NATS runs start, end and are streamed as before, and when it returns nothing is
// lost: every stream can be read from its beginning.
func TestRunsGoOnWithoutNATS(t *testing.T) {
	down := 3 * time.Second
	if os.Getenv("TREADLE_SOAK") != "" {
		down = 30 * time.Second
	}
	c := newCluster(t, 3, 3)
	load, stop := context.WithCancel(t.Context())
	defer stop()
	y := &tally{}
	clients := y.useUntil(load, t, c, 4)
	y.ended(t, 4)
	for _, s := range c.nats {
		s.Stop()
	}
	before, began := y.count(), time.Now()
	y.ended(t, 8) // all clients have begun one since
	_ = delay.For(t.Context(), down-time.Since(began))
	took := time.Since(began)
	without := y.count() - before
	for _, s := range c.nats {
		if err := s.Restart(); err != nil {
			t.Fatal(err)
		}
	}
	y.ended(t, 4)
	stop()
	clients.Wait()
	y.check(t, c)
	y.readAgain(t, c)
	t.Logf("%d runs ended in %v without NATS, %d in all with %d events; every stream was read again", without, took.Round(100*time.Millisecond), y.runs, y.events)
}

// While Postgres is down clients get 503, and when it is back what they send again is
// accepted. No run is lost.
func TestPostgresIsRestarted(t *testing.T) {
	pg := pgtest.New(t)
	c := &cluster{t: t, address: pg.URL()}
	c.startNATS(1)
	c.start(3)
	load, stop := context.WithCancel(t.Context())
	defer stop()
	y := &tally{}
	clients := y.useUntil(load, t, c, 4)
	y.ended(t, 4)
	k := newClient(c, 2)
	defer k.http.CloseIdleConnections()
	thread := uuid.NewString()
	if err := k.try(t.Context(), http.MethodPost, "/threads", nil, map[string]any{"thread_id": thread}, nil); err != nil {
		t.Fatal(err)
	}
	pg.Stop()
	began := time.Now()
	var refused sync.WaitGroup
	for _, n := range c.nodes {
		refused.Go(func() { refuses(t, k, n.at(), thread) })
	}
	refused.Wait()
	took := time.Since(began)
	pg.Start()
	run, err := k.run(t.Context(), thread, map[string]any{"input": map[string]any{"kind": "plain"}})
	if err != nil {
		t.Fatal(err)
	}
	run.kind = "plain"
	if events, err := k.stream(t.Context(), run); err != nil {
		t.Error(err)
	} else if err := follows(run, events, steps); err != nil {
		t.Error(err)
	}
	y.ended(t, 8)
	stop()
	clients.Wait()
	y.check(t, c)
	t.Logf("Postgres was down for %v; %d runs ended as they should, %d after too many attempts", took.Round(100*time.Millisecond), y.runs, y.givenUp)
}

// refuses waits until a server answers a request for a run with 503. Until then it may
// wait for the database itself, so a request that it takes long for is no error.
func refuses(t *testing.T, k *client, base, thread string) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/threads/"+thread+"/runs", bytes.NewReader([]byte(`{"assistant_id":"chaos","input":{}}`)))
	if err != nil {
		t.Error(err)
		return
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := k.http.Do(req)
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	var answer struct{ Detail string }
	if err != nil || resp.StatusCode != http.StatusServiceUnavailable || json.Unmarshal(raw, &answer) != nil || answer.Detail == "" {
		t.Errorf("the answer without Postgres is %s %s, %v; want 503 with a detail", resp.Status, raw, err)
	}
}
