package clienttest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/client"
	"github.com/treadle-go/treadle/internal/test/netfault"
)

// counting is the state of a graph that says numbers.
type counting struct {
	N    int  `json:"n"`
	Done bool `json:"done,omitempty"`
}

type counted struct {
	Done bool `json:"done"`
}

// counter returns a graph that emits the numbers below n.
func counter(t testing.TB) treadle.AnyGraph {
	t.Helper()
	b := treadle.New[counting]("counter")
	treadle.AddNode(b, "count", func(ctx context.Context, s counting) (counted, error) {
		for i := range s.N {
			treadle.Emit(ctx, i)
		}
		return counted{true}, nil
	})
	b.Edge(treadle.Start, "count")
	g, err := b.Compile(nil)
	return must(t, g, err)
}

// gate is a graph whose second node waits until it is let through.
type gate struct {
	treadle.AnyGraph
	first, second atomic.Int32  // how often the nodes have begun
	waiting       chan struct{} // has an element for each time that the second node waits
	open          chan struct{} // closed to let it through
}

type passed struct {
	Steps int `json:"steps"`
}

func newGate(t testing.TB) *gate {
	t.Helper()
	g := &gate{waiting: make(chan struct{}, 100), open: make(chan struct{})}
	b := treadle.New[passed]("gate")
	treadle.AddNode(b, "first", func(context.Context, passed) (passed, error) {
		g.first.Add(1)
		return passed{1}, nil
	})
	treadle.AddNode(b, "second", func(ctx context.Context, s passed) (passed, error) {
		g.second.Add(1)
		g.waiting <- struct{}{}
		select {
		case <-g.open:
			return passed{s.Steps + 1}, nil
		case <-ctx.Done():
			return passed{}, ctx.Err()
		case <-t.Context().Done(): // the test has failed
			return passed{}, t.Context().Err()
		}
	})
	b.Sequence(treadle.Start, "first", "second")
	made, err := b.Compile(nil)
	g.AnyGraph = must(t, made, err)
	return g
}

// broken returns a proxy before a server and a client that uses it.
func broken(t testing.TB, url string, o *client.Options) (*netfault.Proxy, *client.Client) {
	t.Helper()
	p := netfault.New(t, strings.TrimPrefix(url, "http://"))
	return p, connect(t, "http://"+p.Addr(), o)
}

func TestBrokenStreamResumes(t *testing.T) {
	const all, every = 300, 25
	p, c := broken(t, serve(t, nil, counter(t)), &client.Options{Retry: quick(1000)})
	thread, err := c.Threads.Create(t.Context(), nil)
	must(t, thread, err)
	next := 0
	for ev, err := range c.Runs.Stream(t.Context(), thread.ID, &client.RunCreate{Assistant: "counter", Input: counting{N: all}, StreamMode: []string{"custom"}}) {
		ok(t, err)
		if ev.Mode != "custom" {
			continue
		}
		if string(ev.Data) != strconv.Itoa(next) {
			t.Fatalf("event %s, want %d", ev.Data, next)
		}
		if next++; next%every == 0 {
			p.Cut()
			p.Heal()
		}
	}
	if next != all {
		t.Errorf("%d events, want %d", next, all)
	}
	runs, err := c.Runs.List(t.Context(), thread.ID, nil)
	must(t, runs, err)
	if len(runs) != 1 {
		t.Errorf("%d runs", len(runs))
	}
}

func TestBrokenThreadStreamResumes(t *testing.T) {
	p, c := broken(t, serve(t, nil, counter(t)), &client.Options{Retry: quick(1000)})
	thread, err := c.Threads.Create(t.Context(), nil)
	must(t, thread, err)
	for range 3 {
		_, err := c.Runs.Wait(t.Context(), thread.ID, &client.RunCreate{Assistant: "counter", Input: counting{N: 20}, StreamMode: []string{"custom"}, Resumable: new(true)})
		ok(t, err)
	}
	var got []string
	ends := 0
	for ev, err := range c.Threads.Stream(t.Context(), thread.ID, &client.ThreadStreamOptions{LastEventID: "-"}) {
		ok(t, err)
		if ev.Mode == "custom" {
			got = append(got, string(ev.Data))
		}
		if len(got)%7 == 0 {
			p.Cut()
			p.Heal()
		}
		if strings.Contains(string(ev.Data), "run_done") {
			if ends++; ends == 3 {
				break
			}
		}
	}
	for i, n := range got {
		if n != strconv.Itoa(i%20) {
			t.Fatalf("event %d is %s", i, n)
		}
	}
	if len(got) != 60 {
		t.Errorf("%d events", len(got))
	}
}

func TestBrokenProtocolV2StreamResumes(t *testing.T) {
	p, c := broken(t, serve(t, nil, counter(t)), &client.Options{Retry: quick(1000)})
	thread, err := c.Threads.Create(t.Context(), nil)
	must(t, thread, err)
	_, err = c.Threads.Command(t.Context(), thread.ID, "run.start", map[string]any{"assistant_id": "counter", "input": counting{N: 50}})
	ok(t, err)
	next := 0
	for ev, err := range c.Threads.Events(t.Context(), thread.ID, &client.Subscription{Channels: []string{"custom", "lifecycle"}}) {
		ok(t, err)
		if ev.Mode == "lifecycle" && strings.Contains(string(ev.Data), "completed") {
			break
		}
		if ev.Mode == "custom" {
			if !strings.Contains(string(ev.Data), fmt.Sprintf(`:%d}`, next)) {
				t.Fatalf("event %s, want %d", ev.Data, next)
			}
			if next++; next%20 == 0 {
				p.Cut()
				p.Heal()
			}
		}
	}
	if next != 50 {
		t.Errorf("%d events", next)
	}
}

// A run whose events are not kept cannot be resumed without a gap.
func TestBrokenStreamOfUnresumableRunFails(t *testing.T) {
	g := newGate(t)
	p, c := broken(t, serve(t, nil, g), nil)
	thread, err := c.Threads.Create(t.Context(), nil)
	must(t, thread, err)
	var last error
	for ev, err := range c.Runs.Stream(t.Context(), thread.ID, &client.RunCreate{Assistant: "gate", Input: passed{}, Resumable: new(false)}) {
		last = err
		if ev.Mode == "values" {
			p.Cut()
			p.Heal()
		}
	}
	says(t, last, "GET /threads/", "does not keep the events", "RunCreate.Resumable")
	runs, err := c.Runs.List(t.Context(), thread.ID, nil)
	last = nil
	for ev, err := range c.Runs.JoinStream(t.Context(), thread.ID, must(t, runs, err)[0].ID, nil) {
		last = err
		if ev.Mode != "" {
			p.Cut()
			p.Heal()
		}
	}
	says(t, last, "GET /threads/", "does not keep the events")
	close(g.open)
}

func TestWaitSurvivesABreak(t *testing.T) {
	g := newGate(t)
	p, c := broken(t, serve(t, nil, g), &client.Options{Retry: quick(1000)})
	thread, err := c.Threads.Create(t.Context(), nil)
	must(t, thread, err)
	go func() {
		<-g.waiting
		p.Cut()
		p.Heal()
		close(g.open)
	}()
	values, err := c.Runs.Wait(t.Context(), thread.ID, &client.RunCreate{Assistant: "gate", Input: passed{}})
	same(t, must(t, values, err), `{"steps":2}`)
	runs, err := c.Runs.List(t.Context(), thread.ID, nil)
	must(t, runs, err)
	if len(runs) != 1 {
		t.Errorf("%d runs", len(runs))
	}
}

// lossy loses the answers to some requests after the server has carried them out.
type lossy struct {
	http.RoundTripper
	lose  func(*http.Request) bool
	alien bool // the server seems to be another one
}

func (l *lossy) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.RoundTripper.RoundTrip(r)
	switch {
	case err == nil && l.lose(r):
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return nil, io.ErrUnexpectedEOF
	case err == nil && l.alien && r.URL.Path == "/info":
		_ = resp.Body.Close()
		resp.Body = io.NopCloser(strings.NewReader(`{"version":"1"}`))
	}
	return resp, err
}

// losing returns a client that loses the first response to a request.
func losing(t testing.TB, url, method, suffix string, alien bool) *client.Client {
	t.Helper()
	var lost atomic.Bool
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return connect(t, url, &client.Options{HTTPClient: &http.Client{Transport: &lossy{transport, func(r *http.Request) bool {
		return r.Method == method && strings.HasSuffix(r.URL.Path, suffix) && lost.CompareAndSwap(false, true)
	}, alien}}})
}

func TestLostResponseCreatesNoSecondRun(t *testing.T) {
	for verb, call := range map[string]func(context.Context, *client.Client, string, *client.RunCreate) error{
		"": func(ctx context.Context, c *client.Client, thread string, o *client.RunCreate) error {
			run, err := c.Runs.Create(ctx, thread, o)
			if err == nil {
				_, err = c.Runs.Join(ctx, thread, run.ID)
			}
			return err
		},
		"/wait": func(ctx context.Context, c *client.Client, thread string, o *client.RunCreate) error {
			values, err := c.Runs.Wait(ctx, thread, o)
			if err == nil && !strings.Contains(string(values), "true") {
				return fmt.Errorf("values %s", values)
			}
			return err
		},
		"/stream": func(ctx context.Context, c *client.Client, thread string, o *client.RunCreate) error {
			n := 0
			for ev, err := range c.Runs.Stream(ctx, thread, o) {
				if err != nil {
					return err
				}
				if ev.Mode == "custom" {
					n++
				}
			}
			if n != o.Input.(counting).N {
				return fmt.Errorf("%d events", n)
			}
			return nil
		},
	} {
		t.Run("POST runs"+verb, func(t *testing.T) {
			url := serve(t, nil, counter(t))
			c := losing(t, url, http.MethodPost, "/runs"+verb, false)
			thread, err := c.Threads.Create(t.Context(), nil)
			must(t, thread, err)
			ok(t, call(t.Context(), c, thread.ID, &client.RunCreate{Assistant: "counter", Input: counting{N: 10}, StreamMode: []string{"custom"}}))
			runs, err := c.Runs.List(t.Context(), thread.ID, nil)
			must(t, runs, err)
			if len(runs) != 1 {
				t.Errorf("%d runs", len(runs))
			}

			// Another server may not know the key, so the request is not repeated.
			c = losing(t, url, http.MethodPost, "/runs"+verb, true)
			thread, err = c.Threads.Create(t.Context(), nil)
			must(t, thread, err)
			err = call(t.Context(), c, thread.ID, &client.RunCreate{Assistant: "counter", Input: counting{N: 10}, StreamMode: []string{"custom"}})
			fails(t, err, io.ErrUnexpectedEOF)
		})
	}
}

func TestSilentServerTimesOut(t *testing.T) {
	g := newGate(t)
	p, c := broken(t, serve(t, nil, g), &client.Options{Retry: quick(2), Silence: 100 * time.Millisecond})
	p.Swallow()
	_, err := c.Info(t.Context())
	says(t, err, "GET /info", "nothing for 100ms")
	p.Heal()

	// A stream is resumed.
	p, c = broken(t, serve(t, nil, g), &client.Options{Retry: quick(100000), Silence: 300 * time.Millisecond})
	thread, err := c.Threads.Create(t.Context(), nil)
	must(t, thread, err)
	var got string
	for ev, err := range c.Runs.Stream(t.Context(), thread.ID, &client.RunCreate{Assistant: "gate", Input: passed{}, StreamMode: []string{"updates"}}) {
		ok(t, err)
		got += ev.Mode + " "
		if ev.Mode == "updates" && strings.Contains(string(ev.Data), "first") {
			p.Swallow()
			close(g.open)
			p.Heal()
		}
	}
	if got != "metadata updates updates " {
		t.Error(got)
	}
}

func TestLeavingAStreamClosesTheConnection(t *testing.T) {
	g := newGate(t)
	c := connect(t, serve(t, nil, g), nil)
	thread, err := c.Threads.Create(t.Context(), nil)
	must(t, thread, err)
	for ev, err := range c.Runs.Stream(t.Context(), thread.ID, &client.RunCreate{Assistant: "gate", Input: passed{}, OnDisconnect: "cancel"}) {
		ok(t, err)
		if ev.Mode == "values" {
			break
		}
	}
	runs, err := c.Runs.List(t.Context(), thread.ID, nil)
	id := must(t, runs, err)[0].ID
	_, err = c.Runs.Join(t.Context(), thread.ID, id) // the run ends only if it is canceled
	ok(t, err)
	run, err := c.Runs.Get(t.Context(), thread.ID, id)
	if must(t, run, err).Status != "interrupted" {
		t.Errorf("%+v", run)
	}
}

func TestStreamEndsWithContext(t *testing.T) {
	g := newGate(t)
	c := connect(t, serve(t, nil, g), nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	go func() {
		<-g.waiting
		cancel(cause)
	}()
	var last error
	for _, err := range c.Runs.Stream(ctx, uuid.NewString(), &client.RunCreate{Assistant: "gate", Input: passed{}, IfNotExists: "create"}) {
		last = err
	}
	fails(t, last, cause)
	close(g.open)
}

// LangGraph's Python server gives one id to all events of a millisecond. A break between two
// of them loses none.
func TestEventsWithSameID(t *testing.T) {
	type sent struct{ id, data string }
	all := []sent{{"1-0", "a"}, {"2-0", "b"}, {"2-0", "c"}, {"2-0", "c"}, {"2-0", "d"}, {"3-0", "e"}, {"3-0", "e"}, {"4-0", "f"}}
	for first := range len(all) + 1 {
		for _, inclusive := range []bool{false, true} { // whether the server also sends the event with the id
			requests := 0
			hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				last := r.Header.Get("Last-Event-Id")
				requests++
				n := 0
				for _, ev := range all {
					if last != "-1" && (ev.id < last || ev.id == last && !inclusive) {
						continue
					}
					if n++; requests == 1 && n > first {
						break
					}
					fmt.Fprintf(w, "event: custom\ndata: %q\nid: %s\n\n", ev.data, ev.id)
				}
				if requests == 1 {
					_ = http.NewResponseController(w).Flush()
					panic(http.ErrAbortHandler)
				}
			}))
			c := connect(t, hs.URL, nil)
			var got []string
			for ev, err := range c.Threads.Stream(t.Context(), "7", &client.ThreadStreamOptions{LastEventID: "-1"}) {
				ok(t, err)
				if got = append(got, strings.Trim(string(ev.Data), `"`)); len(got) == len(all) {
					break
				}
			}
			if strings.Join(got, "") != "abccdeef" {
				t.Errorf("break after %d events: %v", first, got)
			}
			hs.Close()
		}
	}
}
