package crashtest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/treadle-go/treadle/internal/test/pgtest"
	"github.com/treadle-go/treadle/internal/test/system/backends"
)

// orderEnv is the environment variable that turns the test binary into a child
// process; it contains an order as JSON.
const orderEnv = "TREADLE_CRASHTEST_ORDER"

// An order describes the work of a child process.
type order struct {
	Role    string // a key of roles
	Backend string // the name of one of backends.All
	Address string // its address, whose database 0 is used
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

	// Of deep agents: AtEffect counts tool calls, and AtPut all points.
	Dir string

	// Of wakers.
	Signalled bool // every thread has its signal
}

var roles = map[string]func(order, backends.Database) error{
	roleBackground: runBackground,
	roleCode:       runDeep,
	roleDeep:       runDeep,
	roleShell:      runShell,
	"player":       playAll,
	"sibling":      runSiblings,
	"waker":        wakeAll,
	"writer":       writeAll,
}

// open opens the database of an order.
func (o *order) open() (backends.Database, error) {
	return backends.ByName(o.Backend).Open(context.Background(), o.Address, 0)
}

// onEach runs a test on a database of every backend.
func onEach(t *testing.T, test func(t *testing.T, b *backends.Backend, address string)) {
	for _, b := range backends.All {
		t.Run(b.Name, func(t *testing.T) { test(t, b, b.Address(t)) })
	}
}

// tests end the Postgres server before goroutines are counted.
type tests struct{ *testing.M }

func (t tests) Run() int { return pgtest.Run(t.M) }

func TestMain(m *testing.M) {
	if raw := os.Getenv(orderEnv); raw != "" {
		if err := runOrder(raw); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(tests{m})
}

// runOrder runs an order in the child process.
func runOrder(raw string) error {
	go func() { // it ends when the test does, however that ends
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	var o order
	if err := json.Unmarshal([]byte(raw), &o); err != nil {
		return err
	}
	db, err := o.open()
	if err != nil {
		return err
	}
	if err := roles[o.Role](o, db); err != nil {
		return err
	}
	return db.Close()
}

// A child is a process that runs an order.
type child struct {
	*exec.Cmd
	order  order
	name   string // of its sessions on a database server
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
	c := &child{Cmd: exec.CommandContext(t.Context(), os.Args[0]), order: o, name: rand.Text(), stderr: &strings.Builder{}}
	c.Env = append(os.Environ(), orderEnv+"="+string(raw), "PGAPPNAME="+c.name)
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
// whether it was killed. A database server may commit the last statement of a killed
// process after its death, so end waits for the server as well: otherwise, the next
// process might see an empty thread and send the same input again.
func (c *child) end(t *testing.T) (killed bool) {
	t.Helper()
	err := c.Wait()
	_ = c.in.Close() // Wait has closed it
	switch {
	case err == nil:
		return false
	case c.ProcessState.ExitCode() == -1: // a signal
		if b := backends.ByName(c.order.Backend); b.AwaitEnd != nil {
			if err := b.AwaitEnd(t.Context(), c.order.Address, c.name); err != nil {
				t.Fatal(err)
			}
		}
		return true
	}
	t.Fatalf("child process: %v\n%s", err, c.stderr.String())
	return false
}
