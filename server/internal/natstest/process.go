package natstest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// env is the environment variable that holds the node's configuration.
const env = "TREADLE_TEST_NATS_NODE"

// node is the configuration of a server in a cluster.
type node struct {
	Name          string
	Dir           string
	Port, Cluster int
	Routes        []string
}

// Process is a NATS server in a separate process that can be killed.
type Process struct {
	t     testing.TB
	node  node
	cmd   *exec.Cmd
	stdin io.Closer
}

// Serve turns this process into a server if [Processes] started it; it then does not
// return. Call it first in TestMain.
func Serve() {
	asked := os.Getenv(env)
	if asked == "" {
		return
	}
	if err := serve(asked); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:forbidigo // this process is not a test
	}
	os.Exit(0) //nolint:forbidigo // this process is not a test
}

// serve runs until standard input is closed, which the operating system does even if the
// test is killed.
func serve(asked string) error {
	var n node
	if err := json.Unmarshal([]byte(asked), &n); err != nil {
		return err
	}
	s, err := Start(n.Dir, func(o *server.Options) {
		o.ServerName, o.Port = n.Name, n.Port
		o.Cluster = server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: n.Cluster}
		for _, route := range n.Routes {
			o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: route})
		}
	})
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	s.Stop()
	return err
}

// Processes starts a cluster of n servers, each in a process that runs this test binary.
// They stop when the test ends.
func Processes(t testing.TB, n int) []*Process {
	t.Helper()
	all, routes := make([]*Process, n), make([]string, n)
	for i := range all {
		all[i] = &Process{t: t, node: node{Name: fmt.Sprintf("node%d", i), Dir: t.TempDir(), Port: freePort(t), Cluster: freePort(t)}}
		routes[i] = fmt.Sprintf("127.0.0.1:%d", all[i].node.Cluster)
	}
	for _, p := range all {
		p.node.Routes = routes
		p.Start()
		t.Cleanup(p.Kill)
	}
	return all
}

// freePort returns a port that was free a moment ago.
func freePort(t testing.TB) int {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

// Name returns the server's name in its cluster.
func (p *Process) Name() string { return p.node.Name }

// URL returns the server's address.
func (p *Process) URL() string { return fmt.Sprintf("nats://127.0.0.1:%d", p.node.Port) }

// Start starts or restarts the server and waits until it responds.
func (p *Process) Start() {
	p.t.Helper()
	if err := p.start(); err != nil {
		p.t.Errorf("start NATS server %s: %v", p.node.Name, err)
	}
}

func (p *Process) start() error {
	asked, err := json.Marshal(p.node)
	if err != nil {
		return err
	}
	p.cmd = exec.CommandContext(context.Background(), os.Args[0])
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), env+"="+string(asked)), os.Stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	until := time.Now().Add(patience)
	for {
		c, err := new(net.Dialer).DialContext(context.Background(), "tcp", fmt.Sprintf("127.0.0.1:%d", p.node.Port))
		if err == nil {
			return c.Close()
		}
		if time.Now().After(until) {
			return errors.Join(errors.New("no response"), err)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// PID returns the process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill kills the process with SIGKILL.
func (p *Process) Kill() {
	if p.cmd == nil || p.cmd.Process == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // always reports that the process was killed
	_ = p.stdin.Close()
	p.cmd = nil
}
