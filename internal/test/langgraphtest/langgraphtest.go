//go:build unix

// Package langgraphtest starts LangGraph's own Python server, for tests.
package langgraphtest

import (
	"bytes"
	"context"
	"net"
	"net/http"
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

// Start starts the server with the ten graphs in dir, which is the directory
// examples/platform/conformance/official, and returns its address. The script .ci/python
// installs the server. Files in the directories more are added to those of dir, or replace
// them.
func Start(t *testing.T, dir string, more ...string) string {
	t.Helper()
	need.Program(t, need.Python)
	python, err := filepath.Abs(filepath.Join(dir, ".venv", "bin", "python"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(python); err != nil {
		t.Fatalf("LangGraph's server is not installed: run .ci/python: %v", err)
	}
	here := t.TempDir() // it stores its state where it runs
	files := []string{filepath.Join(dir, "graphs.py"), filepath.Join(dir, "langgraph.json")}
	for _, extra := range more {
		found, err := filepath.Glob(filepath.Join(extra, "*.*"))
		if err != nil || len(found) == 0 {
			t.Fatalf("no files in %s: %v", extra, err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(here, filepath.Base(file)), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	port := freePort(t)
	cmd := exec.CommandContext(context.Background(), python, "-m", "langgraph_cli", "dev", "--no-browser", "--no-reload", "--host", "127.0.0.1",
		"--port", port, "--n-jobs-per-worker", "20", "--config", "langgraph.json")
	cmd.Dir = here
	cmd.Env = append(os.Environ(), "LANGSMITH_TRACING=false", "LANGGRAPH_CLI_NO_ANALYTICS=1", "PYTHONUNBUFFERED=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	log := &output{}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-ended
	})
	url := "http://127.0.0.1:" + port
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(3 * time.Minute); !responds(t, url); {
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

// responds reports whether a server is ready.
func responds(t *testing.T, url string) bool {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/ok", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// freePort returns an unused port.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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
