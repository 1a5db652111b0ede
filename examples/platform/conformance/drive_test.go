package conformance

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/internal/test/scripttest"
)

// scripts are the ways to drive a server.
var scripts = map[string][]string{
	"javascript 1.12": {"js/main.mjs", "--sdk", "1"},
	"javascript 2.0":  {"js/main.mjs", "--sdk", "2"},
	"python async":    {"py/main.py", "--client", "async"},
	"python sync":     {"py/main.py", "--client", "sync"},
}

// Drive runs a script against the server at url, and returns a function that reports each
// check as a subtest and returns them.
func Drive(ctx context.Context, url, script string, args ...string) func(*testing.T) []scripttest.Result {
	results, err := run(ctx, scripts[script][0], arguments(url, script, args...)...)
	return func(t *testing.T) []scripttest.Result {
		t.Helper()
		scripttest.Report(t, results, err)
		return results
	}
}

func arguments(url, script string, args ...string) []string {
	return slices.Concat([]string{"--url", url}, scripts[script][1:], args)
}

// run runs a script and returns its results.
func run(ctx context.Context, file string, args ...string) ([]scripttest.Result, error) {
	cmd, err := command(ctx, file, args...)
	if err != nil {
		return nil, err
	}
	return scripttest.Run(cmd)
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
	if err := scripttest.Track(filepath.Dir(file)); err != nil {
		return nil, err
	}
	return exec.CommandContext(ctx, program, append([]string{file}, args...)...), nil
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

func TestScriptsFailOnNonconformingServer(t *testing.T) {
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
