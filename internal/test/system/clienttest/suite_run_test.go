package clienttest

import (
	"go/parser"
	"go/token"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/client"
)

// notCalled are the routes without a method, with the reason.
var notCalled = map[string]string{
	"GET /docs":                              "a page",
	"GET /metrics":                           "Client.Call",
	"POST /mcp":                              "package mcptool is a client of MCP",
	"GET /mcp":                               "refused",
	"DELETE /mcp":                            "refused",
	"GET /.well-known/agent-card.json":       "another protocol",
	"GET /a2a/{assistant_id}":                "another protocol",
	"POST /a2a/{assistant_id}":               "another protocol",
	"POST /a2a/{assistant_id}/v1":            "another protocol",
	"POST /agui/{assistant_id}":              "another protocol",
	"GET /agui/{assistant_id}/capabilities":  "another protocol",
	"GET /threads/{thread_id}/overview":      "Threads.Get, Runs.List, and Threads.History return the same; for pages",
	"POST /threads/{thread_id}/subgraphs":    "Threads.History with a namespace returns the same; for pages",
	"GET /threads/{thread_id}/stream/events": "a WebSocket; Threads.Command and Threads.Events have the same",

	"GET /a2a/{assistant_id}/.well-known/agent-card.json":    "another protocol",
	"GET /a2a/{assistant_id}/v1/.well-known/agent-card.json": "another protocol",
}

// Every route of the server is called by a method, with the answer that the suite expects.
func TestEveryEndpoint(t *testing.T) {
	transport := &http.Transport{}
	seen := &recorder{RoundTripper: transport}
	url := serve(t, nil, ten(t)...)
	c := connect(t, url, &client.Options{HTTPClient: &http.Client{Transport: seen}})
	t.Cleanup(transport.CloseIdleConnections)
	s := &suite{Client: c, url: url}
	t.Run("suite", s.run)
	if t.Failed() {
		return
	}
	var spec struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	ok(t, c.Call(t.Context(), http.MethodGet, "/openapi.json", nil, &spec))
	called := map[string]bool{}
	for _, r := range seen.requests {
		best, literals := "", -1
		for path := range spec.Paths {
			if n := matches(path, r.URL.EscapedPath()); n > literals {
				best, literals = path, n
			}
		}
		called[r.Method+" "+best] = true
	}
	for path, methods := range spec.Paths {
		for method := range methods {
			route := strings.ToUpper(method) + " " + path
			if !called[route] && notCalled[route] == "" {
				t.Errorf("no method of the client calls %s: call one in suite_test.go, or add the route to notCalled with the reason", route)
			}
			if called[route] && notCalled[route] != "" {
				t.Errorf("%s is called: remove it from notCalled", route)
			}
		}
	}
}

// matches returns the number of parts that a path has in common with a pattern; -1 if it does not match.
func matches(pattern, path string) int {
	a, b := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(a) != len(b) {
		return -1
	}
	n := 0
	for i := range a {
		switch {
		case a[i] == b[i]:
			n++
		case !strings.HasPrefix(a[i], "{"):
			return -1
		}
	}
	return n
}

// A program that calls servers does not link one.
func TestClientDoesNotImportServer(t *testing.T) {
	imports := importsOf(t)
	for _, heavy := range []string{"server", "ledger", "sqlite", "postgres", "server/internal/runs"} {
		if slices.Contains(imports, "github.com/treadle-go/treadle/"+heavy) {
			t.Errorf("client imports %s", heavy)
		}
	}
}

// importsOf returns the imports of a package, without its tests.
func importsOf(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	ok(t, err)
	var all []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		ok(t, err)
		for _, spec := range parsed.Imports {
			all = append(all, strings.Trim(spec.Path.Value, `"`))
		}
	}
	return all
}
