// Package pgtest provides tests with a real Postgres server.
//
// It uses the server named by TREADLE_TEST_POSTGRES or, if that is not set, a separate
// cluster for each test binary. The cluster is created from the installed programs on
// first use and removed when the test binary exits for any reason:
//
//	import _ "github.com/jackc/pgx/v5/stdlib" // the driver that pgtest uses
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
//	func TestX(t *testing.T) { db, err := postgres.Open(t.Context(), pgtest.URL(t), nil) … }
//
// If Postgres is missing, a test that needs it fails, unless TREADLE_TEST_WITHOUT lists
// it: see package need.
package pgtest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/treadle-go/treadle/internal/delay"
	"github.com/treadle-go/treadle/internal/test/need"
)

// Env is the environment variable that names the server to use: the URL of a database
// whose role may create databases and roles.
const Env = "TREADLE_TEST_POSTGRES"

const install = "install it (Debian, Ubuntu: apt-get install -y postgresql), or set " + Env + " to the URL of a server that may be used"

// Main runs the tests of a binary and exits.
func Main(m *testing.M) {
	os.Exit(Run(m)) //nolint:forbidigo // as a TestMain does
}

// Run is like [Main], but returns the exit code, for callers with work to do after the
// tests.
func Run(m *testing.M) int {
	code := m.Run()
	if err := errors.Join(private.stop(), lite.stop()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	return code
}

// URL creates an empty database, which is dropped after the test, and returns its URL.
func URL(t testing.TB) string {
	t.Helper()
	need.Program(t, need.Postgres)
	address, drop, err := NewDatabase(t.Context())
	if err != nil {
		t.Fatalf("make a database for the test: %v", err)
	}
	t.Cleanup(func() {
		if err := drop(); err != nil {
			t.Errorf("drop the test's database: %v", err)
		}
	})
	return address
}

// NewDatabase creates an empty database and returns its URL.
func NewDatabase(ctx context.Context) (address string, drop func() error, err error) {
	server, err := Server()
	if err != nil {
		return "", nil, err
	}
	u, err := url.Parse(server)
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", Env, err)
	}
	name := "treadle_" + strings.ToLower(rand.Text())
	if err := admin(ctx, server, "CREATE DATABASE "+name+" TEMPLATE template0"); err != nil {
		return "", nil, err
	}
	u.Path = "/" + name
	return u.String(), func() error {
		return admin(context.WithoutCancel(ctx), server, "DROP DATABASE "+name+" WITH (FORCE)")
	}, nil
}

// recovers reports whether err comes from a server that has crashed and is not ready yet.
func recovers(err error) bool {
	e, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err)
	return ok && e.SQLState() == "57P03"
}

// admin runs a statement that cannot run in a transaction. A previous test may have
// crashed the server, so admin waits for a recovering server.
func admin(ctx context.Context, server, statement string) (err error) {
	db, err := connect(server)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = db.PingContext(ctx)
	for end := time.Now().Add(30 * time.Second); recovers(err) && time.Now().Before(end); err = db.PingContext(ctx) {
		if err := delay.For(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, statement)
	return err
}

// connect uses the driver pgx, which the test binary links, so that this package and its
// module do not require it.
func connect(server string) (*sql.DB, error) {
	if !slices.Contains(sql.Drivers(), "pgx") {
		return nil, errors.New(`pgtest needs the driver pgx: import _ "github.com/jackc/pgx/v5/stdlib" next to TestMain`)
	}
	return sql.Open("pgx", server)
}

// Server returns the URL of the server's default database. It creates the cluster on
// first use.
func Server() (string, error) {
	if server := os.Getenv(Env); server != "" {
		return server, nil
	}
	private.once.Do(func() { private.err = private.start() })
	return private.url, private.err
}

// Durable makes the test binary's cluster write commits to disk, like a production
// server. Benchmarks set it before they use the cluster. Tests kill the server, not the
// machine, so its writes remain in the operating system's cache and nothing is lost
// without it; with it, dropping a database takes most of a second.
var Durable bool

// private is the test binary's own cluster.
var private cluster

type cluster struct {
	once  sync.Once
	err   error
	dir   string
	url   string
	stdin io.WriteCloser // closing it stops the cluster
	ended chan error
}

func (c *cluster) stop() error {
	if c.stdin == nil {
		return nil
	}
	if err := c.stdin.Close(); err != nil {
		return fmt.Errorf("stop the tests' postgres: %w", err)
	}
	c.stdin = nil
	return <-c.ended
}

// programs finds the newest initdb and postgres in the same directory.
func programs(places string) (initdb, postgres string, err error) {
	dirs, err := filepath.Glob(places)
	if err != nil {
		return "", "", err
	}
	version := func(dir string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(dir))) // names that are not numbers sort last
		return n
	}
	slices.SortFunc(dirs, func(a, b string) int { return version(b) - version(a) })
	if found, err := exec.LookPath("initdb"); err == nil {
		if found, err = filepath.EvalSymlinks(found); err == nil {
			dirs = append(dirs, filepath.Dir(found))
		}
	}
	for _, dir := range dirs {
		initdb, postgres = filepath.Join(dir, "initdb"), filepath.Join(dir, "postgres")
		if exists(initdb) && exists(postgres) {
			return initdb, postgres, nil
		}
	}
	return "", "", errors.New("missing Postgres: " + install)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// watch runs the server until standard input is closed, which the operating system does
// even if the test binary is killed, and then removes the remaining files. A line of
// input names the signal that stops the server, and the next line starts it again.
const watch = `dir=$1; shift
"$@" </dev/null & pid=$!
while read signal; do
	kill -$signal $pid; wait $pid; pid=
	read line || break
	"$@" </dev/null & pid=$!
done
[ -n "$pid" ] && kill -INT $pid && wait $pid
rm -rf "$dir"
exit 0`

// Process is a Postgres server that can be stopped and restarted. It keeps its port and
// its files.
type Process struct {
	t testing.TB
	c cluster
}

// New starts a separate server, regardless of TREADLE_TEST_POSTGRES. It stops when the
// test ends.
func New(t testing.TB) *Process {
	t.Helper()
	need.Program(t, need.Postgres)
	p := &Process{t: t}
	if err := p.c.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.c.stop(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// URL returns the URL of the server's default database.
func (p *Process) URL() string { return p.c.url }

// Stop stops the server and ends its sessions, like a service restart, and waits until it
// has exited.
func (p *Process) Stop() { p.stop("INT") }

// Crash is like [Process.Stop], but the server does not shut down cleanly: it recovers
// from its log when it starts.
func (p *Process) Crash() { p.stop("QUIT") }

func (p *Process) stop(signal string) {
	p.t.Helper()
	p.tell(signal)
	until := time.Now().Add(time.Minute)
	for exists(filepath.Join(p.c.dir, "data", "postmaster.pid")) {
		if time.Now().After(until) {
			p.t.Fatal("Postgres does not stop")
		}
		<-time.After(10 * time.Millisecond)
	}
}

// Start starts the server after Stop or Crash and waits until it responds.
func (p *Process) Start() {
	p.t.Helper()
	p.tell("start")
	if err := p.c.ready(); err != nil {
		p.t.Fatalf("start the tests' postgres again: %v", err)
	}
}

func (p *Process) tell(what string) {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.c.stdin, what); err != nil {
		p.t.Fatalf("%s the tests' postgres: %v", what, err)
	}
}

// start creates the cluster and waits until it responds.
func (c *cluster) start() error {
	initdb, postgres, err := programs("/usr/lib/postgresql/*/bin") // where Debian installs each version
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "pgtest")
	if err != nil {
		return err
	}
	c.dir = dir
	if err := c.startIn(dir, initdb, postgres); err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "log")) // may not exist
		return errors.Join(fmt.Errorf("start a postgres for the tests: %w\n%s", err, log), c.stop(), os.RemoveAll(dir))
	}
	return nil
}

func (c *cluster) startIn(dir, initdb, postgres string) error {
	password := rand.Text()
	secret := filepath.Join(dir, "password")
	if err := os.WriteFile(secret, []byte(password+"\n"), 0o600); err != nil {
		return err
	}
	as, err := serverUser(dir, secret)
	if err != nil {
		return err
	}
	data := filepath.Join(dir, "data")
	init := exec.CommandContext(context.Background(), initdb, "-D", data, "-U", "treadle", "-E", "UTF8", "--no-locale", "--no-sync",
		"--auth-local=reject", "--auth-host=scram-sha-256", "--pwfile="+secret)
	init.Dir, init.SysProcAttr = dir, as
	if out, err := init.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the server has its own handle
	fsync := "off"
	if Durable {
		fsync = "on"
	}
	server := exec.CommandContext(context.Background(), "/bin/sh", "-c", watch, "sh", dir, postgres, "-D", data, "-p", strconv.Itoa(port),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="+dir, "-c", "max_connections=500", "-c", "fsync="+fsync)
	server.Dir = dir
	server.SysProcAttr = as
	server.Stdout = log
	server.Stderr = log
	stdin, err := server.StdinPipe()
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return err
	}
	c.stdin, c.ended = stdin, make(chan error, 1)
	go func() { c.ended <- server.Wait() }()
	c.url = fmt.Sprintf("postgres://treadle:%s@127.0.0.1:%d/postgres", password, port)
	return c.ready()
}

// freePort returns a port that was free a moment ago.
func freePort() (int, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}

// ready waits until the server responds.
func (c *cluster) ready() error {
	const patience = 2 * time.Minute // long enough for a busy machine
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	every := time.NewTicker(20 * time.Millisecond)
	defer every.Stop()
	db, err := connect(c.url)
	if err != nil {
		return err
	}
	for {
		err := db.PingContext(ctx)
		if err == nil {
			return db.Close()
		}
		select {
		case <-every.C:
		case ended := <-c.ended:
			c.ended <- ended
			return errors.Join(errors.New("server has ended"), ended)
		case <-ctx.Done():
			return fmt.Errorf("no response: %w", err)
		}
	}
}
