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

// opening is how long a server may take to get ready.
const opening = 30 * time.Second

// session is the conversation with one server, over as many connections as it
// takes.
type session struct {
	Server
	client *mcp.Client
	http   *http.Client
	// life ends with close, and with it the calls under way.
	life     context.Context
	end      context.CancelCauseFunc
	progress watchers

	mu     sync.Mutex // guards closed, and that nothing begins after it
	closed bool
	busy   sync.WaitGroup // requests, and what waits for connections to end

	// turn is held while current changes. It is a channel so that those who wait
	// for a server to start can give up.
	turn    chan struct{}
	current *link
}

// link is one connection with the server.
type link struct {
	*mcp.ClientSession
	program *process      // nil if there is none
	done    chan struct{} // closed when the connection is no more
}

func newSession(s Server) *session {
	out := &session{Server: s, turn: make(chan struct{}, 1)}
	out.life, out.end = context.WithCancelCause(context.Background())
	out.client = mcp.NewClient(&mcp.Implementation{Name: "treadle", Version: "v1"}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{}, // no roots, no sampling, no elicitation
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			out.progress.tell(r.Params)
		},
	})
	out.http = out.Server.HTTP
	if out.http == nil {
		// Its own, so that closing can let go of the connections.
		out.http = &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}
	}
	out.http = origin.Only(out.http, s.URL) // requests hold the headers and what the model wrote
	base := out.http.Transport
	if base == nil {
		base = http.DefaultTransport
	}
	out.http.Transport = &guarded{base, s.Header, origin.Of(s.URL), out.busy.Go}
	return out
}

// open is the connection, a new one if there is none that works. The caller has
// begun, so that close waits for it.
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
	ctx, stop := context.WithTimeoutCause(ctx, opening, fmt.Errorf("it was not ready within %v", opening))
	defer stop()
	l, err := s.dial(ctx)
	if err != nil {
		return nil, err
	}
	s.current = l
	s.busy.Go(func() {
		_ = l.Wait() // a call that is under way tells why it is over
		_ = l.Close()
		close(l.done)
	})
	return l, nil
}

// bound is ctx, ended also by close.
func (s *session) bound(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.life, func() { cancel(ErrClosed) })
	return ctx, func() { stop(); cancel(nil) }
}

func (s *session) dial(ctx context.Context) (*link, error) {
	l := &link{done: make(chan struct{})}
	var transport mcp.Transport
	if s.URL != "" {
		transport = &mcp.StreamableClientTransport{Endpoint: s.URL, HTTPClient: s.http, MaxEventSize: mcp.DefaultMaxLineLength}
	} else {
		p, err := start(s.Server)
		if err != nil {
			return nil, s.errorf("%w: start %s: %w", ErrNoAnswer, s.Command[0], err)
		}
		l.program = p
		transport = &mcp.IOTransport{Reader: p, Writer: nopWriteCloser{p}}
		// Who does not wait for the server does not wait for it to end either.
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
		return nil, s.errorf("%w: connect to %s: %w", ErrNoAnswer, origin.Of(s.URL), err)
	}
	_ = l.program.Close() // how it ended is its fate
	return nil, s.errorf("%w: start %s: %w (%s)", ErrNoAnswer, s.Command[0], err, l.program.fate())
}

func (l *link) over() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// do makes a request of the server. What certainly did not reach the server is
// tried once more with a new connection.
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
			return s.errorf("%w: %w", ErrNoAnswer, err)
		}
	}
}

// reason is why a request's context ended.
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

// lost waits for the end of a broken connection, which says more about its reason.
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

// answered tells a server's refusal from a failure to reach it.
func answered(err error) bool {
	refusal, ok := errors.AsType[*jsonrpc.Error](err)
	const rejectedByTransport = -32005 // the SDK's own
	return ok && refusal.Code != rejectedByTransport
}

func (s *session) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end(ErrClosed)
	s.turn <- struct{}{} // whoever opens one has been told to stop
	l := s.current
	<-s.turn
	if l != nil {
		_ = l.Close() // it says no more than that the connection is over
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

// guarded adds headers to the requests to the server, and bounds its answers.
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
	// The SDK reads whole answers, except streams, of which it bounds each event.
	if err == nil && !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		resp.Body = &limitedBody{resp.Body, mcp.DefaultMaxLineLength}
	}
	return resp, err
}

// limitedBody fails when a body is longer than its limit.
type limitedBody struct {
	io.ReadCloser
	left int
}

func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, fmt.Errorf("its answer is longer than %d bytes", mcp.DefaultMaxLineLength)
	}
	return n, err
}

// CloseIdleConnections is for http.Client.
func (g *guarded) CloseIdleConnections() {
	if c, ok := g.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
