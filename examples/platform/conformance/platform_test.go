//go:build unix

package conformance

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/treadle-go/treadle/internal/test/scripttest"
)

// buildDir is where TestMain has examples/platform built.
var buildDir string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "conformance")
	if err != nil {
		panic(err)
	}
	buildDir = dir
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// binary is examples/platform, built once for all tests.
var binary = sync.OnceValues(func() (string, error) {
	file := filepath.Join(buildDir, "platform")
	out, err := exec.CommandContext(context.Background(), "go", "build", "-o", file, "..").CombinedOutput()
	if err != nil {
		return "", errors.New(string(out) + err.Error())
	}
	return file, nil
})

// process is a process of examples/platform.
type process struct {
	url string
	cmd *exec.Cmd
	log strings.Builder // to be read when the process has ended
	end chan error
}

var address = regexp.MustCompile(`msg=serving address=(http://\S+)`)

// start starts examples/platform on a separate database. It is stopped when the test ends,
// and must exit by itself without an error in its log.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	file, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	args = append([]string{"--port", "0", "--db", filepath.Join(t.TempDir(), "platform.db")}, args...)
	p := &process{cmd: exec.CommandContext(context.Background(), file, args...), end: make(chan error, 1)}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.stop(t) })
	served := make(chan string, 1)
	go func() {
		p.read(stderr, served)
		p.end <- p.cmd.Wait()
	}()
	select {
	case p.url = <-served:
	case <-time.After(2 * time.Minute):
		t.Fatal("the server does not start")
	}
	return p
}

// read reads the log to its end and sends the address in it.
func (p *process) read(stderr io.Reader, served chan<- string) {
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		p.log.WriteString(lines.Text() + "\n")
		if m := address.FindStringSubmatch(lines.Text()); m != nil {
			served <- m[1]
		}
	}
}

func (p *process) stop(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	select {
	case err := <-p.end:
		if err != nil {
			t.Errorf("the server ended with %v: %s", err, p.log.String())
		}
	case <-time.After(40 * time.Second): // longer than its grace
		_ = p.cmd.Process.Kill()
		t.Errorf("the server did not end within 40 s of SIGTERM: %v: %s", <-p.end, p.log.String())
	}
	if strings.Contains(p.log.String(), "level=ERROR") {
		t.Errorf("the server's log has errors: %s", p.log.String())
	}
}

var goroutineCount = regexp.MustCompile(`(?m)^go_goroutines (\d+)$`)

// goroutines returns the number of the server's goroutines.
func (p *process) goroutines(t *testing.T) int {
	t.Helper()
	defer http.DefaultClient.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	m := goroutineCount.FindSubmatch(raw)
	if m == nil {
		t.Fatalf("no goroutines in %s", raw)
	}
	n, err := strconv.Atoi(string(m[1]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// settled waits until the server has no more goroutines than at its start. A few of them
// belong to the connection that queries the number.
func (p *process) settled(t *testing.T, began int) {
	t.Helper()
	const spare = 5
	n := 0
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) { //nolint:forbidigo // a server over HTTP is waited for
		if n = p.goroutines(t); n <= began+spare {
			return
		}
	}
	t.Errorf("the server has %d goroutines half a minute after its clients disconnected, and had %d at the start", n, began)
}

// Scripts mostly wait for runs that are slow on purpose, so all of them run concurrently.
func TestPlatformConforms(t *testing.T) {
	reports := map[string]func(*testing.T) []scripttest.Result{}
	for name := range scripts {
		reports[name] = drive(t, name)
		reports[name+" with access rules"] = drive(t, name, "--auth")
	}
	results := map[string][]scripttest.Result{}
	for name, report := range reports {
		t.Run(name, func(t *testing.T) { results[name] = report(t) })
	}
	if !t.Failed() {
		compareCovered(t, results)
	}
}

// drive starts a script against a server for it alone, and returns a function that waits for
// its end and reports its results. The options are the server's and the script's.
func drive(t *testing.T, script string, options ...string) (report func(*testing.T) []scripttest.Result) {
	t.Helper()
	p := start(t, options...)
	began := p.goroutines(t)
	done := make(chan func(*testing.T) []scripttest.Result, 1)
	go func() { done <- Drive(t.Context(), p.url, script, append(options, "--covers")...) }()
	return func(t *testing.T) []scripttest.Result {
		t.Helper()
		defer p.settled(t, began)
		return (<-done)(t)
	}
}
