// Package natstest gives tests real NATS servers with JetStream, in the process of the test.
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

// patience is for a machine with other things to do.
const patience = time.Minute

// Server is a NATS server. Its port and its files stay the same when it is started again.
type Server struct {
	options *server.Options
	running *server.Server
}

// Start starts a server that keeps its files in a directory. change may change its options; it may be nil.
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

// New starts a server that ends with the test.
func New(t testing.TB, change func(*server.Options)) *Server {
	t.Helper()
	s, err := Start(t.TempDir(), change)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// Cluster starts n servers that form a cluster and end with the test.
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
			_ = listeners[i].Close() // the port is for this server
		})
	}
	until := time.Now().Add(patience)
	for !formed(servers) {
		if time.Now().After(until) {
			t.Fatalf("the cluster has no leader after %v", patience)
		}
		<-time.After(20 * time.Millisecond)
	}
	return servers
}

// formed reports whether the servers have a leader that knows them all.
func formed(servers []*Server) bool {
	for _, s := range servers {
		if s.running.JetStreamIsLeader() {
			return len(s.running.JetStreamClusterPeers()) == len(servers)
		}
	}
	return false
}

// URL is the address of the server.
func (s *Server) URL() string { return fmt.Sprintf("nats://127.0.0.1:%d", s.options.Port) }

// URLs are the addresses of servers, separated by commas.
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

// Stop ends the server.
func (s *Server) Stop() {
	s.running.Shutdown()
	s.running.WaitForShutdown()
}

// Restart starts the server after Stop.
func (s *Server) Restart() error {
	running, err := server.NewServer(s.options.Clone())
	if err != nil {
		return fmt.Errorf("start a NATS server for the tests: %w", err)
	}
	running.Start()
	if !running.ReadyForConnections(patience) {
		running.Shutdown()
		return errors.New("start a NATS server for the tests: it does not answer")
	}
	s.running = running
	return nil
}
