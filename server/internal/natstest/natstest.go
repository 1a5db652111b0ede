// Package natstest runs real NATS servers with JetStream for tests, in the test's process
// or in separate processes.
package natstest

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// patience is the timeout, long enough for a busy machine.
const patience = time.Minute

// Server is a NATS server. It keeps its port and its files across restarts.
type Server struct {
	options *server.Options
	running *server.Server
}

// Start starts a server that stores its files in dir. change, if not nil, modifies its
// options.
func Start(dir string, change func(*server.Options)) (*Server, error) {
	s := &Server{options: &server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, StoreDir: dir, JetStream: true, NoLog: true, NoSigs: true,
	}}
	if change != nil {
		change(s.options)
	}
	if err := s.Restart(); err != nil {
		return nil, err
	}
	s.options.Port = s.running.Addr().(*net.TCPAddr).Port
	return s, nil
}

// New starts a server that stops when the test ends.
func New(t testing.TB, change func(*server.Options)) *Server {
	t.Helper()
	s, err := Start(t.TempDir(), change)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// Cluster starts a cluster of n servers that stop when the test ends.
func Cluster(t testing.TB, n int) []*Server {
	t.Helper()
	routes, listeners := make([]*url.URL, n), make([]net.Listener, n)
	for i := range routes {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		routes[i], listeners[i] = &url.URL{Scheme: "nats", Host: l.Addr().String()}, l
	}
	servers := make([]*Server, n)
	for i := range servers {
		_, port, err := net.SplitHostPort(routes[i].Host)
		if err != nil {
			t.Fatal(err)
		}
		servers[i] = New(t, func(o *server.Options) {
			o.ServerName = fmt.Sprintf("node%d", i)
			o.Routes = routes
			o.Cluster = server.ClusterOpts{Name: "test", Host: "127.0.0.1"}
			if _, err := fmt.Sscan(port, &o.Cluster.Port); err != nil {
				t.Fatal(err)
			}
			_ = listeners[i].Close() // frees the port for this server
		})
	}
	until := time.Now().Add(patience)
	for !formed(servers) {
		if time.Now().After(until) {
			t.Fatalf("cluster has no leader after %v", patience)
		}
		<-time.After(20 * time.Millisecond)
	}
	return servers
}

// formed reports whether the servers have a leader that sees all of them.
func formed(servers []*Server) bool {
	for _, s := range servers {
		if s.running.JetStreamIsLeader() {
			return len(s.running.JetStreamClusterPeers()) == len(servers)
		}
	}
	return false
}

// URL returns the server's address.
func (s *Server) URL() string { return fmt.Sprintf("nats://127.0.0.1:%d", s.options.Port) }

// URLs returns the servers' addresses, separated by commas.
func URLs(servers []*Server) string {
	var urls []string
	for _, s := range servers {
		urls = append(urls, s.URL())
	}
	return strings.Join(urls, ",")
}

// Leads reports whether the server is the leader of a stream.
func (s *Server) Leads(stream string) bool {
	return s.running.JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, stream)
}

// Stop shuts the server down.
func (s *Server) Stop() {
	s.running.Shutdown()
	s.running.WaitForShutdown()
}

// Restart starts the server after Stop.
func (s *Server) Restart() error {
	running, err := server.NewServer(s.options.Clone())
	if err != nil {
		return fmt.Errorf("start NATS server for tests: %w", err)
	}
	running.Start()
	if !running.ReadyForConnections(patience) {
		running.Shutdown()
		return errors.New("start NATS server for tests: no response")
	}
	s.running = running
	return nil
}
