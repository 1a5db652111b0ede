package crashtest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/pgtest"
	"github.com/treadle-go/treadle/postgres"
	"github.com/treadle-go/treadle/sqlite"
)

// orderEnv makes the test binary a child process; it is an order as JSON.
const orderEnv = "TREADLE_CRASHTEST_ORDER"

// An order is what a child process is to do.
type order struct {
	Role    string // a key of roles
	Backend string // a key of backends
	Where   string // the database
	Thread  string // of writers: the thread that they share

	// Of players.
	Journal   string
	Seeds     []uint64 // a thread each
	Leave     bool     // leave questions to the next process
	AtEffect  int      // die at the n-th effect of the process; 0: do not
	AtPut     int      // die at the n-th put of the process; 0: do not
	Afterward bool     // die right after it, not right before

	// Of siblings.
	Graph string // a key of siblingGraphs
	Hang  bool   // the slow one does not return; the process dies

	// Of writers.
	From, Writers int
}

var roles = map[string]func(order, saver) error{
	"player":  playAll,
	"sibling": runSiblings,
	"writer":  writeAll,
}

// A saver is what all backends give.
type saver interface {
	checkpoint.Saver
	checkpoint.Fencer
	io.Closer
}

var backends = map[string]func(where string) (saver, error){
	"sqlite": func(where string) (saver, error) { return sqlite.Open(where, nil) },
	"postgres": func(where string) (saver, error) {
		return postgres.Open(context.Background(), where, &postgres.Options{Migrate: true})
	},
}

// onEach runs a test with every backend. where makes a database.
func onEach(t *testing.T, test func(t *testing.T, backend, where string)) {
	for backend, where := range map[string]func(*testing.T) string{
		"sqlite":   func(t *testing.T) string { return filepath.Join(t.TempDir(), "threads.db") },
		"postgres": func(t *testing.T) string { return pgtest.URL(t) },
	} {
		t.Run(backend, func(t *testing.T) { test(t, backend, where(t)) })
	}
}

// tests end the Postgres server before goroutines are counted.
type tests struct{ *testing.M }

func (t tests) Run() int { return pgtest.Run(t.M) }

func TestMain(m *testing.M) {
	if raw := os.Getenv(orderEnv); raw != "" {
		if err := obey(raw); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(tests{m})
}

// obey is the child process.
func obey(raw string) error {
	go func() { // it ends when the test does, however that ends
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	var o order
	if err := json.Unmarshal([]byte(raw), &o); err != nil {
		return err
	}
	db, err := backends[o.Backend](o.Where)
	if err != nil {
		return err
	}
	if err := roles[o.Role](o, db); err != nil {
		return err
	}
	return db.Close()
}

// A child is a process that obeys an order.
type child struct {
	*exec.Cmd
	in     io.Closer
	out    io.Reader
	stderr *strings.Builder
}

func start(t *testing.T, o order) *child {
	t.Helper()
	raw, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	c := &child{Cmd: exec.CommandContext(t.Context(), os.Args[0]), stderr: &strings.Builder{}}
	c.Env = append(os.Environ(), orderEnv+"="+string(raw))
	c.Stderr = c.stderr
	if c.in, err = c.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if c.out, err = c.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

// end waits for a child that is to end by itself or was killed, and reports
// whether it was killed.
func (c *child) end(t *testing.T) (killed bool) {
	t.Helper()
	err := c.Wait()
	_ = c.in.Close() // Wait has closed it
	switch {
	case err == nil:
		return false
	case c.ProcessState.ExitCode() == -1: // a signal
		return true
	}
	t.Fatalf("the child process: %v\n%s", err, c.stderr.String())
	return false
}
