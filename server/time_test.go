package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/bus"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/reduce"
	"github.com/treadle-go/treadle/server"
)

type shipState struct {
	Nap int                 `json:"nap"` // milliseconds
	Log reduce.List[string] `json:"log"`
}

type shipLog struct{ Log reduce.List[string] }

// shipping returns a graph that sleeps, waits for a signal, and then waits for another one
// that does not arrive. effects counts what it does after each.
func shipping(t *testing.T, effects *counted) treadle.AnyGraph {
	t.Helper()
	b := treadle.New[shipState]("shipping")
	say := func(ctx context.Context, what string) (shipLog, error) {
		_, err := treadle.Do(ctx, what, func(ctx context.Context) (int, error) {
			effects.add(treadle.InfoFrom(ctx).Thread + " " + what)
			return 0, nil
		})
		return shipLog{reduce.List[string]{what}}, err
	}
	treadle.AddNode(b, "sleep", func(ctx context.Context, s shipState) (shipLog, error) {
		if err := treadle.Sleep(ctx, time.Duration(s.Nap)*time.Millisecond); err != nil {
			return shipLog{}, err
		}
		return say(ctx, "slept")
	})
	treadle.AddNode(b, "pay", func(ctx context.Context, _ shipState) (shipLog, error) {
		by, err := treadle.WaitFor[string](ctx, "paid", nil)
		if err != nil {
			return shipLog{}, err
		}
		return say(ctx, "paid by "+by)
	})
	treadle.AddNode(b, "deliver", func(ctx context.Context, s shipState) (shipLog, error) {
		by, err := treadle.WaitFor[string](ctx, "delivered", &treadle.WaitOptions{Deadline: time.Now().Add(time.Duration(s.Nap) * time.Millisecond), OnTimeout: "nobody"})
		if err != nil {
			return shipLog{}, err
		}
		return say(ctx, "delivered by "+by)
	})
	b.Edge(treadle.Start, "sleep")
	b.Edge("sleep", "pay")
	b.Edge("pay", "deliver")
	g, err := b.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

type counted struct {
	mu   sync.Mutex
	done map[string]int
}

func (c *counted) add(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = map[string]int{}
	}
	c.done[what]++
}

// want checks that each effect has happened once.
func (c *counted) want(t *testing.T, want ...string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.done) != len(want) {
		t.Errorf("the effects are %v, want %q", c.done, want)
	}
	for _, w := range want {
		if c.done[w] != 1 {
			t.Errorf("%q happened %d times", w, c.done[w])
		}
	}
}

// threadRow is a thread as a client sees it.
type threadRow struct {
	Status     string `json:"status"`
	Interrupts map[string][]struct {
		Kind string    `json:"kind"`
		Due  time.Time `json:"due"`
	} `json:"interrupts"`
	Values struct {
		Log []string `json:"log"`
	} `json:"values"`
}

// until waits until a thread is as the test wants it.
func (c *client) until(thread, what string, is func(*threadRow) bool) *threadRow {
	c.t.Helper()
	for began := time.Now(); ; {
		row := &threadRow{}
		c.ok("GET", "/threads/"+thread, "", row)
		if is(row) {
			return row
		}
		if time.Since(began) > tooLong {
			c.t.Fatalf("thread %s is not %s: %+v", thread, what, row)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func waitsFor(kind string) func(*threadRow) bool {
	return func(r *threadRow) bool {
		for _, list := range r.Interrupts {
			return r.Status == "interrupted" && list[0].Kind == kind
		}
		return false
	}
}

func idle(r *threadRow) bool { return r.Status == "idle" }

// One of several processes continues each thread, at its time and when its signal arrives.
func TestThreadsContinueOnce(t *testing.T) {
	onBuses(t, func(t *testing.T, b bus.Bus) {
		t.Cleanup(func() {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		})
		effects := &counted{}
		first := serveShared(t, newMemory(), b, []treadle.AnyGraph{shipping(t, effects)}, server.Options{})
		ps := []*process{first, first.beside([]treadle.AnyGraph{shipping(t, effects)}, server.Options{}), first.beside([]treadle.AnyGraph{shipping(t, effects)}, server.Options{})}
		const n = 10
		var want, threads []string
		for i := range n {
			thread := ps[i%3].thread()
			ps[i%3].ok("POST", "/threads/"+thread+"/runs/wait", `{"assistant_id":"shipping","input":{"nap":30}}`, nil)
			threads = append(threads, thread)
			want = append(want, thread+" slept", fmt.Sprintf("%s paid by %d", thread, i), thread+" delivered by nobody")
		}
		for i, thread := range threads {
			p := ps[(i+1)%3]
			if i%2 == 0 { // late; the others may be early
				p.until(thread, "waiting for the signal", waitsFor("signal"))
			}
			p.ok("POST", "/threads/"+thread+"/signals/paid", fmt.Sprintf(`{"value":"%d"}`, i), nil)
		}
		for i, thread := range threads {
			row := ps[(i+2)%3].until(thread, "over", idle)
			equal(t, row.Values.Log, []string{"slept", fmt.Sprintf("paid by %d", i), "delivered by nobody"})
		}
		effects.want(t, want...)
	})
}

func TestSleepingThreadSurvivesRestart(t *testing.T) {
	effects := &counted{}
	b := bus.NewMemory()
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	p := serveShared(t, newMemory(), b, []treadle.AnyGraph{shipping(t, effects)}, server.Options{})
	thread := p.thread()
	p.ok("POST", "/threads/"+thread+"/runs/wait", `{"assistant_id":"shipping","input":{"nap":3600000},"context":{"user":"ada"}}`, nil)
	row := p.until(thread, "asleep", waitsFor("sleep"))
	for _, list := range row.Interrupts {
		if until := time.Until(list[0].Due); until < 59*time.Minute || until > time.Hour {
			t.Errorf("it sleeps for %v", until)
		}
	}
	var state struct {
		Interrupts []struct{ Kind string }
	}
	p.ok("GET", "/threads/"+thread+"/state", "", &state)
	if len(state.Interrupts) != 1 || state.Interrupts[0].Kind != "sleep" {
		t.Errorf("the state shows %v", state.Interrupts)
	}
	// An unexpected answer changes nothing, and the thread keeps sleeping.
	p.ok("POST", "/threads/"+thread+"/runs/wait", `{"assistant_id":"shipping","command":{"resume":"wake up"}}`, nil)
	p.until(thread, "asleep", waitsFor("sleep"))
	// An edit ends the sleep, and the thread waits for a run.
	p.ok("POST", "/threads/"+thread+"/state", `{"values":{"log":["edited"]},"as_node":"sleep"}`, nil)
	if got, err := ledger.New(p.db.rows, nil).NextDue(t.Context()); !got.IsZero() || err != nil {
		t.Errorf("after the edit something is due at %v, %v", got, err)
	}
	short := p.thread()
	p.ok("POST", "/threads/"+short+"/runs/wait", `{"assistant_id":"shipping","input":{"nap":300}}`, nil)
	p.leave() // while it sleeps
	after := p.beside([]treadle.AnyGraph{shipping(t, effects)}, server.Options{})
	after.until(short, "woken by another process", waitsFor("signal"))
	effects.want(t, short+" slept")
}

func TestInvalidSignalsAreRejected(t *testing.T) {
	b := bus.NewMemory()
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	p := serveShared(t, newMemory(), b, []treadle.AnyGraph{shipping(t, &counted{})}, server.Options{})
	thread, fresh := p.thread(), p.thread()
	p.ok("POST", "/threads/"+thread+"/runs/wait", `{"assistant_id":"shipping","input":{"nap":0}}`, nil)
	p.until(thread, "waiting for the signal", waitsFor("signal"))
	for _, c := range []struct {
		path, body string
		want       int
	}{
		{"/threads/" + fresh + "/signals/paid", `{"value":"ada"}`, http.StatusConflict},
		{"/threads/00000000-0000-4000-8000-000000000000/signals/paid", `{"value":"ada"}`, http.StatusNotFound},
		{"/threads/" + thread + "/signals/paid", `{"value":7}`, http.StatusUnprocessableEntity},
		{"/threads/" + thread + "/signals/paid", `{`, http.StatusUnprocessableEntity},
		{"/threads/" + thread + "/signals/paid", ``, http.StatusUnprocessableEntity}, // null is not a string
	} {
		status, _, raw := p.do("POST", c.path, c.body)
		var answer struct{ Detail string }
		if err := json.Unmarshal(raw, &answer); status != c.want || err != nil || answer.Detail == "" {
			t.Errorf("POST %s %s: %d %s, want %d", c.path, c.body, status, raw, c.want)
		}
	}
	p.ok("POST", "/threads/"+thread+"/signals/paid", `{"value":"ada"}`, nil)
	p.until(thread, "over", idle)
}
