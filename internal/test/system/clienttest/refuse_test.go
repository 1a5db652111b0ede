package clienttest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/client"
	"github.com/treadle-go/treadle/internal/observe"
	"github.com/treadle-go/treadle/server"
)

func TestNewRejectsInvalidAddresses(t *testing.T) {
	for _, address := range []string{"", "127.0.0.1:2024", "ftp://host", "http://", "http://host?x=1", "http://host#x", "http://ann:secret@host", "http://[::1"} {
		_, err := client.New(address, nil)
		says(t, err, "https://host/path")
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%v", err)
		}
	}
}

// LangGraph's servers and Treadle send null, and older versions of Treadle sent 404.
func TestStoreGetReportsMissingItems(t *testing.T) {
	for name, address := range map[string]string{
		"null": answering(t, http.StatusOK, "application/json", "null"),
		"404":  answering(t, http.StatusNotFound, "application/json", `{"detail":"not found"}`),
	} {
		item, err := connect(t, address, nil).Store.Get(t.Context(), []string{"a"}, "k", nil)
		if item != nil || !errors.Is(err, client.ErrNotFound) {
			t.Errorf("%s: Get returned %v, %v; want an ErrNotFound", name, item, err)
		}
	}
}

// answering returns a server that always answers the same.
func answering(t testing.TB, status int, kind, body string) string {
	t.Helper()
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(hs.Close)
	return hs.URL
}

func TestResponsesOfOtherServers(t *testing.T) {
	const page = "<!doctype html><html><body>Welcome to our shop"
	run := &client.RunCreate{Assistant: "a"}
	c := connect(t, answering(t, http.StatusOK, "text/html", page), nil)
	_, err := c.Threads.Create(t.Context(), nil)
	says(t, err, "POST /threads", "not from a LangGraph server", "Welcome to our shop")
	_, err = c.Runs.Wait(t.Context(), "7", run)
	says(t, err, "/threads/7/runs/wait", "not from a LangGraph server")
	for _, err := range c.Runs.Stream(t.Context(), "7", run) {
		says(t, err, "not an event stream", "Welcome to our shop")
	}
	says(t, c.OK(t.Context()), "GET /ok")

	c = connect(t, answering(t, http.StatusNotFound, "text/html", page+strings.Repeat(" and more", 1000)), nil)
	_, err = c.Threads.Get(t.Context(), "7")
	fails(t, err, client.ErrNotFound)
	if len(err.Error()) > 400 {
		t.Errorf("error of %d bytes", len(err.Error()))
	}

	c = connect(t, answering(t, http.StatusOK, "application/json", ""), nil)
	_, err = c.Threads.Get(t.Context(), "7")
	says(t, err, "empty response")
	_, err = c.Runs.Join(t.Context(), "7", "8")
	says(t, err, "empty response")
	_, err = c.Runs.Wait(t.Context(), "7", run)
	says(t, err, "empty response")

	c = connect(t, answering(t, http.StatusOK, "application/json", `{"thread_id": 7}`), nil)
	_, err = c.Threads.Get(t.Context(), "7")
	says(t, err, "not from a LangGraph server", "thread_id")
}

func TestOversizedResponses(t *testing.T) {
	c := connect(t, answering(t, http.StatusOK, "application/json", `{"values":"`+strings.Repeat("x", 2000)+`"}`), &client.Options{MaxResponse: 1000})
	_, err := c.Threads.Get(t.Context(), "7")
	says(t, err, "exceeds 1000 bytes", "Options.MaxResponse")
	c = connect(t, answering(t, http.StatusOK, "text/event-stream", "event: values\ndata: "+strings.Repeat("x", 2000)+"\nid: 1\n\n"), &client.Options{MaxResponse: 1000})
	for _, err := range c.Runs.JoinStream(t.Context(), "7", "8", nil) {
		says(t, err, "exceeds 1000 bytes", "Options.MaxResponse")
	}
}

func TestIDsCannotChangePath(t *testing.T) {
	c := connect(t, "http://127.0.0.1:1", nil) // nothing listens there
	for _, err := range []error{
		c.Threads.Delete(t.Context(), ""), c.Threads.Delete(t.Context(), ".."), c.Runs.Delete(t.Context(), "7", ""), c.Crons.Delete(t.Context(), "."),
	} {
		says(t, err, "ID is empty")
	}
	_, err := c.Runs.Create(t.Context(), "7", nil)
	says(t, err, "RunCreate.Assistant is empty")
	_, err = c.Runs.Create(t.Context(), "7", &client.RunCreate{Assistant: "a", Input: func() {}})
	says(t, err, "encode request")
	seen := ""
	hs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = r.URL.EscapedPath() }))
	defer hs.Close()
	ok(t, connect(t, hs.URL+"/agents/", nil).Threads.Delete(t.Context(), "a/b?c"))
	if seen != "/agents/threads/a%2Fb%3Fc" {
		t.Error(seen)
	}
}

func TestInvalidCredentials(t *testing.T) {
	auth := &server.Auth{
		Authenticate: server.APIKeys(map[string]*server.User{"right": {Identity: "ann"}}),
		On: server.Rules{
			"threads": func(context.Context, *server.Access) (server.Decision, error) { return server.Allow(nil), nil },
		},
	}
	url := serve(t, &server.Options{Auth: auth}, counter(t))
	_, err := connect(t, url, &client.Options{APIKey: "right"}).Threads.Create(t.Context(), nil)
	ok(t, err)
	_, err = connect(t, url, &client.Options{Header: http.Header{"x-api-key": {"right"}}}).Threads.Create(t.Context(), nil)
	ok(t, err)
	_, err = connect(t, url, &client.Options{APIKey: "wrong"}).Threads.Create(t.Context(), nil)
	fails(t, err, client.ErrDenied)
	_, err = connect(t, url, nil).Threads.Create(t.Context(), nil)
	fails(t, err, client.ErrDenied)
	for _, err := range connect(t, url, nil).Runs.Stream(t.Context(), "7", &client.RunCreate{Assistant: "counter"}) {
		fails(t, err, client.ErrDenied)
	}
	_, err = connect(t, url, &client.Options{APIKey: "right"}).Assistants.Get(t.Context(), "counter") // no handler allows it
	fails(t, err, client.ErrDenied)
}

func TestRedirectDoesNotLeakCredentials(t *testing.T) {
	var leaked atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { leaked.Store(r.Header.Get("X-Api-Key") != "") }))
	defer other.Close()
	hs := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer hs.Close()
	_, err := connect(t, hs.URL, &client.Options{APIKey: "k"}).Info(t.Context())
	says(t, err, "redirect to "+other.URL)
	if leaked.Load() {
		t.Error("other host received the key")
	}
}

// If the server stops during a stream and does not return, the client's error names the
// request.
func TestClientAfterServerStops(t *testing.T) {
	g := newGate(t)
	p, c := broken(t, serve(t, nil, g), nil)
	thread, err := c.Threads.Create(t.Context(), nil)
	must(t, thread, err)
	var last error
	for ev, err := range c.Runs.Stream(t.Context(), thread.ID, &client.RunCreate{Assistant: "gate", Input: passed{}}) {
		last = err
		if ev.Mode == "values" {
			p.Cut()
		}
	}
	says(t, last, "client: GET /threads/"+thread.ID+"/runs/")
	if !treadle.Transient(last) {
		t.Errorf("%v is not transient", last)
	}
	says(t, c.OK(t.Context()), "client: GET /ok")
	close(g.open)
}

// script answers requests in turn, without a network.
type script struct {
	answers []reply
	made    []time.Time
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
	s.made = append(s.made, time.Now())
	next := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	if next.err != nil {
		return nil, next.err
	}
	if next.header == nil {
		next.header = http.Header{"Content-Type": {"application/json"}}
	}
	return &http.Response{StatusCode: next.status, Header: next.header, Body: io.NopCloser(strings.NewReader(next.body))}, nil
}

// reply is a response, or the reason for its absence.
type reply struct {
	status int
	body   string
	header http.Header
	err    error
}

func says200(body string) reply { return reply{status: 200, body: body} }

func TestRequestsAreRepeated(t *testing.T) {
	down := reply{status: 503, body: `{"detail":"the database does not answer"}`}
	reset := reply{err: io.EOF}
	busy := reply{status: 429, body: `{"detail":"slow down"}`, header: http.Header{"Retry-After": {"30"}}}
	for _, test := range []struct {
		name    string
		answers []reply
		call    func(context.Context, *client.Client) error
		made    int
		took    time.Duration
		fails   string
	}{
		{"a read", []reply{down, reset, says200(`{}`)}, getThread, 3, 600 * time.Millisecond, ""},
		{"a read for too long", []reply{down}, getThread, 6, 6200 * time.Millisecond, "503 Service Unavailable: the database"},
		{"a refusal", []reply{{status: 422, body: `{"detail":"no"}`}}, getThread, 1, 0, "422 Unprocessable Entity: no"},
		{"a write", []reply{reset}, batch, 1, 0, "EOF"},
		{"a write that the server puts off", []reply{busy, says200(`[]`)}, batch, 2, 30 * time.Second, ""},
		{"a thread with a new id", []reply{reset, says200(`{}`)}, newThread, 2, 200 * time.Millisecond, ""},
		{"a health check", []reply{down}, func(ctx context.Context, c *client.Client) error { return c.OK(ctx) }, 1, 0, "503"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: test.answers}
				c, err := client.New("http://host", &client.Options{HTTPClient: &http.Client{Transport: s}, Retry: treadle.RetryPolicy{NoJitter: true}})
				must(t, c, err)
				start := time.Now()
				err = test.call(t.Context(), c)
				if test.fails == "" {
					ok(t, err)
				} else {
					says(t, err, test.fails)
				}
				if got := time.Since(start); len(s.made) != test.made || got != test.took {
					t.Errorf("%d requests in %s, want %d in %s", len(s.made), got, test.made, test.took)
				}
			})
		})
	}
}

func getThread(ctx context.Context, c *client.Client) error {
	_, err := c.Threads.Get(ctx, "7")
	return err
}

func newThread(ctx context.Context, c *client.Client) error {
	_, err := c.Threads.Create(ctx, nil)
	return err
}

func batch(ctx context.Context, c *client.Client) error {
	_, err := c.Runs.Batch(ctx, []client.RunCreate{{Assistant: "a"}})
	return err
}

func TestRetriesEndWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: []reply{{status: 503}}}
		c, err := client.New("http://host", &client.Options{HTTPClient: &http.Client{Transport: s}})
		must(t, c, err)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		fails(t, getThread(ctx, c), context.DeadlineExceeded)
		if len(s.made) != 1 {
			t.Errorf("%d requests", len(s.made))
		}
	})
}

func TestErrorsContainServerMessage(t *testing.T) {
	for body, want := range map[string]string{
		`{"detail":"no such thing"}`:             "no such thing",
		`{"message":"no such thing"}`:            "no such thing",
		`{"error":{"issues":[1]}}`:               `{"issues":[1]}`,
		`{"success":false,"error":"bad"}`:        "bad",
		`Thread already exists`:                  "Thread already exists",
		"<html>\n<body>\n  gone</body></html>\n": "<html> <body> gone</body></html>",
		``:                                       "",
	} {
		c := connect(t, answering(t, http.StatusConflict, "text/plain", body), nil)
		_, err := c.Threads.Get(t.Context(), "7")
		got, is := errors.AsType[*client.Error](err)
		if !is || got.Detail != want || got.Status != 409 || got.StatusCode() != 409 || !errors.Is(err, client.ErrConflict) || errors.Is(err, client.ErrNotFound) {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestErrorEventsOfAllServers(t *testing.T) {
	for data, want := range map[string]string{
		`{"error":"ValueError","message":"m"}`: "client: run 8 failed: ValueError: m",
		`"Run not found"`:                      "client: run 8 failed: Run not found",
		`{"__error__":{"error":"HTTPException","message":"404: not there"}}`: "client: run 8 failed: HTTPException: 404: not there",
		`[1]`: "client: run 8 failed: [1]",
	} {
		c := connect(t, answering(t, http.StatusOK, "text/event-stream", fmt.Sprintf("event: error\r\ndata: %s\r\n\r\n", data)), nil)
		for _, err := range c.Runs.JoinStream(t.Context(), "7", "8", nil) {
			if err == nil || err.Error() != want {
				t.Errorf("%v, want %s", err, want)
			}
			if strings.Contains(data, "404") {
				fails(t, err, client.ErrNotFound)
			}
		}
	}
}

// A traced program sends its place in the trace with each request.
func TestRequestsCarryTheTrace(t *testing.T) {
	var got string
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Traceparent")
		_, _ = io.WriteString(w, `{"ok":true}`)
	}))
	defer hs.Close()
	ctx := observe.WithTracer(t.Context(), &observe.Tracer{Inject: func(context.Context) map[string]string { return map[string]string{"traceparent": "00-1-2-01"} }})
	ok(t, connect(t, hs.URL, nil).OK(ctx))
	if got != "00-1-2-01" {
		t.Errorf("traceparent %q", got)
	}
}
