package llmtest

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/treadle-go/treadle/llm"
)

// both requests a streamed and a whole response and expects an error from each.
func both(t *testing.T, r *rig, next func() answer, check func(t *testing.T, e *llm.Error)) {
	for name, model := range map[string]llm.Model{"whole": llm.With(r.model, llm.NoStream()), "streamed": r.model} {
		before := len(r.requests())
		r.will(next())
		_, err := llm.Generate(t.Context(), model, llm.User("Hi"))
		e := providerError(t, r, err)
		check(t, e)
		if n := len(r.requests()) - before; n != 1 {
			t.Errorf("%s: the provider got %d requests, want 1: models do not retry by themselves", name, n)
		}
	}
}

func testUnauthorized(t *testing.T, r *rig) {
	f := Failure{Status: http.StatusUnauthorized, Code: "authentication_error", Message: "the key is wrong"}
	both(t, r, func() answer { return r.fail(f) }, func(t *testing.T, e *llm.Error) {
		if e.Status != f.Status || e.Temporary() || !strings.Contains(e.Error(), f.Message) {
			t.Errorf("the error is %v (status %d, temporary %v), want 401 with the provider's message, not temporary", e, e.Status, e.Temporary())
		}
	})
}

func testRateLimited(t *testing.T, r *rig) {
	f := Failure{Status: http.StatusTooManyRequests, Code: "rate_limit_error", Message: "slow down"}
	both(t, r, func() answer { return r.fail(f, "Retry-After", "7") }, func(t *testing.T, e *llm.Error) {
		if e.Status != f.Status || !e.Temporary() || e.RetryAfter != 7*time.Second || !strings.Contains(e.Error(), f.Message) {
			t.Errorf("the error is %v (status %d, temporary %v, retry after %v), want 429, temporary, after 7s", e, e.Status, e.Temporary(), e.RetryAfter)
		}
	})
}

func testServerError(t *testing.T, r *rig) {
	f := Failure{Status: http.StatusInternalServerError, Code: "api_error", Message: "out of order"}
	both(t, r, func() answer { return r.fail(f) }, func(t *testing.T, e *llm.Error) {
		if e.Status != f.Status || !e.Temporary() || !strings.Contains(e.Error(), f.Message) {
			t.Errorf("the error is %v (status %d, temporary %v), want 500 with the provider's message, temporary", e, e.Status, e.Temporary())
		}
	})
}

// testRedirect checks that a redirect to another host is not followed, because it
// would leak the key and the conversation.
func testRedirect(t *testing.T, r *rig) {
	var reached atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	t.Cleanup(other.Close)
	away := func(w http.ResponseWriter, req *http.Request, _ Received) {
		http.Redirect(w, req, other.URL+req.URL.Path+"?leak=1", http.StatusTemporaryRedirect)
	}
	both(t, r, func() answer { return away }, func(t *testing.T, e *llm.Error) {
		if !strings.Contains(e.Error(), "another host") {
			t.Errorf("the error is %v, want one that names the other host", e)
		}
	})
	if n := reached.Load(); n > 0 {
		t.Errorf("the other host got %d requests", n)
	}
}

// testCutConnection checks that a truncated response is an error, never a shorter
// response.
func testCutConnection(t *testing.T, r *rig) {
	r.will(func(w http.ResponseWriter, _ *http.Request, _ Received) {
		r.startStream(w)
		pieces := r.p.Stream(Reply{Text: []string{"one", "two", "three", "four"}, Stop: llm.StopEnd, Usage: usage})
		for _, piece := range pieces[:len(pieces)/2] {
			write(w, piece)
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_ = conn.Close()
	})
	m, err := llm.Generate(t.Context(), r.model, llm.User("Count"))
	if e := providerError(t, r, err); !e.Cut || !e.Temporary() {
		t.Errorf("the error is %v (cut %v, temporary %v), want both", e, e.Cut, e.Temporary())
	}
	if !strings.HasPrefix(m.Text(), "one") {
		t.Errorf("the message so far is %q", m.Text())
	}
	if m.Stop != "" {
		t.Errorf("the answer stopped for %q, but it broke off", m.Stop)
	}

	// The same if the connection ends as though the response were complete.
	r.will(func(w http.ResponseWriter, _ *http.Request, _ Received) {
		r.startStream(w)
		pieces := r.p.Stream(Reply{Text: []string{"one", "two", "three", "four"}, Stop: llm.StopEnd, Usage: usage})
		for _, piece := range pieces[:len(pieces)/2] {
			write(w, piece)
		}
	})
	_, err = llm.Generate(t.Context(), r.model, llm.User("Count"))
	if e := providerError(t, r, err); !e.Cut {
		t.Errorf("after a stream without its end the error is %v, want a cut", e)
	}
}

// testGarbage checks that invalid data is an error, never an empty response.
func testGarbage(t *testing.T, r *rig) {
	both(t, r, func() answer {
		return func(w http.ResponseWriter, _ *http.Request, got Received) {
			if got.Stream {
				r.startStream(w)
				write(w, []byte("data: <html>{{{ this is not the protocol\n\n"))
				return
			}
			w.Header().Set("Content-Type", "application/json")
			write(w, []byte(`{"this is": not the protocol`))
		}
	}, func(t *testing.T, e *llm.Error) {
		if e.Error() == "" {
			t.Error("the error says nothing")
		}
	})
	// Garbage in the middle of a stream.
	r.will(func(w http.ResponseWriter, _ *http.Request, _ Received) {
		r.startStream(w)
		pieces := r.p.Stream(Reply{Text: []string{"one", "two", "three", "four"}, Stop: llm.StopEnd, Usage: usage})
		for _, piece := range pieces[:len(pieces)/2] {
			write(w, piece)
		}
		write(w, []byte("data: <html>{{{ this is not the protocol\n\n"))
	})
	_, err := llm.Generate(t.Context(), r.model, llm.User("Count"))
	_ = providerError(t, r, err)
}

// hang streams the start of a response, then reports when the client disconnects.
func (r *rig) hang(gone chan<- time.Time) answer {
	return func(w http.ResponseWriter, req *http.Request, _ Received) {
		r.startStream(w)
		pieces := r.p.Stream(Reply{Text: []string{"one", "two", "three", "four"}, Stop: llm.StopEnd, Usage: usage})
		for _, piece := range pieces[:len(pieces)/2] {
			write(w, piece)
		}
		<-req.Context().Done()
		gone <- time.Now()
	}
}

// testCancellation checks that a canceled call closes its connection and yields the
// context's error, and that a canceled context sends no request.
func testCancellation(t *testing.T, r *rig) {
	gone := make(chan time.Time, 1)
	r.will(r.hang(gone))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	var at time.Time
	for chunk, err := range llm.Stream(ctx, r.model, llm.User("Count")) {
		if last = err; err == nil && chunk.Content != "" && at.IsZero() {
			at = time.Now()
			cancel()
		}
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("the cancelled call ended with %v, want context.Canceled", last)
	}
	if took := within(t, patience, "the connection's end", gone).Sub(at); took > closeWithin {
		t.Errorf("the connection was open for %v after the cancel, want at most %v", took, closeWithin)
	}
	if _, err := llm.Generate(ctx, r.model, llm.User("Count")); !errors.Is(err, context.Canceled) {
		t.Errorf("with a cancelled context the error is %v, want context.Canceled", err)
	}

	// The same before the provider has sent anything, and for whole responses.
	for _, model := range []llm.Model{r.model, llm.With(r.model, llm.NoStream())} {
		arrived := make(chan struct{})
		r.will(func(_ http.ResponseWriter, req *http.Request, _ Received) {
			close(arrived)
			<-req.Context().Done()
			gone <- time.Now()
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := llm.Generate(ctx, model, llm.User("Count"))
			done <- err
		}()
		within(t, patience, "the request", arrived)
		at := time.Now()
		cancel()
		if err := within(t, patience, "the call's end", done); !errors.Is(err, context.Canceled) {
			t.Errorf("the cancelled call ended with %v, want context.Canceled", err)
		}
		if took := within(t, patience, "the connection's end", gone).Sub(at); took > closeWithin {
			t.Errorf("the connection was open for %v after the cancel, want at most %v", took, closeWithin)
		}
	}
}

// testLeavingTheLoop checks that leaving the loop closes the connection.
func testLeavingTheLoop(t *testing.T, r *rig) {
	gone := make(chan time.Time, 1)
	r.will(r.hang(gone))
	for chunk, err := range llm.Stream(t.Context(), r.model, llm.User("Count")) {
		if err != nil {
			t.Fatal(err)
		}
		if chunk.Content != "" {
			break
		}
	}
	at := time.Now()
	if took := within(t, patience, "the connection's end", gone).Sub(at); took > closeWithin {
		t.Errorf("the connection was open for %v after the loop, want at most %v", took, closeWithin)
	}
}
