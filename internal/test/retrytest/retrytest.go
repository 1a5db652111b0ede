// Package retrytest tests that clients of embedding and reranking servers retry requests
// as [llm.Retry] does.
package retrytest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/treadle-go/treadle/llm"
)

// URL is the address of the server. No package treats its host in a special way.
const URL = "http://models.test"

// A Subject is a client to test.
type Subject struct {
	// Open returns a function that makes a call of one request to the server at [URL].
	Open func(t *testing.T, client *http.Client) func(context.Context) error
	// Answer writes a successful response to a request.
	Answer http.HandlerFunc
}

// A step is the server's response to one request; after the last step, the server answers.
type step func(w http.ResponseWriter)

// fail returns a step with an error status.
func fail(status int, header ...string) step {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		for pair := range slices.Chunk(header, 2) {
			w.Header().Set(pair[0], pair[1])
		}
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, `{"error":{"message":"not now"},"message":"not now"}`)
	}
}

// hangUp closes the connection without a response.
func hangUp(http.ResponseWriter) { panic(http.ErrAbortHandler) }

// answer is a step without a failure.
var answer step

// Run runs the suite.
func Run(t *testing.T, s Subject) {
	const busy, down, invalid = http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusBadRequest
	for name, c := range map[string]struct {
		steps    []step
		requests int // received by the server
		status   int // of the error; 0 means success
		// The call takes at least and at most this long. A wait that the server does not
		// request includes up to a second of jitter.
		least, most time.Duration
	}{
		"success":                    {nil, 1, 0, 0, 0},
		"429 with Retry-After":       {[]step{fail(busy, "Retry-After", "7")}, 2, 0, 7 * time.Second, 7 * time.Second},
		"429 without Retry-After":    {[]step{fail(busy)}, 2, 0, time.Second / 2, 3 * time.Second / 2},
		"429 with a long wait":       {[]step{fail(busy, "Retry-After", "61")}, 1, busy, 0, 0},
		"429 three times":            {[]step{fail(busy), fail(busy), fail(busy)}, 3, busy, 3 * time.Second / 2, 7 * time.Second / 2},
		"503 twice":                  {[]step{fail(down), fail(down)}, 3, 0, 3 * time.Second / 2, 7 * time.Second / 2},
		"EOF":                        {[]step{hangUp}, 2, 0, time.Second / 2, 3 * time.Second / 2},
		"400":                        {[]step{fail(invalid)}, 1, invalid, 0, 0},
		"400 after 503":              {[]step{fail(down), fail(invalid)}, 2, invalid, time.Second / 2, 3 * time.Second / 2},
		"closed idle connection":     {[]step{answer, hangUp}, 3, 0, 0, 0},
		"canceled while it waits":    {[]step{fail(busy, "Retry-After", "30")}, 1, canceled, cancelAfter, cancelAfter},
		"deadline before next start": {[]step{fail(busy, "Retry-After", "30")}, 1, expired, cancelAfter, cancelAfter},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, client := serve(t, s.Answer, c.steps)
				call := s.Open(t, client)
				if len(c.steps) > 0 && c.steps[0] == nil { // the first call is not the subject
					if err := call(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				switch c.status {
				case canceled:
					time.AfterFunc(cancelAfter, cancel)
				case expired:
					ctx, cancel = context.WithTimeout(t.Context(), cancelAfter)
					defer cancel()
				}
				start := time.Now()
				err := call(ctx)
				if took := time.Since(start); took < c.least || took > c.most {
					t.Errorf("call took %v, want %v to %v", took, c.least, c.most)
				}
				if n := server.requests(); n != c.requests {
					t.Errorf("server received %d requests, want %d", n, c.requests)
				}
				check(t, err, c.status)
			})
		})
	}
}

// Statuses of calls whose context ends after cancelAfter.
const (
	canceled    = -1
	expired     = -2
	cancelAfter = 3 * time.Second
)

func check(t *testing.T, err error, status int) {
	t.Helper()
	e, ok := errors.AsType[*llm.Error](err)
	switch {
	case status == 0 && err != nil:
		t.Errorf("error %v, want none", err)
	case status == canceled && !errors.Is(err, context.Canceled), status == expired && !errors.Is(err, context.DeadlineExceeded):
		t.Errorf("error %v, want the context's", err)
	case status > 0 && (!ok || e.Status != status):
		t.Errorf("error %v, want an *llm.Error with status %d", err, status)
	}
}

// server is a server on pipes, so that it runs in the bubble of a test.
type server struct {
	conns  chan net.Conn
	closed chan struct{}
	answer http.HandlerFunc

	mu    sync.Mutex
	steps []step
	n     int // received requests
}

func serve(t *testing.T, answer http.HandlerFunc, steps []step) (*server, *http.Client) {
	s := &server{conns: make(chan net.Conn), closed: make(chan struct{}), answer: answer, steps: steps}
	hs := &http.Server{Handler: s}
	done := make(chan error, 1)
	go func() { done <- hs.Serve(s) }()
	transport := &http.Transport{DialContext: s.dial}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = hs.Close()
		<-done
	})
	return s, &http.Client{Transport: transport}
}

func (s *server) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case s.conns <- far:
		return near, nil
	case <-s.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements [net.Listener].
func (s *server) Accept() (net.Conn, error) {
	select {
	case c := <-s.conns:
		return c, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (s *server) Close() error {
	close(s.closed)
	return nil
}

// Addr implements [net.Listener].
func (s *server) Addr() net.Addr { return &net.UnixAddr{Net: "pipe"} }

// ServeHTTP implements [http.Handler].
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.n++
	next := answer
	if len(s.steps) > 0 {
		next, s.steps = s.steps[0], s.steps[1:]
	}
	s.mu.Unlock()
	if next != nil {
		next(w)
		return
	}
	s.answer(w, r)
}

func (s *server) requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}
