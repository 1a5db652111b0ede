package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/internal/delay"
	"github.com/treadle-go/treadle/internal/observe"
	"github.com/treadle-go/treadle/internal/origin"
)

// Options configures a client. A nil *Options means the defaults, as does the zero
// value.
type Options struct {
	// APIKey is sent as the x-api-key header. It is not read from the environment, so
	// that a key is never sent to the wrong server.
	APIKey string
	// Header contains additional headers for all requests, such as Authorization.
	Header http.Header
	// HTTPClient sends the requests; nil means [http.DefaultClient]. It should not set
	// a Timeout, which would also end streams. Redirects to other hosts are rejected.
	HTTPClient *http.Client
	// Retry configures how often a request is sent if the connection breaks or the
	// server is unavailable, and how often a stream is resumed without receiving a new
	// event. By default, there are 6 attempts, with waits of 200ms to 5s plus up to a
	// second of jitter.
	Retry treadle.RetryPolicy
	// Silence is the timeout for a connection on which the server sends nothing; 0
	// means one minute. Servers send a heartbeat every few seconds during a run.
	Silence time.Duration
	// MaxResponse limits the size of a response and of an event, in bytes; 0 means 256
	// MiB.
	MaxResponse int
}

// A Client calls a server. It is safe for concurrent use.
type Client struct {
	Assistants Assistants
	Threads    Threads
	Runs       Runs
	Crons      Crons
	Store      Store

	base    string
	http    *http.Client
	header  http.Header
	retry   treadle.RetryPolicy
	silence time.Duration
	limit   int

	mu      sync.Mutex
	keysFor *bool // whether the server supports Idempotency-Key; nil until checked
}

const (
	defaultSilence     = time.Minute
	defaultMaxResponse = 256 << 20
)

// New returns a client for the server at address, such as "http://127.0.0.1:2024".
// The address may include the path under which the server is mounted. New does not
// connect.
func New(address string, opts *Options) (*Client, error) {
	if opts == nil {
		opts = &Options{}
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, fmt.Errorf("client: invalid address %q: want the form https://host/path", redacted(u, address))
	}
	if opts.Silence < 0 {
		return nil, fmt.Errorf("client: invalid Options.Silence %v: want more than 0, or 0 for %v", opts.Silence, defaultSilence)
	}
	if opts.MaxResponse < 0 {
		return nil, fmt.Errorf("client: invalid Options.MaxResponse %d: want 1 or more, or 0 for %d", opts.MaxResponse, defaultMaxResponse)
	}
	c := &Client{base: strings.TrimRight(u.String(), "/"), http: origin.Only(opts.HTTPClient, address), retry: opts.Retry,
		silence: cmp.Or(opts.Silence, defaultSilence), limit: cmp.Or(opts.MaxResponse, defaultMaxResponse), header: http.Header{}}
	c.retry.Initial = cmp.Or(c.retry.Initial, 200*time.Millisecond)
	c.retry.Max = cmp.Or(c.retry.Max, 5*time.Second)
	c.retry.Attempts = cmp.Or(c.retry.Attempts, 6)
	c.header.Set("User-Agent", "treadle")
	if opts.APIKey != "" {
		c.header.Set("X-Api-Key", opts.APIKey)
	}
	for name, values := range opts.Header {
		c.header[http.CanonicalHeaderKey(name)] = values
	}
	c.Assistants = Assistants{c}
	c.Threads = Threads{c}
	c.Runs = Runs{c}
	c.Crons = Crons{c}
	c.Store = Store{c}
	return c, nil
}

// redacted returns an address without its password.
func redacted(u *url.URL, address string) string {
	if u == nil || u.User == nil {
		return address
	}
	return u.Redacted()
}

// request is a request that may be sent more than once.
type request struct {
	method, path string
	query        url.Values
	body         any // nil for none
	key          string
	lastEventID  string
	stream       bool // the response is an event stream
	// repeatable means that sending the request again is safe if the outcome of the
	// first attempt is unknown.
	repeatable bool
	once       bool        // do not retry: the caller wants the server's current status
	alive      func()      // called when bytes arrive; may be nil
	got        http.Header // response headers
}

// get returns a request that reads.
func get(path string, query url.Values) *request {
	return &request{method: http.MethodGet, path: path, query: query, repeatable: true}
}

// read returns a POST request that reads or is idempotent.
func read(path string, body any) *request {
	return &request{method: http.MethodPost, path: path, body: body, repeatable: true}
}

// write returns a POST request that creates something.
func write(path string, body any) *request {
	return &request{method: http.MethodPost, path: path, body: body}
}

// remove returns a request that deletes.
func remove(path string, query url.Values) *request {
	return &request{method: http.MethodDelete, path: path, query: query, repeatable: true}
}

// pathOf joins the parts of a path, escaping them, because an ID may contain any
// characters.
func pathOf(parts ...string) string {
	var b strings.Builder
	for _, part := range parts {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(part))
	}
	return b.String()
}

// checkPath returns an error if an ID in the path would change the path.
func checkPath(path string) error {
	for part := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if part == "" || part == "." || part == ".." {
			return fmt.Errorf("client: path %s: ID is empty, \".\", or \"..\"", path)
		}
	}
	return nil
}

// Call sends a request for which this package has no method, such as one to a custom
// route of a server. The body is sent as JSON unless it is nil, and the response is
// decoded into answer unless that is nil. Only GET requests are retried.
func (c *Client) Call(ctx context.Context, method, path string, body, answer any) error {
	path, query, _ := strings.Cut(path, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return fmt.Errorf("client: %s %s: query: %w", method, path, err)
	}
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return c.call(ctx, &request{method: method, path: path, query: values, body: body, repeatable: method == http.MethodGet}, answer)
}

// call sends a request and decodes the response.
func (c *Client) call(ctx context.Context, r *request, answer any) error {
	raw, err := c.fetch(ctx, r)
	if err != nil || answer == nil {
		return err
	}
	return r.decode(raw, answer)
}

// object sends a request and returns the response as a T.
func object[T any](ctx context.Context, c *Client, r *request) (*T, error) {
	out := new(T)
	if err := c.call(ctx, r, out); err != nil {
		return nil, err
	}
	return out, nil
}

// list sends a request and returns the response, a list.
func list[T any](ctx context.Context, c *Client, r *request) ([]T, error) {
	var out []T
	err := c.call(ctx, r, &out)
	return out, err
}

func (r *request) decode(raw []byte, answer any) error {
	if len(bytes.TrimSpace(raw)) == 0 {
		return fmt.Errorf("client: %s %s: empty response", r.method, r.path)
	}
	if err := json.Unmarshal(raw, answer); err != nil {
		return fmt.Errorf("client: %s %s: response not from a LangGraph server: %w: %s", r.method, r.path, err, abridged(raw))
	}
	return nil
}

// fetch sends a request and reads the whole response.
func (c *Client) fetch(ctx context.Context, r *request) (raw []byte, err error) {
	err = c.try(ctx, r, func() error {
		body, err := c.open(ctx, r)
		if err != nil {
			return err
		}
		defer body.close()
		raw, err = c.all(r, body)
		return err
	})
	return raw, err
}

// all reads a whole response.
func (c *Client) all(r *request, body *answer) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(body, int64(c.limit)+1))
	if err != nil {
		return nil, &lostError{err}
	}
	if len(raw) > c.limit {
		return nil, fmt.Errorf("client: %s %s: response exceeds %d bytes: see Options.MaxResponse", r.method, r.path, c.limit)
	}
	return raw, nil
}

// try calls do until it succeeds, fails permanently, or has used all attempts.
func (c *Client) try(ctx context.Context, r *request, do func() error) error {
	var failed error // the failure of the last attempt before ctx ended
	for attempt := 1; ; attempt++ {
		err := do()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			if failed == nil || !echoes(ctx, err) {
				failed = err
			}
			return r.ended(ctx, failed)
		}
		failed = err
		pause, more := c.retry.Wait(attempt)
		if !more || r.once || !c.worth(ctx, r, err) {
			return named(r, err)
		}
		if e, ok := errors.AsType[*Error](err); ok {
			pause = max(pause, min(e.RetryAfter, time.Minute))
		}
		if delay.For(ctx, pause) != nil {
			return r.ended(ctx, err)
		}
	}
}

// ended returns the error of a request whose context is done. It includes err, the
// failure that the request was retried for, because the end of ctx alone does not
// distinguish a slow server from a missing one.
func (r *request) ended(ctx context.Context, err error) error {
	if err == nil || echoes(ctx, err) {
		return fmt.Errorf("client: %s %s: %w", r.method, r.path, context.Cause(ctx))
	}
	return fmt.Errorf("client: %s %s: %w: %w", r.method, r.path, context.Cause(ctx), err)
}

// echoes reports whether err only repeats that ctx is done.
func echoes(ctx context.Context, err error) bool {
	return errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))
}

// named adds the request to an error that does not name it.
func named(r *request, err error) error {
	if strings.HasPrefix(err.Error(), "client: ") {
		return err
	}
	return fmt.Errorf("client: %s %s: %w", r.method, r.path, err)
}

// worth reports whether a failed request should be retried.
func (c *Client) worth(ctx context.Context, r *request, err error) bool {
	if unsent(err) {
		return true
	}
	if !c.retry.Retryable(err) {
		return false
	}
	return r.repeatable || r.key != "" && c.honorsKeys(ctx)
}

// unsent reports whether err belongs to a request that the server has not started to
// process.
func unsent(err error) bool {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Status == http.StatusTooManyRequests
	}
	e, ok := errors.AsType[*net.OpError](err)
	return ok && e.Op == "dial"
}

// honorsKeys reports whether the server creates only one run for two requests with the
// same Idempotency-Key, as package server does.
func (c *Client) honorsKeys(ctx context.Context) bool {
	c.mu.Lock()
	known := c.keysFor
	c.mu.Unlock()
	if known != nil {
		return *known
	}
	info, err := c.Info(ctx)
	if err != nil {
		return false
	}
	honors := info.Context == "treadle"
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keysFor = &honors
	return honors
}

// answer is the body of a response. It closes the connection if the server is silent
// for too long.
type answer struct {
	io.ReadCloser
	header http.Header
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	after  time.Duration
	alive  func()
}

// Read implements [io.Reader].
func (a *answer) Read(p []byte) (int, error) {
	a.timer.Reset(a.after)
	n, err := a.ReadCloser.Read(p)
	a.timer.Stop() // the caller may take its time
	if n > 0 && a.alive != nil {
		a.alive()
	}
	if silent, ok := errors.AsType[*silentError](context.Cause(a.ctx)); ok && err != nil {
		err = silent
	}
	return n, err
}

// close closes the connection if the response has not been fully read.
func (a *answer) close() {
	a.timer.Stop()
	_ = a.ReadCloser.Close()
	a.cancel(nil)
}

// open sends a request once and returns the body of a successful response.
func (c *Client) open(ctx context.Context, r *request) (*answer, error) {
	if err := checkPath(r.path); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	req, err := c.build(ctx, r)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	a := &answer{ctx: ctx, cancel: cancel, after: c.silence, alive: r.alive}
	a.timer = time.AfterFunc(c.silence, func() { cancel(&silentError{c.silence}) })
	resp, err := c.http.Do(req) //nolint:bodyclose // answer.close
	if err != nil {
		a.timer.Stop()
		cause := context.Cause(ctx)
		cancel(nil)
		if silent, ok := errors.AsType[*silentError](cause); ok {
			return nil, silent
		}
		return nil, bare(err)
	}
	a.timer.Stop()
	a.ReadCloser, a.header = resp.Body, resp.Header
	if resp.StatusCode >= 300 {
		defer a.close()
		return nil, refusal(r, resp, a)
	}
	if kind := resp.Header.Get("Content-Type"); r.stream && !strings.HasPrefix(kind, "text/event-stream") {
		defer a.close()
		head, _ := io.ReadAll(io.LimitReader(a, 4*maxShown))
		return nil, fmt.Errorf("client: %s %s: response is %q, not an event stream, so not from a LangGraph server: %s", r.method, r.path, kind, abridged(head))
	}
	r.got = resp.Header
	return a, nil
}

// bare returns an error of package http without the method and the address, which may
// contain a password.
func bare(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	// Package http does not export the error for a connection closed before its reuse.
	if errors.Is(err, io.EOF) || strings.Contains(err.Error(), "server closed idle connection") {
		return &lostError{err}
	}
	return err
}

func (c *Client) build(ctx context.Context, r *request) (*http.Request, error) {
	var body io.Reader
	if r.body != nil {
		raw, err := json.Marshal(r.body)
		if err != nil {
			return nil, fmt.Errorf("client: %s %s: encode request: %w", r.method, r.path, err)
		}
		body = bytes.NewReader(raw)
	}
	address := c.base + r.path
	if len(r.query) > 0 {
		address += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, address, body)
	if err != nil {
		return nil, fmt.Errorf("client: %s %s: %w", r.method, r.path, bare(err))
	}
	req.Header = c.header.Clone()
	req.Header.Set("Accept", "application/json")
	if r.stream {
		req.Header.Set("Accept", "text/event-stream")
		req.Header.Set("Cache-Control", "no-store")
	}
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.key != "" {
		// Under its canonical name, package http would retry the request by itself,
		// even if the server does not support the header.
		req.Header["idempotency-key"] = []string{r.key}
	}
	if r.lastEventID != "" {
		req.Header.Set("Last-Event-Id", r.lastEventID)
	}
	if t := observe.TracerOf(ctx); t != nil {
		for name, value := range t.Inject(ctx) {
			req.Header.Set(name, value)
		}
	}
	return req, nil
}

// refusal returns the error for an unsuccessful response.
func refusal(r *request, resp *http.Response, body io.Reader) error {
	raw, _ := io.ReadAll(io.LimitReader(body, 64<<10)) // the status is enough
	e := &Error{Method: r.method, Path: r.path, Status: resp.StatusCode, Detail: detailOf(raw)}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
		e.RetryAfter = time.Duration(min(seconds, 1<<20)) * time.Second
	}
	return e
}

// Info describes a server.
type Info struct {
	Version string         `json:"version"`
	Context string         `json:"context"` // "treadle", or "js" for LangGraph's JavaScript server
	Flags   map[string]any `json:"flags"`   // supported features, such as "crons"
}

// Info returns information about the server.
func (c *Client) Info(ctx context.Context) (*Info, error) {
	return object[Info](ctx, c, get("/info", nil))
}

// OK returns nil if the server is up and accepts requests. It does not retry.
func (c *Client) OK(ctx context.Context) error {
	r := get("/ok", nil)
	r.once = true
	var answer struct {
		OK bool `json:"ok"`
	}
	if err := c.call(ctx, r, &answer); err != nil {
		return err
	}
	if !answer.OK {
		return errors.New("client: GET /ok: server does not report ok")
	}
	return nil
}
