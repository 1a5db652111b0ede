//go:build unix

package clienttest

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/treadle-go/treadle/internal/test/need"
)

// officialDir has LangGraph's own Python server with the ten graphs. The script .ci/python
// installs it.
const officialDir = "../../../../examples/platform/conformance/official"

// official starts LangGraph's server and returns its address.
func official(t *testing.T) string {
	t.Helper()
	need.Program(t, need.Python)
	python, err := filepath.Abs(filepath.Join(officialDir, ".venv", "bin", "python"))
	ok(t, err)
	if _, err := os.Stat(python); err != nil {
		t.Fatalf("LangGraph's server is not installed: run .ci/python: %v", err)
	}
	dir := t.TempDir() // it stores its state where it runs
	for _, name := range []string{"graphs.py", "langgraph.json"} {
		text, err := os.ReadFile(filepath.Join(officialDir, name))
		ok(t, err)
		ok(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	port := freePort(t)
	cmd := exec.CommandContext(context.Background(), python, "-m", "langgraph_cli", "dev", "--no-browser", "--no-reload", "--host", "127.0.0.1",
		"--port", port, "--n-jobs-per-worker", "20", "--config", "langgraph.json")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LANGSMITH_TRACING=false", "LANGGRAPH_CLI_NO_ANALYTICS=1", "PYTHONUNBUFFERED=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	log := &output{}
	cmd.Stdout, cmd.Stderr = log, log
	ok(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-ended
	})
	url := "http://127.0.0.1:" + port
	c := connect(t, url, nil)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(3 * time.Minute); c.OK(t.Context()) != nil; {
		select {
		case <-tick.C:
		case err := <-ended:
			ended <- err
			t.Fatalf("LangGraph's server ended: %v\n%s", err, log)
		case <-limit:
			t.Fatalf("LangGraph's server does not start\n%s", log)
		}
	}
	return url
}

// freePort returns an unused port.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	ok(t, err)
	defer func() { _ = l.Close() }()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// output collects the output of a process.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// The client works with LangGraph's own server as with ours.
func TestLangGraphsServer(t *testing.T) {
	url := official(t)
	s := &suite{Client: connect(t, url, nil), url: url, langgraph: true}
	t.Run("suite", s.run)
}
