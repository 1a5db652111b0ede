package chaostest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/treadle-go/treadle/internal/natstest"
	"github.com/treadle-go/treadle/internal/netfault"
	"github.com/treadle-go/treadle/internal/pgtest"
)

// cluster is some servers on one Postgres.
type cluster struct {
	t       testing.TB
	pool    *pgxpool.Pool // straight to the database
	address string        // of the database
	nats    []*natstest.Server
	buses   string // the addresses of NATS; "" for none
	direct  bool   // servers reach the database without a proxy
	nodes   []*node

	mu      sync.Mutex
	tail    int          // how much of a server's log is shown
	stopped map[int]bool // processes that were stopped, by their ids
}

// node is a server that is a process.
type node struct {
	c     *cluster
	i     int
	proxy *netfault.Proxy // to the database
	log   *os.File

	mu   sync.Mutex
	cmd  *exec.Cmd
	base string // its address; "" while it is not up
}

// newCluster starts n servers, with NATS or without.
func newCluster(t testing.TB, n, natsNodes int) *cluster {
	t.Helper()
	c := &cluster{t: t, address: pgtest.URL(t)}
	c.startNATS(natsNodes)
	c.start(n)
	return c
}

// startNATS starts nodes of NATS.
func (c *cluster) startNATS(n int) {
	switch {
	case n == 1:
		c.nats = []*natstest.Server{natstest.New(c.t, nil)}
	case n > 1:
		c.nats = natstest.Cluster(c.t, n)
	default:
		return
	}
	c.buses = natstest.URLs(c.nats)
}

// start starts n servers.
func (c *cluster) start(n int) {
	t := c.t
	t.Helper()
	c.stopped, c.tail = map[int]bool{}, 6000
	var err error
	if c.pool, err = pgxpool.New(t.Context(), c.address); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.pool.Close)
	if _, err := c.pool.Exec(t.Context(), "CREATE TABLE chaos_effects (id bigserial PRIMARY KEY, thread text, step int, name text, key text, pid int, at timestamptz DEFAULT clock_timestamp())"); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for i := range n {
		log, err := os.Create(filepath.Join(dir, fmt.Sprintf("server%d.log", i)))
		if err != nil {
			t.Fatal(err)
		}
		node := &node{c: c, i: i, proxy: netfault.New(t, host(t, c.address)), log: log}
		c.nodes = append(c.nodes, node)
		node.start()
		t.Cleanup(func() {
			node.kill()
			if t.Failed() {
				raw, _ := os.ReadFile(log.Name())
				t.Logf("log of server %d: %s", i, raw[max(0, len(raw)-c.tail):])
			}
			_ = log.Close()
		})
	}
}

// host is the host and port of a database.
func host(t testing.TB, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	if h := u.Query().Get("host"); h != "" {
		t.Fatalf("the database is at %s, want one that listens on TCP", h)
	}
	return u.Host
}

// dump makes the servers write what their goroutines do into their logs, and ends them.
func (c *cluster) dump() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tail = 1 << 20
	for _, n := range c.nodes {
		n.signal(syscall.SIGQUIT)
	}
	time.Sleep(time.Second) //nolint:forbidigo // they write, and end when they like
}

// start starts the process, and returns when it serves. One that gives up, because it is
// cut from the database, is started again.
func (n *node) start() {
	for end := time.Now().Add(time.Minute); n.at() == ""; {
		if time.Now().After(end) {
			n.c.t.Errorf("server %d does not start", n.i)
			return
		}
		n.startOnce()
	}
}

func (n *node) startOnce() {
	t := n.c.t
	u, err := url.Parse(n.c.address)
	if err != nil {
		t.Error(err)
		return
	}
	if !n.c.direct {
		u.Host = n.proxy.Addr()
	}
	args := "serve --port 0 --log json --grace 2s --db " + u.String()
	if n.c.buses != "" {
		args += " --nats " + n.c.buses
	}
	cmd := exec.Command(os.Args[0]) //nolint:noctx // it ends with this process or by kill
	cmd.Env = append(os.Environ(), envServe+"="+args, envEffects+"="+n.c.address)
	cmd.Stderr = n.log
	if _, err := cmd.StdinPipe(); err != nil { // see killtest.EndWithParent
		t.Error(err)
		return
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Error(err)
		return
	}
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return
	}
	n.mu.Lock()
	n.cmd = cmd
	n.mu.Unlock()
	up := make(chan struct{})
	go n.follow(cmd, out, up)
	select {
	case <-up:
	case <-time.After(time.Minute):
	}
}

// follow reads the log of the process, which has its address.
func (n *node) follow(cmd *exec.Cmd, out io.Reader, up chan struct{}) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	var once sync.Once
	for lines.Scan() {
		_, _ = fmt.Fprintln(n.log, lines.Text())
		var entry struct{ Msg, Address string }
		if json.Unmarshal(lines.Bytes(), &entry) == nil && entry.Msg == "serving" {
			n.mu.Lock()
			n.base = entry.Address
			n.mu.Unlock()
			once.Do(func() { close(up) })
		}
	}
	_ = cmd.Wait()
	once.Do(func() { close(up) })
}

// kill kills the process, kill -9.
func (n *node) kill() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd != nil {
		_ = n.cmd.Process.Kill()
	}
	n.cmd, n.base = nil, ""
}

// signal sends a signal to the process, and returns its id.
func (n *node) signal(s syscall.Signal) (pid int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		return 0
	}
	_ = n.cmd.Process.Signal(s)
	return n.cmd.Process.Pid
}

// at is the address of the server, or "" if it is not up.
func (n *node) at() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.base
}
