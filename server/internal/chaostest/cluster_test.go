package chaostest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/treadle-go/treadle/internal/test/netfault"
	"github.com/treadle-go/treadle/internal/test/pgtest"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/postgres"
	"github.com/treadle-go/treadle/server/internal/natstest"
	"github.com/treadle-go/treadle/sqlite"
)

// A backend is what servers keep their data in.
type backend string

const (
	onSQLite backend = "sqlite"
	onNotify backend = "notify" // Postgres, with NOTIFY for signals
	onNATS   backend = "nats"   // Postgres, with NATS for signals and events
)

// cluster is some servers on one database.
type cluster struct {
	t       testing.TB
	on      backend
	sink    *sink
	address string          // of the database: a URL, or a file
	pg      *pgtest.Process // the database's own server; nil if other tests share it
	disk    *disk           // of the file; nil for Postgres
	pool    *pgxpool.Pool   // straight to Postgres
	rows    *postgres.DB    // for the checker; nil for SQLite
	nats    []*natstest.Server
	buses   string // the addresses of NATS; "" for none
	direct  bool   // servers reach the database without a proxy
	nodes   []*node
	seed    uint64
	began   time.Time

	mu       sync.Mutex
	tail     int // how much of a server's log is shown
	timeline []string
	faults   map[string]int // by name
	broken   int            // faults that are not repaired
	mended   time.Time      // when the last one was
	invalid  []string       // responses with status 500
}

// node is a server process.
type node struct {
	c     *cluster
	i     int
	proxy *netfault.Postgres // to the database; nil for SQLite
	log   *os.File

	mu       sync.Mutex
	cmd      *exec.Cmd
	base     string // its address; "" while it is not up
	report   string // the address of its report
	starting sync.Mutex
	ended    sync.WaitGroup // of all its processes
}

// newCluster starts servers.
func newCluster(t testing.TB, on backend, servers int) *cluster {
	t.Helper()
	c := &cluster{t: t, on: on}
	switch on {
	case onSQLite:
		c.disk = newDisk(t)
		c.address = filepath.Join(c.disk.dir, "treadle.db")
	case onNATS:
		c.startNATS(1)
		fallthrough
	case onNotify:
		c.address = pgtest.URL(t)
	}
	c.start(servers)
	return c
}

// startNATS starts nodes of NATS.
func (c *cluster) startNATS(n int) {
	if n == 1 {
		c.nats = []*natstest.Server{natstest.New(c.t, nil)}
	} else {
		c.nats = natstest.Cluster(c.t, n)
	}
	c.buses = natstest.URLs(c.nats)
}

// start starts n servers.
func (c *cluster) start(n int) {
	t := c.t
	t.Helper()
	c.began, c.tail, c.faults = time.Now(), 6000, map[string]int{}
	c.seed = seedOf(t)
	c.sink = newSink(t)
	if c.on != onSQLite {
		var err error
		if c.pool, err = pgxpool.New(t.Context(), c.address); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.pool.Close)
	}
	dir := t.TempDir()
	for i := range n {
		log, err := os.Create(filepath.Join(dir, fmt.Sprintf("server%d.log", i)))
		if err != nil {
			t.Fatal(err)
		}
		node := &node{c: c, i: i, log: log}
		if c.on != onSQLite && !c.direct {
			node.proxy = netfault.NewPostgres(t, host(t, c.address))
		}
		c.nodes = append(c.nodes, node)
		node.start()
		t.Cleanup(func() {
			node.kill()
			node.ended.Wait()
			if t.Failed() {
				raw, _ := os.ReadFile(log.Name())
				t.Logf("log of server %d: %s", i, raw[max(0, len(raw)-c.tail):])
			}
			_ = log.Close()
		})
	}
	if c.on != onSQLite {
		db, err := postgres.Open(t.Context(), c.address, &postgres.Options{MaxConns: 2})
		if err != nil {
			t.Fatal(err)
		}
		c.rows = db
		t.Cleanup(func() { _ = db.Close() })
	}
	t.Cleanup(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, text := range c.invalid {
			t.Errorf("a server failed internally: %s", text)
		}
		if t.Failed() {
			t.Logf("seed %d; repeat with TREADLE_CHAOS_SEED=%d\ntimeline:\n%s", c.seed, c.seed, strings.Join(c.timeline, "\n"))
		}
	})
}

// seedOf returns the seed of a test. It differs between tests and, unless
// TREADLE_CHAOS_SEED sets it, between runs.
func seedOf(t testing.TB) uint64 {
	t.Helper()
	if text := os.Getenv("TREADLE_CHAOS_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("TREADLE_CHAOS_SEED: %v", err)
		}
		return seed
	}
	return uint64(time.Now().UnixNano())
}

// random returns a source of random numbers for a part of the test.
func (c *cluster) random(part string) *rand.Rand {
	h := fnv.New64a()
	_, _ = io.WriteString(h, c.t.Name()+"/"+part)
	return rand.New(rand.NewPCG(c.seed, h.Sum64()))
}

// note adds a line to the timeline, which is shown if the test fails.
func (c *cluster) note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timeline = append(c.timeline, fmt.Sprintf("%8.3f s  ", time.Since(c.began).Seconds())+fmt.Sprintf(format, args...))
}

// breaks counts a fault, which lasts until mends is called.
func (c *cluster) breaks(name, detail string) (mends func()) {
	c.note("%s %s", name, detail)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults[name]++
	c.broken++
	return func() {
		c.note("end of %s %s", name, detail)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.broken--
		c.mended = time.Now()
	}
}

// calm returns for how long nothing has been broken.
func (c *cluster) calm() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken > 0 {
		return 0
	}
	return time.Since(c.mended)
}

// total returns the number of faults.
func (c *cluster) total() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.faults {
		n += k
	}
	return n
}

// rowsOf reads the rows of a kind, past all faults.
func (c *cluster) rowsOf(ctx context.Context, kind ledger.Kind) (rows []*ledger.Row, err error) {
	var b ledger.Backend
	if c.rows != nil {
		b = c.rows.Ledger()
	} else {
		db, err := sqlite.Open(c.address, nil)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, db.Close()) }()
		b = db.Ledger()
	}
	for r, err := range b.Find(ctx, &ledger.Query{Kind: kind, Order: ledger.OldestFirst}) {
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// executing returns the processes that report to execute runs, by run, and the servers
// that do not answer.
func (c *cluster) executing(ctx context.Context) (by map[uuid.UUID][]report, silent []int) {
	by = map[uuid.UUID][]report{}
	for _, n := range c.nodes {
		r, err := n.reported(ctx)
		if err != nil {
			silent = append(silent, n.i)
			continue
		}
		for _, run := range r.Runs {
			by[run] = append(by[run], *r)
		}
	}
	return by, silent
}

// host returns the host and port of a database.
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

// start starts the process, and returns when it serves. A process that gives up, because
// it is cut from the database, is started again.
func (n *node) start() {
	n.starting.Lock()
	defer n.starting.Unlock()
	for end := time.Now().Add(2 * time.Minute); n.at() == ""; {
		if time.Now().After(end) {
			n.c.t.Errorf("server %d does not start", n.i)
			return
		}
		n.startOnce()
	}
}

func (n *node) startOnce() {
	t := n.c.t
	db := n.c.address
	if n.proxy != nil {
		u, err := url.Parse(db)
		if err != nil {
			t.Error(err)
			return
		}
		u.Host = n.proxy.Addr()
		db = u.String()
	}
	args := "serve --port 0 --log json --grace 2s --db " + db
	if n.c.buses != "" {
		args += " --nats " + n.c.buses
	}
	cmd := exec.Command(os.Args[0]) //nolint:noctx // it ends with this process or by kill
	cmd.Env = append(os.Environ(), envServe+"="+args, envSink+"="+n.c.sink.server.URL)
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
	n.ended.Go(func() { n.follow(cmd, out, up) })
	select {
	case <-up:
	case <-time.After(time.Minute):
	}
}

// follow reads the log of the process, which has its addresses, until the process ends.
func (n *node) follow(cmd *exec.Cmd, out io.Reader, up chan struct{}) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	var once sync.Once
	for lines.Scan() {
		_, _ = fmt.Fprintln(n.log, lines.Text())
		var entry struct{ Msg, Address string }
		if json.Unmarshal(lines.Bytes(), &entry) != nil {
			continue
		}
		n.mu.Lock()
		switch {
		case n.cmd != cmd:
		case entry.Msg == "serving":
			n.base = entry.Address
			once.Do(func() { close(up) })
		case entry.Msg == "reporting":
			n.report = entry.Address
		}
		n.mu.Unlock()
	}
	_ = cmd.Wait()
	n.mu.Lock()
	if n.cmd == cmd {
		n.cmd, n.base, n.report = nil, "", ""
	}
	n.mu.Unlock()
	once.Do(func() { close(up) })
}

// kill kills the process, kill -9.
func (n *node) kill() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd != nil {
		_ = n.cmd.Process.Kill()
	}
	n.cmd, n.base, n.report = nil, "", ""
}

// terminate sends the process SIGTERM and waits until it has exited.
func (n *node) terminate(t testing.TB) {
	t.Helper()
	n.signal(syscall.SIGTERM)
	for end := time.Now().Add(time.Minute); n.signal(0) != 0; <-time.After(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("server %d does not end", n.i)
			return
		}
	}
}

// signal sends a signal to the process, and returns its ID, or 0 if the process has
// ended.
func (n *node) signal(s syscall.Signal) (pid int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		return 0
	}
	_ = n.cmd.Process.Signal(s)
	return n.cmd.Process.Pid
}

// stop stops the process, as SIGSTOP does. It returns a function that continues it.
func (n *node) stop() (goOn func()) {
	pid := n.signal(0)
	n.c.sink.stopped(pid)
	n.signal(syscall.SIGSTOP)
	return func() {
		n.c.sink.continued(pid)
		if n.signal(0) == pid {
			n.signal(syscall.SIGCONT)
		}
	}
}

// at returns the address of the server, or "" if it is not up.
func (n *node) at() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.base
}

// reported asks the process for its report.
func (n *node) reported(ctx context.Context) (*report, error) {
	n.mu.Lock()
	base := n.report
	n.mu.Unlock()
	if base == "" {
		return nil, errors.New("the server is down")
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/report", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	var r report
	return &r, json.NewDecoder(resp.Body).Decode(&r)
}

// everywhere starts an outage at all proxies, and returns a function that ends it.
func (c *cluster) everywhere(o netfault.Outage) (heal func()) {
	for _, n := range c.nodes {
		n.proxy.Begin(o, 0)
	}
	return func() {
		for _, n := range c.nodes {
			if o == netfault.Swallowed { // its connections would not recover
				n.proxy.Cut()
			}
			n.proxy.Heal()
		}
	}
}

// summary lists the faults.
func (c *cluster) summary() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for name, n := range c.faults {
		all = append(all, fmt.Sprintf("%d %s", n, name))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
