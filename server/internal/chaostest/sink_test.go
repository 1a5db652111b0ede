package chaostest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/internal/delay"
)

// sink is the world outside the servers: effects and webhooks go there. It is in the
// test's process and never fails.
type sink struct {
	server *httptest.Server

	mu      sync.Mutex
	effects []effect
	hooks   map[string][]ended  // by run
	pushes  map[string][]string // the states of A2A tasks, by ID
	stops   []stop
}

// effect is a moment of an effect.
type effect struct {
	What   string // "begin", "done", or "recorded"
	Thread string
	Run    string
	Turn   int
	Step   int
	Name   string
	Key    string
	PID    int
	At     time.Time
}

// id identifies the effect.
func (e *effect) id() string {
	return fmt.Sprintf("%s turn %d step %d%s", e.Thread, e.Turn, e.Step, e.Name)
}

// ended is a webhook.
type ended struct {
	Run    string    `json:"run_id"`
	Thread string    `json:"thread_id"`
	Status string    `json:"status"`
	Ended  time.Time `json:"run_ended_at"`
	At     time.Time `json:"-"`
}

// stop is a time during which a process was stopped: between two places in the list of
// effects.
type stop struct {
	pid      int
	from, to int // to is -1 while the process is stopped
}

func newSink(t testing.TB) *sink {
	t.Helper()
	s := &sink{hooks: map[string][]ended{}, pushes: map[string][]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /effect", func(_ http.ResponseWriter, r *http.Request) {
		number := func(key string) int {
			n, _ := strconv.Atoi(r.FormValue(key)) // our own client sends numbers
			return n
		}
		e := effect{What: r.FormValue("what"), Thread: r.FormValue("thread"), Run: r.FormValue("run"), Turn: number("turn"), Step: number("step"),
			Name: r.FormValue("name"), Key: r.FormValue("key"), PID: number("pid"), At: time.Now()}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.effects = append(s.effects, e)
	})
	mux.HandleFunc("POST /hook", func(w http.ResponseWriter, r *http.Request) {
		h := ended{At: time.Now()}
		if err := json.NewDecoder(r.Body).Decode(&h); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.hooks[h.Run] = append(s.hooks[h.Run], h)
	})
	mux.HandleFunc("POST /push", func(w http.ResponseWriter, r *http.Request) {
		var p struct{ Task taskState }
		if err := json.NewDecoder(r.Body).Decode(&p); err != nil || r.Header.Get("X-A2A-Notification-Token") != "secret" {
			http.Error(w, "invalid notification", http.StatusBadRequest)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.pushes[p.Task.ID] = append(s.pushes[p.Task.ID], p.Task.Status.State)
	})
	s.server = httptest.NewServer(mux)
	t.Cleanup(s.server.Close)
	return s
}

// hook returns the address for webhooks.
func (s *sink) hook() string { return s.server.URL + "/hook" }

// push returns the address for notifications about A2A tasks.
func (s *sink) push() string { return s.server.URL + "/push" }

// pushesOf returns the states of a task in its notifications, sorted and without repetitions: a notification may
// arrive twice, and after a later one.
func (s *sink) pushesOf(task string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Compact(slices.Sorted(slices.Values(s.pushes[task])))
}

// now returns the number of effects so far.
func (s *sink) now() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.effects)
}

// stopped notes that a process is about to be stopped.
func (s *sink) stopped(pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stops = append(s.stops, stop{pid, len(s.effects), -1})
}

// continued records that a stopped process is about to continue.
func (s *sink) continued(pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.stops {
		if s.stops[i].pid == pid && s.stops[i].to < 0 {
			s.stops[i].to = len(s.effects)
		}
	}
}

// of returns the effects of a thread that have happened.
func (s *sink) of(thread string) (done []effect) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.effects {
		if e.Thread == thread && e.What == "done" {
			done = append(done, e)
		}
	}
	return done
}

// endsOf returns the webhooks of a run.
func (s *sink) endsOf(run string) []ended {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]ended(nil), s.hooks[run]...)
}

// sinkClient is a server's connection to the sink.
type sinkClient struct{ url string }

// post reports an effect to the sink. It retries until ctx ends: the sink may be slow, but
// it does not fail.
func (c *sinkClient) post(ctx context.Context, what string, turn, step int, name string) error {
	info := treadle.InfoFrom(ctx)
	form := url.Values{"what": {what}, "thread": {info.Thread}, "run": {info.RunID}, "turn": {strconv.Itoa(turn)}, "step": {strconv.Itoa(step)},
		"name": {name}, "key": {info.IdempotencyKey}, "pid": {strconv.Itoa(os.Getpid())}}
	for {
		// An effect is not taken back when the run is canceled.
		err := c.send(context.WithoutCancel(ctx), form)
		if err == nil {
			return nil
		}
		if waitErr := delay.For(ctx, 20*time.Millisecond); waitErr != nil {
			return err
		}
	}
}

func (c *sinkClient) send(ctx context.Context, form url.Values) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/effect", strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return err
}
