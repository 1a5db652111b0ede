package natsbus

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/treadle-go/treadle/bus"
	"github.com/treadle-go/treadle/internal/hub"
)

// Options configures [Open]. A nil *Options means the defaults.
type Options struct {
	// Name is the prefix of all subjects and of the stream name, so that several Treadle
	// servers can share a NATS cluster. It may contain letters, digits, -, and _; empty means
	// "treadle".
	Name string
	// Keep is the retention time of events; 0 means 10 minutes.
	Keep time.Duration
	// Replicas is the number of servers in a cluster that store the events; 0 means as many as
	// available, at most 3.
	Replicas int
	// Creds is the path of a credentials file, as created by nsc. Alternatively, put
	// user:password@ in the URL.
	Creds string
	// TLS configures encrypted connections. A tls:// URL requests encryption even if TLS is
	// nil.
	TLS *tls.Config
	// Logger receives warnings that cannot be returned to a caller; nil means
	// slog.Default().
	Logger *slog.Logger
}

const (
	defaultName = "treadle"
	defaultKeep = 10 * time.Minute
	// again is the time window in which the server ignores duplicate appends.
	again = 2 * time.Minute
	// patience is the timeout of a request.
	patience = 2 * time.Second
	// grace is the time that calls wait for a new connection after one has broken. In a cluster,
	// most clients have reconnected by then.
	grace = time.Second
	// attempt is the timeout after which a request is resent.
	attempt = 700 * time.Millisecond
	// dialTimeout is the connection timeout per address.
	dialTimeout = time.Second
	// pingEvery is the ping interval. The connection is closed after two unanswered pings.
	pingEvery = time.Second
	// reconnectWait is the minimum delay between two attempts to reach the same address.
	reconnectWait = 100 * time.Millisecond
	// checkEvery is the interval of the periodic stream check.
	checkEvery = time.Minute
	// liveBuffer is the number of messages that may wait for the goroutine that distributes
	// them, which never blocks.
	liveBuffer = 8192
)

// Bus is a [bus.Bus] on NATS.
type Bus struct {
	nc     *nats.Conn
	log    *slog.Logger
	name   string
	stream string
	keep   time.Duration
	// replicas is 0 for as many as possible.
	replicas int
	hub      hub.Hub
	signals  chan *nats.Msg
	live     chan *nats.Msg
	// check triggers lookAfterStream.
	check chan struct{}
	// ctx ends when the bus is closed.
	ctx       context.Context
	cancel    context.CancelFunc
	wg        sync.WaitGroup
	pollEvery time.Duration
	// fetching limits the number of concurrent requests for stored events.
	fetching chan struct{}

	mu sync.Mutex
	// topics contains the signal subscriptions by token.
	topics   map[string]*topic
	followed map[string]*followed // by subject
	created  time.Time            // when the stream was created
	warned   time.Time            // when a failure to connect was last logged
	reached  bool                 // whether there ever was a connection
	lostAt   time.Time            // when the connection broke; zero if it did not
}

type topic struct {
	name      string
	sub       *nats.Subscription
	listeners int
}

var _ bus.Bus = (*Bus)(nil)

// Open connects to the NATS servers at url, which contains one or more addresses of the same
// cluster, separated by commas: nats://user:password@host:4222. If no server can be reached,
// Open succeeds, and the bus connects later. It returns an error if a server rejects the
// credentials.
func Open(ctx context.Context, url string, opts *Options) (*Bus, error) {
	if opts == nil {
		opts = &Options{}
	}
	b, err := newBus(opts)
	if err != nil {
		return nil, fmt.Errorf("natsbus: open: %w", err)
	}
	addresses, err := split(url)
	if err != nil {
		return nil, fmt.Errorf("natsbus: open: %w", err)
	}
	options := nats.GetDefaultOptions()
	options.Servers = addresses
	b.configure(&options)
	options.TLSConfig, options.Secure = opts.TLS, opts.TLS != nil
	if opts.Creds != "" {
		// Otherwise, a missing file would look like an unreachable server.
		if _, err := os.Stat(opts.Creds); err != nil {
			return nil, fmt.Errorf("natsbus: open: credentials: %w", err)
		}
		if err := nats.UserCredentials(opts.Creds)(&options); err != nil {
			return nil, fmt.Errorf("natsbus: open: credentials: %w", err)
		}
	}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	if b.nc, err = connect(&options); err != nil {
		b.cancel()
		return nil, fmt.Errorf("natsbus: open: %w", err)
	}
	if b.nc.IsConnected() {
		if err := b.ensureStream(ctx); err != nil {
			b.log.WarnContext(ctx, "natsbus: failed to create stream, retrying", "stream", b.stream, "error", err)
			b.recheck()
		}
	} else {
		b.log.WarnContext(ctx, "natsbus: no server reachable, retrying", "servers", len(addresses))
	}
	// A new stream leader may not have republished everything that the previous leader stored.
	if _, err := b.nc.Subscribe("$JS.EVENT.ADVISORY.STREAM.LEADER_ELECTED."+b.stream, func(*nats.Msg) { b.missed("") }); err != nil {
		return nil, errors.Join(fmt.Errorf("natsbus: open: %w", err), b.Close())
	}
	b.wg.Go(b.dealSignals)
	b.wg.Go(b.dealEvents)
	b.wg.Go(b.lookAfterStream)
	return b, nil
}

func newBus(opts *Options) (*Bus, error) {
	b := &Bus{
		log: opts.Logger, name: opts.Name, keep: opts.Keep, replicas: opts.Replicas,
		signals: make(chan *nats.Msg, liveBuffer), live: make(chan *nats.Msg, liveBuffer),
		check: make(chan struct{}, 1), fetching: make(chan struct{}, 64), pollEvery: pollEvery,
		topics: map[string]*topic{}, followed: map[string]*followed{},
	}
	if b.log == nil {
		b.log = slog.Default()
	}
	b.hub.Logger = b.log
	if b.name == "" {
		b.name = defaultName
	}
	if b.keep == 0 {
		b.keep = defaultKeep
	}
	b.stream = strings.ToUpper(b.name) + "_EVENTS"
	for _, c := range b.name {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_", c) {
			return nil, fmt.Errorf("invalid character %q in name %q: use letters, digits, -, and _", c, b.name)
		}
	}
	if b.keep < time.Second {
		return nil, fmt.Errorf("invalid Options.Keep %v: want 1s or more", b.keep)
	}
	if b.replicas < 0 || b.replicas > 5 {
		return nil, fmt.Errorf("invalid Options.Replicas %d: want 1 to 5, or 0 for the default", b.replicas)
	}
	return b, nil
}

// split returns the addresses in a URL. Its errors do not include them, because they may
// contain passwords.
func split(urls string) ([]string, error) {
	addresses := strings.Split(urls, ",")
	for i, address := range addresses {
		address = strings.TrimSpace(address)
		if !strings.Contains(address, "://") {
			address = "nats://" + address // for lists such as nats://a,b,c
		}
		u, err := url.Parse(address)
		if err != nil || u.Hostname() == "" || u.Scheme != "nats" && u.Scheme != "tls" && u.Scheme != "ws" && u.Scheme != "wss" {
			return nil, fmt.Errorf("invalid NATS address %d in URL: want nats://host:4222 or tls://host:4222", i+1)
		}
		addresses[i] = address
	}
	first, err := url.Parse(addresses[0])
	if err != nil {
		return nil, errors.New("invalid NATS address 1 in URL")
	}
	// Addresses without credentials use those of the first address.
	for i, address := range addresses[1:] {
		if u, err := url.Parse(address); err == nil && u.User == nil && first.User != nil {
			u.User = first.User
			addresses[i+1] = u.String()
		}
	}
	return addresses, nil
}

// configure sets options so that the client reconnects forever and never blocks for long.
func (b *Bus) configure(opts *nats.Options) {
	opts.Name = b.name
	opts.RetryOnFailedConnect, opts.MaxReconnect, opts.AllowReconnect = true, -1, true
	opts.ReconnectWait, opts.ReconnectJitter, opts.ReconnectJitterTLS = reconnectWait, reconnectWait, reconnectWait
	opts.IgnoreAuthErrorAbort = true // credentials may change while the process runs
	opts.Timeout = dialTimeout
	opts.PingInterval, opts.MaxPingsOut = pingEvery, 2
	// A write to a server that does not read holds the connection's lock, which blocks every
	// call.
	opts.FlusherTimeout, opts.ReconnectOnFlusherError = time.Second, true
	opts.ReconnectBufSize = -1 // a late signal is useless
	opts.AsyncErrorCB = b.onError
	opts.ConnectedCB = b.onConnect
	opts.ReconnectedCB = b.onConnect
	opts.DisconnectedErrCB = func(_ *nats.Conn, err error) {
		b.mu.Lock()
		b.lostAt = time.Now()
		b.mu.Unlock()
		if err != nil {
			b.log.Warn("natsbus: disconnected", "error", err)
		}
	}
	opts.ReconnectErrCB = func(_ *nats.Conn, err error) { b.onConnectError(err) }
}

// connect connects to a server, now or, if no server can be reached, later. It returns an error if
// a server rejects the credentials.
func connect(later *nats.Options) (*nats.Conn, error) {
	// With RetryOnFailedConnect, Connect returns no error, and the next attempt may already have
	// replaced the last one.
	now := *later
	now.RetryOnFailedConnect = false
	nc, err := now.Connect()
	switch {
	case err == nil:
		return nc, nil
	case refused(err):
		return nil, errors.New("server rejected the credentials: put user:password@ in the URL, or set Options.Creds")
	}
	return later.Connect()
}

// refused reports whether err means that the server rejected the credentials.
func refused(err error) bool {
	return errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) || errors.Is(err, nats.ErrAuthRevoked) ||
		errors.Is(err, nats.ErrAccountAuthExpired)
}

func (b *Bus) onConnect(nc *nats.Conn) {
	b.mu.Lock()
	b.warned, b.lostAt, b.reached = time.Time{}, time.Time{}, true
	b.mu.Unlock()
	b.log.Info("natsbus: connected", "server", nc.ConnectedUrlRedacted())
	b.recheck()
	b.missed("")
}

func (b *Bus) onConnectError(err error) {
	if err == nil {
		return
	}
	b.mu.Lock()
	often := time.Since(b.warned) < time.Minute // the client retries several times per second
	if !often {
		b.warned = time.Now()
	}
	b.mu.Unlock()
	if !often {
		b.log.Warn("natsbus: no server reachable", "error", err)
	}
}

// onError handles errors that belong to no call.
func (b *Bus) onError(_ *nats.Conn, sub *nats.Subscription, err error) {
	switch {
	case errors.Is(err, nats.ErrSlowConsumer) && sub != nil:
		if topic, ok := strings.CutPrefix(sub.Subject, b.signalSubject("")); ok {
			b.mu.Lock()
			t := b.topics[topic]
			b.mu.Unlock()
			if t != nil {
				b.hub.Dropped(t.name)
			}
			return
		}
		b.missed(sub.Subject)
	case errors.Is(err, nats.ErrPermissionViolation):
		b.log.Warn("natsbus: permission denied", "error", err)
	default:
		b.onConnectError(err)
	}
}

// Close closes the connection. All listeners and readers end.
func (b *Bus) Close() error {
	if !b.hub.Close() {
		return nil
	}
	b.cancel()
	b.nc.Close()
	b.wg.Wait()
	return nil
}

// usable returns an error if the bus is closed, ctx has ended, or there is no connection.
func (b *Bus) usable(ctx context.Context) error {
	switch {
	case b.hub.Closed():
		return bus.ErrClosed
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case !b.nc.IsConnected():
		return nats.ErrDisconnected
	}
	return nil
}
