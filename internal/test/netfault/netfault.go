// Package netfault breaks network connections in tests.
//
// A [Proxy] forwards bytes and can cut its connections or swallow their traffic. A
// [Postgres] also parses the Postgres protocol and breaks a connection at a chosen
// transaction, such as between a commit and its response.
package netfault

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/treadle-go/treadle/internal/delay"
)

// Proxy forwards connections to a server until a test breaks them.
type Proxy struct {
	listener net.Listener
	server   string
	ctx      context.Context
	wg       sync.WaitGroup
	pump     func(*conn) // forwards in both directions until the connection closes

	mu      sync.Mutex
	mode    mode
	changes int // number of mode changes
	conns   map[*conn]struct{}
}

// conn is a client connection and the corresponding server connection.
type conn struct {
	client, server net.Conn
	swallowed      atomic.Bool // nothing passes through anymore
}

func (c *conn) close() {
	_ = c.client.Close()
	_ = c.server.Close()
}

type mode int

const (
	forward mode = iota
	refuse       // connections are closed
	swallow      // bytes are read and discarded
	sever        // connections are closed at their first statement (Postgres only)
)

// New starts a proxy for the server at an address. It stops when the test ends.
func New(t testing.TB, server string) *Proxy {
	t.Helper()
	return newProxy(t, server, func(c *conn) {
		var both sync.WaitGroup
		both.Go(func() { c.copy(c.server, c.client) })
		both.Go(func() { c.copy(c.client, c.server) })
		both.Wait()
	})
}

func newProxy(t testing.TB, server string, pump func(*conn)) *Proxy {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: l, server: server, ctx: t.Context(), pump: pump, conns: map[*conn]struct{}{}}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.set(refuse)
		p.wg.Wait()
	})
	return p
}

// Addr returns the proxy's address.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Cut closes all connections, and new connections immediately, until Heal.
func (p *Proxy) Cut() { p.set(refuse) }

// Swallow keeps connections open but discards traffic in both directions, like a network
// that loses packets. Open connections never recover; new connections are swallowed too
// until Heal.
func (p *Proxy) Swallow() { p.set(swallow) }

// Heal forwards new connections.
func (p *Proxy) Heal() { p.set(forward) }

func (p *Proxy) set(m mode) { p.change(m, nil) }

// change sets the mode for all connections except spared. It returns the number of the
// change.
func (p *Proxy) change(m mode, spared *conn) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode = m
	p.changes++
	for c := range p.conns {
		switch m {
		case refuse, sever:
			if c != spared {
				c.close()
			}
		case swallow:
			if c != spared {
				c.swallowed.Store(true)
			}
		case forward:
		}
	}
	return p.changes
}

// healAfter heals the proxy once d has passed and until has returned true, unless the
// mode has changed by then.
func (p *Proxy) healAfter(d time.Duration, change int, until func() bool) {
	p.wg.Go(func() {
		err := delay.For(p.ctx, d)
		for err == nil && !until() {
			err = delay.For(p.ctx, 10*time.Millisecond)
		}
		if err != nil {
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.changes == change {
			p.mode = forward
			p.changes++
		}
	})
}

// current returns the mode.
func (p *Proxy) current() mode {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mode
}

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.serve(c) })
	}
}

// add registers a connection, or closes it.
func (p *Proxy) add(c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mode == refuse {
		c.close()
		return false
	}
	c.swallowed.Store(p.mode == swallow)
	p.conns[c] = struct{}{}
	return true
}

func (p *Proxy) serve(client net.Conn) {
	server, err := new(net.Dialer).DialContext(p.ctx, "tcp", p.server)
	if err != nil {
		_ = client.Close()
		return
	}
	c := &conn{client: client, server: server}
	if !p.add(c) {
		return
	}
	p.pump(c)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

func (c *conn) copy(to, from net.Conn) {
	defer c.close()
	_, _ = io.Copy(&gate{c, to}, from)
}

// gate forwards or discards the bytes written to it.
type gate struct {
	c  *conn
	to net.Conn
}

// Write implements [io.Writer].
func (g *gate) Write(b []byte) (int, error) {
	if g.c.swallowed.Load() {
		return len(b), nil
	}
	return g.to.Write(b)
}
