package databasetest

import (
	"context"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
)

// A Proxy forwards connections to a server and can drop the server's responses.
type Proxy struct {
	ctx      context.Context
	listener net.Listener
	server   string
	Deaf     atomic.Bool   // whether to close the connection instead of forwarding a response
	Lost     chan struct{} // receives a value for each response that is not forwarded
	wg       sync.WaitGroup
}

func newProxy(t *testing.T, server string) *Proxy {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{ctx: t.Context(), listener: l, server: server, Lost: make(chan struct{}, 100)}
	p.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(c) })
		}
	})
	return p
}

func (p *Proxy) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	s, err := new(net.Dialer).DialContext(p.ctx, "tcp", p.server)
	if err != nil {
		return
	}
	defer func() { _ = s.Close() }()
	p.wg.Go(func() {
		_, _ = io.Copy(s, c) // ends when either side does
		_ = s.Close()
	})
	b := make([]byte, 64<<10)
	for {
		n, err := s.Read(b)
		if err != nil {
			return
		}
		if p.Deaf.Load() {
			p.Lost <- struct{}{}
			return
		}
		if _, err := c.Write(b[:n]); err != nil {
			return
		}
	}
}

// Through starts a proxy for a server and returns the URL of the proxy.
func Through(t *testing.T, server string) (string, *Proxy) {
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	p := newProxy(t, u.Host)
	t.Cleanup(func() {
		if err := p.listener.Close(); err != nil {
			t.Error(err)
		}
		p.wg.Wait()
	})
	u.Host = p.listener.Addr().String()
	return u.String(), p
}
