package ui_test

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/treadle-go/treadle/ui"
)

func call(t *testing.T, h http.Handler, method, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "http://localhost:2024"+path, strings.NewReader(body))
	r.RequestURI = path
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestHandlerServesComponents(t *testing.T) {
	h, err := ui.Handler(map[string]fs.FS{"my-graph": fstest.MapFS{
		"a.css": {Data: []byte("p{}")}, "index.js": {Data: []byte("var x")}, "img/a.svg": {Data: []byte("<svg/>")}}})
	if err != nil {
		t.Fatal(err)
	}
	got := call(t, h, "POST", "/ui/my-graph", `{"name":"card"}`)
	const want = `<link rel="stylesheet" href="http://localhost:2024/ui/my-graph/a.css" />
<script src="http://localhost:2024/ui/my-graph/index.js" onload="__LGUI_my_graph.render(&#34;card&#34;, &#34;{{shadowRootId}}&#34;)"></script>
`
	if got.Body.String() != want || got.Code != http.StatusOK || got.Header().Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("got %d %v:\n%s", got.Code, got.Header(), got.Body)
	}
	for file, kind := range map[string]string{"a.css": "text/css", "index.js": "text/javascript", "img/a.svg": "image/svg"} {
		if got := call(t, h, "GET", "/ui/my-graph/"+file, ""); got.Code != http.StatusOK || !strings.HasPrefix(got.Header().Get("Content-Type"), kind) {
			t.Errorf("%s: %d %v", file, got.Code, got.Header())
		}
	}
	// A page of another origin, whose client sends a key.
	r := httptest.NewRequestWithContext(t.Context(), "OPTIONS", "/ui/my-graph", nil)
	r.Header.Set("Access-Control-Request-Headers", "content-type,x-api-key")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusNoContent || w.Header().Get("Access-Control-Allow-Headers") != "content-type,x-api-key" || w.Header().Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("preflight: %d %v", w.Code, w.Header())
	}
}

func TestHandlerKeepsPrefixAndHost(t *testing.T) {
	h, err := ui.Handler(map[string]fs.FS{"g": fstest.MapFS{"index.js": {}}})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), "POST", "https://agents.example.com/api/ui/g", strings.NewReader(`{"name":"card"}`))
	r.RequestURI = "/api/ui/g"
	w := httptest.NewRecorder()
	http.StripPrefix("/api", h).ServeHTTP(w, r)
	if !strings.Contains(w.Body.String(), `src="//agents.example.com/api/ui/g/index.js"`) {
		t.Errorf("got %s", w.Body)
	}
}

func TestHandlerEscapesNames(t *testing.T) {
	h, err := ui.Handler(map[string]fs.FS{"g": fstest.MapFS{"index.js": {}}})
	if err != nil {
		t.Fatal(err)
	}
	got := call(t, h, "POST", "/ui/g", `{"name":"\"><script>alert(1)</script>'\\"}`).Body.String()
	if strings.Contains(got, "<script>") || strings.Count(got, `"`) != 4 {
		t.Errorf("got %s", got)
	}
}

func TestHandlerRejectsInvalidRequests(t *testing.T) {
	h, err := ui.Handler(map[string]fs.FS{"g": fstest.MapFS{"index.js": {}, "sub/a.txt": {}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		method, path, body string
		status             int
	}{
		{"POST", "/ui/other", `{"name":"card"}`, 404},
		{"POST", "/ui/g", `{}`, 400},
		{"POST", "/ui/g", `[`, 400},
		{"POST", "/ui/g", `{"name":"` + strings.Repeat("a", 100_000) + `"}`, 400},
		{"GET", "/ui/g/missing.js", "", 404},
		{"GET", "/ui/g/sub", "", 404},
		{"GET", "/ui/g/..%2f..%2fetc%2fpasswd", "", 404},
		{"GET", "/ui/other/index.js", "", 404},
	} {
		if got := call(t, h, x.method, x.path, x.body); got.Code != x.status {
			t.Errorf("%s %s: %d, want %d", x.method, x.path, got.Code, x.status)
		}
	}
	for want, folder := range map[string]fstest.MapFS{"no .js file": {"a.css": {}}, "two scripts": {"a.js": {}, "b.js": {}}} {
		if _, err := ui.Handler(map[string]fs.FS{"g": folder}); err == nil || !strings.Contains(err.Error(), `ui: components of graph "g": `+want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
