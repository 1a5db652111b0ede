package server_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/internal/test/platform"
	"github.com/treadle-go/treadle/server"
	"github.com/treadle-go/treadle/sqlite"
)

// The calls of an assistant over MCP and over the HTTP API take turns, so that both meet the same load of the machine.
func BenchmarkToolCall(b *testing.B) {
	for name, open := range map[string]func() (server.Database, error){
		"memory": func() (server.Database, error) { return newMemory(), nil },
		"sqlite": func() (server.Database, error) { return sqlite.Open(b.TempDir()+"/bench.db", nil) },
	} {
		b.Run(name, func(b *testing.B) {
			db, err := open()
			if err != nil {
				b.Fatal(err)
			}
			srv, err := server.New(db, treadle.Must(platform.All()), nil)
			if err != nil {
				b.Fatal(err)
			}
			hs := httptest.NewServer(srv)
			defer func() {
				_ = srv.Drain(b.Context())
				hs.Close()
			}()
			send := func(path, body string) time.Duration {
				began := time.Now()
				req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, hs.URL+path, strings.NewReader(body))
				if err != nil {
					b.Fatal(err)
				}
				req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Protocol-Version": {"2025-11-25"}}
				resp, err := hs.Client().Do(req)
				if err != nil {
					b.Fatal(err)
				}
				defer func() { _ = resp.Body.Close() }()
				var text strings.Builder
				if err := resp.Write(&text); err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(text.String(), "Echo: hi") {
					b.Fatalf("%s: %v: %s", path, err, text.String())
				}
				return time.Since(began)
			}
			var run, call time.Duration
			for b.Loop() {
				run += send("/runs/wait", `{"assistant_id":"agent","input":{"messages":[{"role":"user","content":"hi"}]}}`)
				call += send("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"agent","arguments":{"messages":[{"role":"user","content":"hi"}]}}}`)
			}
			b.ReportMetric(float64(run.Microseconds())/float64(b.N), "µs/run")
			b.ReportMetric(float64(call.Microseconds())/float64(b.N), "µs/call")
			b.ReportMetric(float64(call)/float64(run), "call/run")
		})
	}
}
