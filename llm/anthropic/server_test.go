package anthropic_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

type httpAnswer = http.HandlerFunc

// server responds to requests in turn and records them.
type server struct {
	*httptest.Server
	t *testing.T

	mu      sync.Mutex
	answers []httpAnswer
	bodies  [][]byte
	headers []http.Header
}

func serve(t *testing.T, answers ...httpAnswer) *server {
	t.Helper()
	s := &server{t: t, answers: answers}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Errorf("reading a request: %v", err)
	}
	s.mu.Lock()
	s.bodies, s.headers = append(s.bodies, body), append(s.headers, r.Header)
	n := len(s.bodies)
	s.mu.Unlock()
	if n > len(s.answers) {
		s.t.Errorf("request %d is one too many: %s", n, body)
		http.Error(w, "unexpected", http.StatusTeapot)
		return
	}
	s.answers[n-1](w, r)
}

// body returns what request i sent.
func (s *server) body(i int) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i >= len(s.bodies) {
		s.t.Fatalf("there were %d requests, want more than %d", len(s.bodies), i)
	}
	return s.bodies[i]
}

// file answers with a file of testdata: a stream or a whole answer.
func file(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		body, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			http.Error(w, err.Error(), http.StatusTeapot)
			return
		}
		text(strings.TrimPrefix(filepath.Ext(name), "."), http.StatusOK, string(body))(w, nil)
	}
}

// text answers with a body: of kind sse, json or html.
func text(kind string, status int, body string, header ...string) http.HandlerFunc {
	types := map[string]string{"sse": "text/event-stream; charset=utf-8", "json": "application/json", "html": "text/html"}
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", types[kind])
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body) // the client may be gone
	}
}

// ok returns a whole answer that says ok.
func ok() http.HandlerFunc {
	return text("json", http.StatusOK, string(writeWhole(llmtest.Reply{Text: []string{"ok"}, Stop: llm.StopEnd})))
}

// golden compares JSON with a file of testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	want, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(plain(t, want), plain(t, got)); d != "" {
		t.Errorf("%s (-want +got):\n%s\nin full: %s", name, d, got)
	}
}

func plain(t *testing.T, raw []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return v
}
