package chaostest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/treadle-go/treadle/internal/delay"
	"github.com/treadle-go/treadle/internal/test/netfault"
	"github.com/treadle-go/treadle/internal/test/pgtest"
)

// A Postgres outage that is longer than servers wait for it, longer than a lease, and
// longer than a minute, and that starts at the worst moment.
func TestLongOutages(t *testing.T) {
	t.Parallel()
	cases := []struct {
		on    backend
		lasts time.Duration
		at    string // the transaction that it starts with
		when  netfault.Moment
		kind  netfault.Outage
	}{
		{onNotify, 5 * time.Second, "create and claim", netfault.LostResponse, netfault.Swallowed},
		{onNATS, 5 * time.Second, "checkpoint", netfault.LostResponse, netfault.Severed},
		{onNotify, 20 * time.Second, "writes of a pause", netfault.AfterResponse, netfault.Refused},
		{onNATS, 20 * time.Second, "finish and claim next", netfault.LostResponse, netfault.Refused},
		{onNotify, 70 * time.Second, "checkpoint", netfault.AfterResponse, netfault.Refused},
		{onNATS, 70 * time.Second, "finish", netfault.LostResponse, netfault.Refused},
	}
	if soak() {
		for _, c := range slices.Clip(cases) {
			c.lasts = 200 * time.Second
			cases = append(cases, c)
		}
	}
	for _, o := range cases {
		t.Run(fmt.Sprintf("%v/%s/%s", o.lasts, o.on, o.at), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, o.on, 2)
			y := newLoad(c)
			load, enough := context.WithCancel(t.Context())
			defer enough()
			clients := y.clients(load, t, 6, slow, o.lasts+3*time.Minute)
			y.ended(t, 3)
			begun := c.beginAt(t, o.at, netfault.Fault{When: o.when, Outage: o.kind})
			heal := c.everywhere(o.kind)
			mended := c.breaks("outage", fmt.Sprintf("for %v at %q of %s", o.lasts, o.at, begun))
			_ = delay.For(t.Context(), o.lasts) // the outage
			heal()
			mended()
			y.ended(t, 2)
			enough()
			clients.Wait()
			y.check(t, 90*time.Second, false)
			t.Logf("%d units %v with %d events", y.total(), y.counts, y.events)
		})
	}
}

// beginAt breaks the next transaction of a kind at whichever server commits it.
func (c *cluster) beginAt(t *testing.T, kind string, f netfault.Fault) *node {
	t.Helper()
	hit := make(chan *node, len(c.nodes))
	var disarm []func() int
	for _, n := range c.nodes {
		fired, off := n.arm(kind, 1, f)
		disarm = append(disarm, off)
		go func() {
			select {
			case <-fired:
				hit <- n
			case <-t.Context().Done():
			}
		}()
	}
	defer func() {
		for _, off := range disarm {
			off()
		}
	}()
	select {
	case n := <-hit:
		return n
	case <-time.After(time.Minute):
		t.Fatalf("no transaction is of the kind %q", kind)
		return nil
	}
}

// A full disk that lasts longer than a minute. Requests that need space get 503 or 507,
// and /ok?check_db=1 reports the disk.
func TestFullDisks(t *testing.T) {
	t.Parallel()
	for _, on := range []backend{onSQLite, onNotify} {
		for _, lasts := range []time.Duration{5 * time.Second, 70 * time.Second} {
			t.Run(fmt.Sprintf("%s/%v", on, lasts), func(t *testing.T) {
				t.Parallel()
				c := newCluster(t, on, 1)
				y := newLoad(c)
				load, enough := context.WithCancel(t.Context())
				defer enough()
				clients := y.clients(load, t, 5, slow, lasts+3*time.Minute)
				y.ended(t, 2)
				fill, empty := c.fill, c.empty
				if on != onSQLite {
					fill = func() error { c.nodes[0].proxy.Decide(diskFull); return nil }
					empty = func() error { c.nodes[0].proxy.Decide(nil); return nil }
				}
				if err := fill(); err != nil {
					t.Fatal(err)
				}
				mended := c.breaks("full disk", fmt.Sprintf("for %v", lasts))
				began := time.Now()
				unhealthy(t, c.nodes[0])
				_ = delay.For(t.Context(), lasts-time.Since(began)) // the disk stays full
				if err := empty(); err != nil {
					t.Fatal(err)
				}
				mended()
				y.ended(t, 2)
				enough()
				clients.Wait()
				y.check(t, 90*time.Second, false)
				t.Logf("%d units %v with %d events", y.total(), y.counts, y.events)
			})
		}
	}
}

// unhealthy waits until a server reports that it cannot write, and rejects requests that
// would have to write.
func unhealthy(t *testing.T, n *node) {
	t.Helper()
	ask := func(method, path, body string) (int, string) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, method, n.at()+path, bytes.NewReader([]byte(body)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, err.Error()
		}
		defer func() { _ = resp.Body.Close() }()
		raw, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(raw)
	}
	says := func(method, path, body string) {
		t.Helper()
		var status int
		var text string
		for end := time.Now().Add(4 * time.Second); time.Now().Before(end); <-time.After(50 * time.Millisecond) {
			if status, text = ask(method, path, body); status == http.StatusServiceUnavailable || status == http.StatusInsufficientStorage {
				return
			}
		}
		t.Errorf("%s %s on a full disk: %d %s, want 503 or 507", method, path, status, text)
	}
	says(http.MethodPost, "/threads", fmt.Sprintf(`{"metadata":{"text":%q}}`, bytes.Repeat([]byte("x"), 1<<16)))
	says(http.MethodGet, "/ok?check_db=1", "")
}

// Without NATS runs start, end and are streamed as before, and when it returns nothing is
// lost: every stream can be read from its beginning.
func TestRunsContinueWithoutNATS(t *testing.T) {
	t.Parallel()
	down := 3 * time.Second
	if soak() {
		down = 30 * time.Second
	}
	c := &cluster{t: t, on: onNATS, address: pgtest.URL(t)}
	c.startNATS(3)
	c.start(3)
	load, enough := context.WithCancel(t.Context())
	defer enough()
	y := newLoad(c)
	clients := y.clients(load, t, 4, usual, 3*time.Minute)
	y.ended(t, 4)
	for _, s := range c.nats {
		s.Stop()
	}
	mended := c.breaks("all of NATS down", "")
	before, began := y.total(), time.Now()
	y.ended(t, 8) // all clients have started one since
	_ = delay.For(t.Context(), down-time.Since(began))
	took, without := time.Since(began), y.total()-before
	for _, s := range c.nats {
		if err := s.Restart(); err != nil {
			t.Fatal(err)
		}
	}
	mended()
	y.ended(t, 4)
	enough()
	clients.Wait()
	y.check(t, time.Minute, false)
	y.readAgain(t)
	t.Logf("%d units ended in %v without NATS, %d in all with %d events; every stream was read again", without, took.Round(100*time.Millisecond), y.total(), y.events)
}

// readAgain reads the stream of every plain run from its beginning.
func (y *load) readAgain(t *testing.T) {
	t.Helper()
	k := newClient(y.c, y.c.random("again"), nil)
	defer k.close()
	for _, x := range y.all {
		if x.unit != "plain" && x.unit != "sends" && x.unit != "queue" {
			continue // its steps are in several runs, or not all there
		}
		for _, run := range x.runs {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			events, err := k.stream(ctx, run)
			if err == nil {
				err = follows(x.thread, events, usual.steps)
			}
			cancel()
			if err != nil {
				t.Errorf("read run %s again: %v", run.Run, err)
			}
		}
	}
}

// While Postgres is down, clients get 503. When it is back, resent requests are accepted.
// No run is lost.
func TestServersSurvivePostgresRestart(t *testing.T) {
	t.Parallel()
	c := &cluster{t: t, on: onNATS, pg: pgtest.New(t)}
	c.address = c.pg.URL()
	c.startNATS(1)
	c.start(3)
	load, enough := context.WithCancel(t.Context())
	defer enough()
	y := newLoad(c)
	clients := y.clients(load, t, 4, usual, 3*time.Minute)
	y.ended(t, 4)
	k := newClient(c, c.random("one"), nil)
	defer k.close()
	thread, err := k.thread(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.pg.Stop()
	mended := c.breaks("restart of Postgres", "")
	began := time.Now()
	var refused sync.WaitGroup
	for _, n := range c.nodes {
		refused.Go(func() { refuses(t, k, n.at(), thread) })
	}
	refused.Wait()
	took := time.Since(began)
	c.pg.Start()
	mended()
	run, err := k.run(t.Context(), thread, input("plain", 1, usual))
	if err != nil {
		t.Fatal(err)
	}
	if events, err := k.stream(t.Context(), run); err != nil {
		t.Error(err)
	} else if err := follows(thread, events, usual.steps); err != nil {
		t.Error(err)
	}
	y.ended(t, 8)
	enough()
	clients.Wait()
	y.check(t, time.Minute, false)
	t.Logf("Postgres was down for %v; %d units ended as they should", took.Round(100*time.Millisecond), y.total())
}

// refuses waits until a server responds to a request for a run with 503. Until then, the
// server may wait for the database, so a slow request is not an error.
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
		t.Errorf("the response without Postgres is %s %s, %v; want 503 with a detail", resp.Status, raw, err)
	}
}
