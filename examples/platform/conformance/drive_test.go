package conformance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// result is what a script prints about a check.
type result struct {
	Name  string
	OK    bool
	Error string
	// Covers are the fields of the requests that the check made, by endpoint, with --covers.
	Covers map[string][]string
}

// scripts are the ways to drive a server.
var scripts = map[string][]string{
	"javascript 1.12": {"js/main.mjs", "--sdk", "1"},
	"javascript 2.0":  {"js/main.mjs", "--sdk", "2"},
	"python async":    {"py/main.py", "--client", "async"},
	"python sync":     {"py/main.py", "--client", "sync"},
}

// Drive runs a script against the server at url, and returns a function that reports each
// check as a subtest.
func Drive(ctx context.Context, url, script string, args ...string) func(*testing.T) {
	results, err := run(ctx, scripts[script][0], arguments(url, script, args...)...)
	return func(t *testing.T) {
		t.Helper()
		for _, r := range results {
			t.Run(r.Name, func(t *testing.T) {
				if !r.OK {
					t.Error(r.Error)
				}
			})
		}
		if err != nil {
			t.Error(err)
		}
		if len(results) == 0 {
			t.Errorf("%s %q made no checks", script, args)
		}
	}
}

func arguments(url, script string, args ...string) []string {
	return slices.Concat([]string{"--url", url}, scripts[script][1:], args)
}

// run runs a script and returns its results. That checks failed is not an error.
func run(ctx context.Context, file string, args ...string) ([]result, error) {
	cmd, err := command(ctx, file, args...)
	if err != nil {
		return nil, err
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	results, failed, readErr := read(bufio.NewScanner(stdout))
	err = cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 1 && failed {
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", file, err, stderr.Bytes())
	}
	return results, errors.Join(readErr, err)
}

func read(lines *bufio.Scanner) (results []result, failed bool, err error) {
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var r result
		if bad := json.Unmarshal(lines.Bytes(), &r); bad != nil || r.Name == "" {
			err = errors.Join(err, fmt.Errorf("not the result of a check: %s", lines.Bytes()))
			continue
		}
		results, failed = append(results, r), failed || !r.OK
	}
	return results, failed, errors.Join(err, lines.Err())
}

// command returns the command that runs a script with what .ci/npm and .ci/python have installed.
func command(ctx context.Context, file string, args ...string) (*exec.Cmd, error) {
	program, needs, install := "node", "js/node_modules", ".ci/npm"
	if strings.HasSuffix(file, ".py") {
		program, needs, install = filepath.FromSlash("py/.venv/bin/python"), "py/.venv/installed", ".ci/python"
	}
	if _, err := os.Stat(needs); err != nil {
		return nil, fmt.Errorf("%w: run %s first", err, install)
	}
	cmd := exec.CommandContext(ctx, program, append([]string{file}, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	return cmd, nil
}

// fake answers some requests as a server should and all others with 404.
func fake(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ok", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"ok": true}`)) })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

func TestScriptsReportEachCheck(t *testing.T) {
	results, err := run(t.Context(), scripts["javascript 1.12"][0], arguments(fake(t), "javascript 1.12", "--only", "system.ok", "--covers")...)
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != 2 || len(results[0].Covers) != 1 {
		t.Errorf("results %+v", results)
	}
}

func TestScriptsFailOnAServerThatDoesNotConform(t *testing.T) {
	for name, script := range scripts {
		t.Run(name, func(t *testing.T) {
			results, err := run(t.Context(), script[0], arguments(fake(t), name, "--only", "threads.create")...)
			if err != nil {
				t.Fatal(err)
			}
			if len(results) < 5 {
				t.Errorf("only %d results", len(results))
			}
			for _, r := range results {
				if r.OK || r.Error == "" {
					t.Errorf("%s passed on a server without threads", r.Name)
				}
			}
		})
	}
}

func TestScriptsHaveManyChecks(t *testing.T) {
	for name, script := range scripts {
		cmd, err := command(t.Context(), script[0], append(script[1:], "--list")...)
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if n := len(strings.Fields(string(out))); n < 200 {
			t.Errorf("%s has %d checks", name, n)
		}
	}
}
