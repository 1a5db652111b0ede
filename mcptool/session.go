package mcptool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/treadle-go/treadle/internal/origin"
)

// opening is the time limit for a server to become ready.
const opening = 30 * time.Second

// session is a session with one server, which may use several connections in succession.
type session struct {
	Server
	client *mcp.Client
	http   *http.Client
	// life ends with close and cancels the active calls.
	life      context.Context
	end       context.CancelCauseFunc
	progress  watchers
	questions listener

	mu     sync.Mutex // guards closed, and ensures that nothing starts after it is set
	closed bool
	busy   sync.WaitGroup // requests, and goroutines that wait for connections to close

	// turn is held while current changes. It is a channel so that a caller can stop waiting for
	// a server to start.
	turn    chan struct{}
	current *link
}

// link is one connection to the server.
type link struct {
	*mcp.ClientSession
	program *process      // nil for an HTTP server
	done    chan struct{} // closed when the connection has ended
}

func newSession(s Server) *session {
	out := &session{Server: s, turn: make(chan struct{}, 1)}
	out.life, out.end = context.WithCancelCause(context.Background())
	out.questions.life, out.questions.turn, out.questions.current = out.life, make(chan struct{}, 1), make(chan *exchange)
	opts := &mcp.ClientOptions{}
	if s.Configure != nil {
		s.Configure(opts)
	}
	if opts.Capabilities == nil {
		opts.Capabilities = &mcp.ClientCapabilities{}
	}
	// Only what the program allows.
	opts.Capabilities.Elicitation, opts.Capabilities.Sampling, opts.Capabilities.RootsV2 = nil, nil, nil
	opts.ElicitationHandler, opts.CreateMessageHandler, opts.CreateMessageWithToolsHandler = nil, nil, nil
	opts.ProgressNotificationHandler = func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
		out.progress.tell(r.Params, shorten(out.show(plain(r.Params.Message)), maxProgressMessage))
	}
	opts.MultiRoundTrip = &mcp.MultiRoundTripOptions{Disabled: true} // see talk
	if s.Elicit {
		opts.Capabilities.Elicitation = &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{}}
		opts.ElicitationHandler = out.questions.elicit
	}
	if s.Sampling != nil {
		opts.Capabilities.Sampling = &mcp.SamplingCapabilities{}
		opts.CreateMessageWithToolsHandler = out.questions.sample
	}
	if len(s.Roots) > 0 {
		opts.Capabilities.RootsV2 = &mcp.RootCapabilities{}
	}
	out.client = mcp.NewClient(&mcp.Implementation{Name: "treadle", Version: "v1"}, opts)
	out.client.AddRoots(out.roots()...)
	out.http = out.Server.HTTP
	if out.http == nil {
		// Use a separate transport, so that close can close its connections.
		out.http = &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}
	}
	out.http = origin.Only(out.http, s.URL) // requests contain the headers and the model's arguments
	base := out.http.Transport
	if base == nil {
		base = http.DefaultTransport
	}
	out.http.Transport = &guarded{base, s.Header, origin.Of(s.URL), out.busy.Go}
	return out
}

// open returns the current connection, or a new one if that has ended. The caller must have
// called begin, so that close waits for it.
func (s *session) open(ctx context.Context) (*link, error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, s.errorf("%w", s.reason(ctx))
	}
	defer func() { <-s.turn }()
	if s.current != nil && !s.current.over() {
		return s.current, nil
	}
	ctx, stop := context.WithTimeoutCause(ctx, opening, fmt.Errorf("not ready within %v", opening))
	defer stop()
	l, err := s.dial(ctx)
	if err != nil {
		return nil, err
	}
	s.current = l
	s.busy.Go(func() {
		_ = l.Wait() // an active call reports the reason
		_ = l.Close()
		close(l.done)
	})
	return l, nil
}

// bound returns a context that ends with ctx or close.
func (s *session) bound(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.life, func() { cancel(ErrClosed) })
	return ctx, func() { stop(); cancel(nil) }
}

func (s *session) dial(ctx context.Context) (*link, error) {
	l := &link{done: make(chan struct{})}
	var transport mcp.Transport
	if s.URL != "" {
		transport = &mcp.StreamableClientTransport{Endpoint: s.URL, HTTPClient: s.http, OAuthHandler: s.OAuth, MaxEventSize: mcp.DefaultMaxLineLength}
	} else {
		p, err := start(s.Server)
		if err != nil {
			return nil, s.errorf("%w: start %s: %w", ErrNoResponse, s.Command[0], err)
		}
		l.program = p
		transport = &mcp.IOTransport{Reader: p, Writer: nopWriteCloser{p}}
		// Do not wait for the program to end after ctx is done.
		defer context.AfterFunc(ctx, p.kill)()
	}
	var err error
	l.ClientSession, err = s.client.Connect(ctx, transport, nil)
	if err == nil {
		return l, nil
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if l.program == nil {
		return nil, s.errorf("%w: connect to %s: %w", ErrNoResponse, origin.Of(s.URL), err)
	}
	_ = l.program.Close() // fate describes the result
	return nil, s.errorf("%w: start %s: %w (%s)", ErrNoResponse, s.Command[0], err, l.program.fate())
}

func (l *link) over() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// do sends a request to the server. A request that certainly did not reach the server is
// retried once with a new connection.
func (s *session) do(ctx context.Context, request func(context.Context, *mcp.ClientSession) error) error {
	if !s.begin() {
		return s.errorf("%w", ErrClosed)
	}
	defer s.busy.Done()
	ctx, cancel := s.bound(ctx)
	defer cancel()
	for again := false; ; again = true {
		l, err := s.open(ctx)
		if err != nil {
			return err
		}
		err = request(ctx, l.ClientSession)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return s.errorf("%w", s.reason(ctx))
		case answered(err):
			return s.errorf("%w", err)
		}
		unsent := errors.Is(err, mcp.ErrConnectionClosed) || errors.Is(err, mcp.ErrSessionMissing)
		if unsent || l.program != nil && errors.Is(err, io.EOF) {
			err = s.lost(ctx, l, err)
		}
		if !unsent || again || ctx.Err() != nil {
			return s.errorf("%w: %w", ErrNoResponse, err)
		}
	}
}

// within is like do, but limits the time.
func (s *session) within(ctx context.Context, request func(context.Context, *mcp.ClientSession) error) error {
	if s.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.Timeout)
		defer cancel()
	}
	return s.do(ctx, request)
}

// reason returns the reason why a request's context ended.
func (s *session) reason(ctx context.Context) error {
	if s.life.Err() != nil {
		return ErrClosed
	}
	return ctx.Err()
}

func (s *session) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.busy.Add(1)
	}
	return !s.closed
}

// lost waits for the end of a broken connection to learn its reason.
func (s *session) lost(ctx context.Context, l *link, err error) error {
	s.busy.Go(func() { _ = l.Close() })
	select {
	case <-l.done:
	case <-ctx.Done():
		return s.reason(ctx)
	}
	if l.program != nil {
		return fmt.Errorf("%w (%s)", err, l.program.fate())
	}
	return err
}

// answered reports whether err is an error response from the server rather than a failure to
// reach it.
func answered(err error) bool {
	refusal, ok := errors.AsType[*jsonrpc.Error](err)
	const rejectedByTransport = -32005 // from the SDK itself
	return ok && refusal.Code != rejectedByTransport
}

func (s *session) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end(ErrClosed)
	s.turn <- struct{}{} // a caller that opens a connection has been canceled
	l := s.current
	<-s.turn
	if l != nil {
		_ = l.Close() // the error only repeats that the connection has ended
		<-l.done
	}
	s.busy.Wait()
	if s.Server.HTTP == nil {
		s.http.CloseIdleConnections()
	}
}

func (s *session) errorf(format string, args ...any) error {
	return s.clean(fmt.Errorf("mcptool: server %q: "+format, append([]any{s.Name}, args...)...))
}

// guarded adds headers to requests to the server and limits the size of its responses.
type guarded struct {
	base   http.RoundTripper
	header http.Header
	home   string
	spawn  func(func()) // starts a goroutine that the session waits for
}

// RoundTrip implements [http.RoundTripper].
func (g *guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	if len(g.header) > 0 && origin.Of(r.URL.String()) == g.home {
		r = r.Clone(r.Context())
		for name, values := range g.header {
			r.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	if r.Method == http.MethodGet && r.Header.Get("Last-Event-Id") == "" {
		return g.listen(r), nil // other GET requests resume the stream of a call
	}
	resp, err := g.base.RoundTrip(r)
	// The SDK reads whole responses, except for streams, where it limits each event.
	if err == nil && !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		resp.Body = &limitedBody{resp.Body, mcp.DefaultMaxLineLength}
	}
	return resp, err
}

// limitedBody fails if a body exceeds its limit.
type limitedBody struct {
	io.ReadCloser
	left int
}

func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.left -= n
	if b.left < 0 {
		return 0, fmt.Errorf("response exceeds %d bytes", mcp.DefaultMaxLineLength)
	}
	return n, err
}

// CloseIdleConnections is called by http.Client.
func (g *guarded) CloseIdleConnections() {
	if c, ok := g.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
