package llmtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log" //nolint:depguard // slog.SetDefault redirects it
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/treadletype"
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

// testOverflow checks that a conversation that exceeds the context window is an
// [*llm.ContextError], whether the provider reports it before or within a stream.
func testOverflow(t *testing.T, r *rig) {
	f := r.p.Overflow
	if f.Message == "" {
		t.Fatal("Provider.Overflow is not set: set it, or give the reason in Lacks under Overflow")
	}
	check := func(name string, model llm.Model, next answer) {
		t.Helper()
		r.will(next)
		_, err := llm.Generate(t.Context(), model, llm.User("A long conversation"))
		e := providerError(t, r, err)
		if _, ok := errors.AsType[*llm.ContextError](err); !ok || treadletype.Transient(err) || !strings.Contains(e.Message, f.Message) {
			t.Errorf("%s: the error is %v (%T, transient %v), want an *llm.ContextError with the provider's message, not transient", name, err, err, treadletype.Transient(err))
		}
	}
	whole := llm.With(r.model, llm.NoStream())
	check("whole", whole, r.fail(f))
	check("streamed", r.model, r.fail(f))
	f.Stream = true
	if event := r.p.Failure(f); event != nil {
		pieces := r.p.Stream(Reply{Text: []string{"one", "two", "three", "four"}, Stop: llm.StopEnd, Usage: usage})
		for name, before := range map[string][][]byte{"as the first event": nil, "after the first texts": pieces[:len(pieces)/2]} {
			check(name, r.model, func(w http.ResponseWriter, _ *http.Request, _ Received) {
				r.startStream(w)
				for _, piece := range before {
					write(w, piece)
				}
				write(w, event)
			})
		}
	}

	// A text that is too long for a field is another error.
	other := Failure{Status: http.StatusBadRequest, Code: "invalid_request_error", Message: "metadata.note: string too long, the maximum length is 512"}
	for _, model := range []llm.Model{whole, r.model} {
		r.will(r.fail(other))
		_, err := llm.Generate(t.Context(), model, llm.User("Hi"))
		e := providerError(t, r, err)
		if _, ok := errors.AsType[*llm.ContextError](err); ok || e.Temporary() || e.Status != other.Status || !strings.Contains(e.Message, other.Message) {
			t.Errorf("the error is %v (%T, temporary %v), want the provider's 400", err, err, e.Temporary())
		}
	}
}

func testRateLimited(t *testing.T, r *rig) {
	f := Failure{Status: http.StatusTooManyRequests, Code: "rate_limit_error", Message: "slow down"}
	both(t, r, func() answer { return r.fail(f, "Retry-After", "7") }, func(t *testing.T, e *llm.Error) {
		if e.Status != f.Status || !e.Temporary() || e.RetryAfter != 7*time.Second || !strings.Contains(e.Error(), f.Message) {
			t.Errorf("the error is %v (status %d, temporary %v, retry after %v), want 429, temporary, after 7s", e, e.Status, e.Temporary(), e.RetryAfter)
		}
	})
}

// testRateLimitedWithoutWait checks that a model invents no wait.
func testRateLimitedWithoutWait(t *testing.T, r *rig) {
	f := Failure{Status: http.StatusTooManyRequests, Code: "rate_limit_error", Message: "slow down"}
	both(t, r, func() answer { return r.fail(f) }, func(t *testing.T, e *llm.Error) {
		if e.Status != f.Status || !e.Temporary() || e.RetryAfter != 0 {
			t.Errorf("the error is %v (status %d, temporary %v, retry after %v), want 429, temporary, without a wait", e, e.Status, e.Temporary(), e.RetryAfter)
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
		if host := strings.TrimPrefix(other.URL, "http://"); !strings.Contains(e.Error(), host) {
			t.Errorf("the error is %v, want one that names %s", e, host)
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

// testIdleConnection checks that a call succeeds if the server closes an idle
// connection at the moment when the model uses it.
func testIdleConnection(t *testing.T, r *rig) {
	reply := r.reply(Reply{Text: []string{"Hello"}, Stop: llm.StopEnd, Usage: usage})
	used := ""
	answer := func(w http.ResponseWriter, req *http.Request, got Received) {
		if req.RemoteAddr == used {
			r.will(reply)
			panic(http.ErrAbortHandler) // closes the connection
		}
		used = req.RemoteAddr
		reply(w, req, got)
	}
	whole := llm.With(r.model, llm.NoStream())
	for _, model := range []llm.Model{whole, r.model} {
		for _, m := range []llm.Model{whole, model} {
			r.will(answer)
			if got, err := llm.Generate(t.Context(), m, llm.User("Hi")); err != nil || got.Text() != "Hello" {
				t.Fatalf("the answer is %q, %v", got.Text(), err)
			}
		}
	}
}

// testCutAtEveryByte checks that a truncated stream is an error or, if only its end
// is missing, the whole response.
func testCutAtEveryByte(t *testing.T, r *rig) {
	reply := Reply{Text: []string{"one ", "two"}, Stop: llm.StopEnd, Usage: usage}
	body := bytes.Join(r.p.Stream(reply), nil)
	for n := range body {
		r.will(func(w http.ResponseWriter, _ *http.Request, _ Received) {
			r.startStream(w)
			write(w, body[:n])
		})
		m, err := llm.Generate(t.Context(), r.model, llm.User("Count"))
		if err == nil {
			if m.Text() != "one two" || m.Stop != llm.StopEnd {
				t.Fatalf("cut after %d of %d bytes, the answer is %q (%s), want an error:\n%s", n, len(body), m.Text(), m.Stop, body[:n])
			}
			continue
		}
		if e := providerError(t, r, err); !e.Temporary() || m.Stop != "" {
			t.Fatalf("cut after %d of %d bytes, the error is %v (temporary %v) and the answer stopped for %q; want a temporary error", n, len(body), e, e.Temporary(), m.Stop)
		}
	}
}

// testUnknownEvents checks that events that do not exist yet change nothing, and that
// the model logs a warning for the first of each type, to slog's default logger.
func testUnknownEvents(t *testing.T, r *rig) {
	if r.p.Unknown == nil {
		t.Fatal("Provider.Unknown is nil: set it, or Lacks gives the reason")
	}
	warnings := captureWarnings(t)
	r.model = r.p.Open(t, r.url) // with the new default logger
	r.will(r.reply(Reply{Reasoning: []string{"Hm."}, Text: []string{"Hello"}, Stop: llm.StopEnd, Usage: usage}))
	must(t)(llm.Generate(t.Context(), r.model, llm.User("Hi")))
	if n := warnings.n.Load(); n != 0 {
		t.Errorf("the model logged %d warnings about a stream without unknown events", n)
	}
	for range 2 {
		streamUnknown(t, r)
	}
	if n := warnings.n.Load(); n != 1 && r.p.Lacks[unknownEventLog] == "" {
		t.Errorf("the model logged %d warnings about the unknown events of two streams, want 1", n)
	}
}

// warnings counts log records.
type warnings struct {
	slog.Handler
	n atomic.Int32
}

// Enabled implements [slog.Handler].
func (*warnings) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements [slog.Handler].
func (w *warnings) Handle(_ context.Context, rec slog.Record) error {
	if rec.Level >= slog.LevelWarn {
		w.n.Add(1)
	}
	return nil
}

// captureWarnings makes a counter the default logger until the test ends.
func captureWarnings(t *testing.T) *warnings {
	logger, out, flags := slog.Default(), log.Writer(), log.Flags()
	w := &warnings{Handler: slog.DiscardHandler}
	slog.SetDefault(slog.New(w))
	t.Cleanup(func() {
		slog.SetDefault(logger)
		log.SetOutput(out) // slog.SetDefault redirected it
		log.SetFlags(flags)
	})
	return w
}

func streamUnknown(t *testing.T, r *rig) {
	t.Helper()
	reply := Reply{Reasoning: []string{"Owls", " fly."}, Text: []string{"They", " do."}, Calls: twoCalls, Stop: llm.StopTools, Usage: usage}
	r.will(func(w http.ResponseWriter, _ *http.Request, _ Received) {
		r.startStream(w)
		for _, piece := range r.p.Stream(reply) {
			write(w, r.p.Unknown)
			write(w, piece)
		}
	})
	m := must(t)(llm.Generate(t.Context(), llm.With(r.model, llm.Tools(weather(), clock())), llm.User("Do owls fly?")))
	wantCalls(t, m, twoCalls...)
	if m.Reasoning() != "Owls fly." || m.Text() != "They do." {
		t.Errorf("the answer thinks %q and says %q", m.Reasoning(), m.Text())
	}
}

// testHTML checks that a page with a success status is an error, as from a proxy or
// after a mistake in the address.
func testHTML(t *testing.T, r *rig) {
	both(t, r, func() answer {
		return func(w http.ResponseWriter, _ *http.Request, _ Received) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			write(w, []byte("<!DOCTYPE html>\n<html><body>Please log in.</body></html>\n"))
		}
	}, func(t *testing.T, e *llm.Error) {
		if e.Error() == "" {
			t.Error("the error says nothing")
		}
	})
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

// untilText streams a response of which only the start arrives. At its first text, it
// calls then with the time, and leaves the loop if then returns false. It returns the
// error that ended the call. If no text arrives within d, it cancels the call and
// returns an error that names the case or part that the provider may lack: a model
// that waits for the whole response would wait forever.
func (r *rig) untilText(ctx context.Context, cancel func(), d time.Duration, lacks string, then func(at time.Time) bool) error {
	var last error
	arrived, timer := false, time.AfterFunc(d, cancel)
	defer timer.Stop()
	for chunk, err := range llm.Stream(ctx, r.model, llm.User("Count")) {
		last = err
		if err == nil && chunk.Text() != "" && !arrived {
			arrived = timer.Stop()
			if arrived && !then(time.Now()) {
				return nil
			}
		}
	}
	if !arrived {
		return fmt.Errorf("no text arrived within %v of a response whose start was sent: list %s in Lacks if the API does not stream; the call ended with %w", d, lacks, last)
	}
	return last
}

// testCancellation checks that a canceled call closes its connection and yields the
// context's error, and that a canceled context sends no request.
func testCancellation(t *testing.T, r *rig) {
	if _, lacks := r.p.Lacks[streamCancellation]; !lacks {
		testStreamCancellation(t, r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := llm.Generate(ctx, r.model, llm.User("Count")); !errors.Is(err, context.Canceled) {
		t.Errorf("with a canceled context the error is %v, want context.Canceled", err)
	}

	// The same before the provider has sent anything, and for whole responses.
	gone := make(chan time.Time, 1)
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
			t.Errorf("the canceled call ended with %v, want context.Canceled", err)
		}
		if took := within(t, patience, "the connection's end", gone).Sub(at); took > closeWithin {
			t.Errorf("the connection was open for %v after the cancel, want at most %v", took, closeWithin)
		}
	}
}

// testStreamCancellation checks the same within a stream.
func testStreamCancellation(t *testing.T, r *rig) {
	gone := make(chan time.Time, 1)
	r.will(r.hang(gone))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var at time.Time
	err := r.untilText(ctx, cancel, patience, streamCancellation, func(now time.Time) bool {
		at = now
		cancel()
		return true
	})
	if at.IsZero() {
		t.Fatal(err)
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the canceled call ended with %v, want context.Canceled", err)
	}
	if took := within(t, patience, "the connection's end", gone).Sub(at); took > closeWithin {
		t.Errorf("the connection was open for %v after the cancel, want at most %v", took, closeWithin)
	}
}

// testLeavingTheLoop checks that leaving the loop closes the connection.
func testLeavingTheLoop(t *testing.T, r *rig) {
	gone := make(chan time.Time, 1)
	r.will(r.hang(gone))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var at time.Time
	err := r.untilText(ctx, cancel, patience, "LeavingTheLoop", func(now time.Time) bool {
		at = now
		return false
	})
	if at.IsZero() {
		t.Fatal(err)
	}
	if took := within(t, patience, "the connection's end", gone).Sub(at); took > closeWithin {
		t.Errorf("the connection was open for %v after the loop, want at most %v", took, closeWithin)
	}
}
