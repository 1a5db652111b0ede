package openai_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/openai"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// same fails the test if two values differ. Empty and absent are equal.
func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// golden compares JSON with a file, including the order of fields.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	var b bytes.Buffer
	if err := json.Indent(&b, got, "", "  "); err != nil {
		t.Fatalf("%s: %v", got, err)
	}
	b.WriteByte('\n')
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	same(t, name, string(want), b.String())
}

func readFile(t testing.TB, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// wire is a server that sends the same response to every request and records the
// last request.
type wire struct {
	status int
	header map[string]string
	body   string

	request *http.Request
	sent    []byte
}

// ServeHTTP records the request and sends the response.
func (w *wire) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	w.request = r
	w.sent, _ = io.ReadAll(r.Body)
	kind := "application/json"
	if strings.HasPrefix(w.body, "data:") || strings.HasPrefix(w.body, ":") {
		kind = "text/event-stream"
	}
	out.Header().Set("Content-Type", kind)
	for name, v := range w.header {
		out.Header().Set(name, v)
	}
	if w.status != 0 {
		out.WriteHeader(w.status)
	}
	_, _ = io.WriteString(out, w.body)
}

// RoundTrip serves requests to any address.
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, r)
	return rec.Result(), nil
}

// okBody is a whole response.
const okBody = `{"id":"chatcmpl-1","model":"gpt-test","choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}]}`

const (
	own     = "" // OpenAI's own address
	another = "https://llm.example.com/v1"
)

type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip calls the function.
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// modelAt returns a model that uses Chat Completions of the server w.
func modelAt(t *testing.T, url string, w http.RoundTripper) *openai.Model {
	t.Helper()
	t.Setenv("OPENAI_BASE_URL", "")
	m, err := openai.New("gpt-test", &openai.Options{BaseURL: url, Key: "a key", API: "chat", HTTPClient: &http.Client{Transport: w}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// bodyOf returns the body that the model sends to an address.
func bodyOf(t *testing.T, url string, opts []llm.Option, history ...llm.Message) ([]byte, error) {
	t.Helper()
	w := &wire{body: okBody}
	model := llm.With(modelAt(t, url, w), append(opts, llm.NoStream())...)
	_, err := llm.Generate(t.Context(), model, history...)
	return w.sent, err
}

type query struct {
	City string `json:"city" jsonschema:"where to look"`
	Unit string `json:"unit,omitempty" enum:"celsius,fahrenheit"`
	Days int    `json:"days" default:"1"`
}

func weather() *llm.Tool {
	return llm.NewTool("get_weather", "Tells the weather.", func(context.Context, query) (string, error) { return "sunny", nil })
}
