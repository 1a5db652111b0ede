// Package studio provides a handler for the studio, a web page to view, run, pause, edit, and
// fork graphs.
//
// The page calls only the public API of a server, so it works with every server of LangGraph's
// API: the server of the page, or the server named by ?baseUrl=. Package server serves it at
// /studio/ (see its Options.Studio).
//
// The page is built from web/ by running "npm install && npm run build" there. The output,
// dist/, is committed, so that building a program does not require Node.js. A test rebuilds and
// compares it.
package studio

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"io/fs"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
)

//go:embed dist
var dist embed.FS

// file is a file of the page with its encodings and headers.
type file struct {
	plain, gzipped  []byte
	mediaType, eTag string
}

// files returns the files of the page by name.
var files = sync.OnceValue(func() map[string]*file {
	out := map[string]*file{}
	err := fs.WalkDir(dist, "dist", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		plain, err := dist.ReadFile(name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(plain)
		f := &file{plain: plain, mediaType: mime.TypeByExtension(path.Ext(name)), eTag: `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`}
		var zipped bytes.Buffer
		w := gzip.NewWriter(&zipped)
		_, _ = w.Write(plain) // writes to a buffer cannot fail
		_ = w.Close()
		f.gzipped = zipped.Bytes()
		out[strings.TrimPrefix(name, "dist/")] = f
		return nil
	})
	if err != nil {
		panic("studio: the embedded page cannot be read: " + err.Error())
	}
	return out
})

// Handler serves the page and its files under prefix, such as "/studio". The page expects the
// API one level above.
func Handler(prefix string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "the studio is read with GET", http.StatusMethodNotAllowed)
			return
		}
		name, below := strings.CutPrefix(r.URL.Path, prefix+"/")
		if !below { // the page's relative links need the slash
			to := *r.URL
			to.Path = path.Base(prefix) + "/"
			http.Redirect(w, r, to.String(), http.StatusMovedPermanently)
			return
		}
		if name == "" {
			name = "index.html"
		}
		f := files()[name]
		if f == nil {
			http.Error(w, "the studio has no file "+name, http.StatusNotFound)
			return
		}
		f.send(w, r)
	})
}

func (f *file) send(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", f.mediaType)
	h.Set("ETag", f.eTag)
	h.Set("Cache-Control", "no-cache") // revalidate each time
	h.Set("Vary", "Accept-Encoding")
	h.Set("Content-Security-Policy", policy(r.URL.Query().Get("baseUrl")))
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	if strings.Contains(r.Header.Get("If-None-Match"), f.eTag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := f.plain
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = f.gzipped
	}
	if r.Method == http.MethodGet {
		_, _ = w.Write(body) // fails only if the client has disconnected
	}
}

// policy returns a content security policy that permits only the page's own files, styles set
// by components, and requests to its own server and the server named by baseURL.
func policy(baseURL string) string {
	connect := "'self'"
	if u, err := url.Parse(baseURL); err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && !strings.ContainsAny(u.Host, " ;,'\"*") {
		connect += " " + u.Scheme + "://" + u.Host
	}
	return "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self'; connect-src " + connect +
		"; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}
