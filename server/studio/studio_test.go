package studio_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/server/studio"
)

func get(t *testing.T, url string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	studio.Handler("/api/studio").ServeHTTP(w, r)
	return w
}

func text(t *testing.T, r io.Reader) string {
	t.Helper()
	raw, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestPageAndScriptAreServed(t *testing.T) {
	page := get(t, "/api/studio/")
	if page.Code != http.StatusOK || !strings.HasPrefix(page.Header().Get("Content-Type"), "text/html") {
		t.Fatalf("the page: %d, %s", page.Code, page.Header().Get("Content-Type"))
	}
	if html := text(t, page.Body); !strings.Contains(html, `src="./studio.js"`) || strings.Contains(html, "<style") || strings.Contains(html, "<script>") {
		t.Errorf("the page does not load its script from a file, or has inline parts:\n%s", html)
	}
	script := get(t, "/api/studio/studio.js", "Accept-Encoding", "gzip, br")
	if script.Code != http.StatusOK || script.Header().Get("Content-Encoding") != "gzip" {
		t.Fatalf("the script: %d, encoding %q", script.Code, script.Header().Get("Content-Encoding"))
	}
	unzipped, err := gzip.NewReader(script.Body)
	if err != nil {
		t.Fatal(err)
	}
	if plain := text(t, get(t, "/api/studio/studio.js").Body); text(t, unzipped) != plain {
		t.Error("the script differs when it is compressed")
	}
}

func TestUnchangedFilesReturn304(t *testing.T) {
	tag := get(t, "/api/studio/studio.js").Header().Get("ETag")
	if again := get(t, "/api/studio/studio.js", "If-None-Match", tag); tag == "" || again.Code != http.StatusNotModified {
		t.Errorf("tag %q: %d", tag, again.Code)
	}
}

func TestPathWithoutSlashRedirects(t *testing.T) {
	r := get(t, "/api/studio?thread=7")
	if to := r.Header().Get("Location"); r.Code != http.StatusMovedPermanently || to != "/api/studio/?thread=7" {
		t.Errorf("%d to %q", r.Code, to)
	}
}

func TestPolicyAllowsOwnAndNamedServer(t *testing.T) {
	for url, want := range map[string]string{
		"/api/studio/": "connect-src 'self';",
		"/api/studio/?baseUrl=http://localhost:2024/v1":      "connect-src 'self' http://localhost:2024;",
		"/api/studio/?baseUrl=javascript:alert(1)":           "connect-src 'self';",
		"/api/studio/?baseUrl=http://a;script-src%20*":       "connect-src 'self';",
		"/api/studio/?baseUrl=http://*":                      "connect-src 'self';",
		"/api/studio/?baseUrl=https://a.example%20*.example": "connect-src 'self';",
	} {
		policy := get(t, url).Header().Get("Content-Security-Policy")
		if !strings.Contains(policy, want) || !strings.Contains(policy, "script-src 'self';") {
			t.Errorf("%s: %s", url, policy)
		}
	}
}

func TestMissingFilesReturn404(t *testing.T) {
	if r := get(t, "/api/studio/../../etc/passwd"); r.Code != http.StatusNotFound {
		t.Error(r.Code)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/studio/", http.NoBody)
	w := httptest.NewRecorder()
	studio.Handler("/api/studio").ServeHTTP(w, r)
	if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d", w.Code)
	}
}
