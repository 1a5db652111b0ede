// Package netfault breaks network connections in tests.
package netfault

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// Proxy forwards connections to a server until it is told to break them.
type Proxy struct {
	listener net.Listener
	server   string
	ctx      context.Context
	wg       sync.WaitGroup

	mu    sync.Mutex
	mode  mode
	conns map[*conn]struct{}
}

// conn is a connection of a client and the one to the server that belongs to it.
type conn struct {
	client, server net.Conn
	swallowed      atomic.Bool // nothing comes through any more
}

func (c *conn) close() {
	_ = c.client.Close()
	_ = c.server.Close()
}

type mode int

const (
	forward mode = iota
	refuse       // connections are closed
	swallow      // bytes are read and go nowhere
)

// New starts a proxy for the server at an address. It ends with the test.
func New(t testing.TB, server string) *Proxy {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: l, server: server, ctx: t.Context(), conns: map[*conn]struct{}{}}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.set(refuse)
		p.wg.Wait()
	})
	return p
}

// Addr is the address of the proxy.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Cut closes all connections, and new ones at once, until Heal.
func (p *Proxy) Cut() { p.set(refuse) }

// Swallow keeps connections open and lets nothing through in either direction, as a network does that loses packets. Connections that
// are open now never recover; new ones are swallowed too until Heal.
func (p *Proxy) Swallow() { p.set(swallow) }

// Heal forwards new connections.
func (p *Proxy) Heal() { p.set(forward) }

func (p *Proxy) set(m mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode = m
	for c := range p.conns {
		switch m {
		case refuse:
			c.close()
		case swallow:
			c.swallowed.Store(true)
		case forward:
		}
	}
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

// add notes a connection, or closes it.
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
	var both sync.WaitGroup
	both.Go(func() { c.copy(server, client) })
	both.Go(func() { c.copy(client, server) })
	both.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

func (c *conn) copy(to, from net.Conn) {
	defer c.close()
	_, _ = io.Copy(&gate{c, to}, from)
}

// gate forwards or swallows what is written.
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
