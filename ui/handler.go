package ui

import (
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
)

// Handler serves components for LoadExternalComponent. Mount it at /ui/ of the address that pages
// use for the server of the graphs. Each folder contains the bundle of a graph's components: one
// .js file, and .css files if needed, as `langgraphjs-ui build` of npm @langchain/langgraph-ui
// writes them. Pages load scripts without credentials, so the files are public.
func Handler(folders map[string]fs.FS) (http.Handler, error) {
	h := &handler{bundles: map[string]*bundle{}}
	for graph, folder := range folders {
		b, err := newBundle(graph, folder)
		if err != nil {
			return nil, fmt.Errorf("ui: components of graph %q: %w", graph, err)
		}
		h.bundles[graph] = b
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /ui/{graph}", h.component)
	mux.HandleFunc("GET /ui/{graph}/{file...}", h.file)
	mux.HandleFunc("OPTIONS /ui/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	return open(mux), nil
}

// open lets pages of all origins use a handler, without credentials.
func open(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if asked := r.Header.Get("Access-Control-Request-Headers"); r.Method == http.MethodOptions && asked != "" {
			w.Header().Set("Access-Control-Allow-Headers", asked)
			w.Header().Set("Access-Control-Allow-Methods", "GET, POST")
		}
		h.ServeHTTP(w, r)
	})
}

type handler struct{ bundles map[string]*bundle }

// bundle is the components of a graph.
type bundle struct {
	files  fs.FS
	global string // the script's variable
	script string
	styles []string
}

func newBundle(graph string, files fs.FS) (*bundle, error) {
	all, err := fs.ReadDir(files, ".")
	if err != nil {
		return nil, err
	}
	b := &bundle{files: files, global: globalOf(graph)}
	for _, f := range all {
		switch {
		case path.Ext(f.Name()) == ".css":
			b.styles = append(b.styles, f.Name())
		case path.Ext(f.Name()) == ".js" && b.script != "":
			return nil, fmt.Errorf("two scripts, %s and %s: build them as one bundle", b.script, f.Name())
		case path.Ext(f.Name()) == ".js":
			b.script = f.Name()
		}
	}
	if b.script == "" {
		return nil, errors.New("no .js file: build the components with langgraphjs-ui build")
	}
	return b, nil
}

// globalOf returns the name of the variable that a bundle defines.
func globalOf(graph string) string {
	return "__LGUI_" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, graph)
}

// maxRequest limits the size of a request in bytes.
const maxRequest = 64 << 10

// component sends the HTML that loads a component. The page replaces {{shadowRootId}}.
func (h *handler) component(w http.ResponseWriter, r *http.Request) {
	b := h.bundles[r.PathValue("graph")]
	if b == nil {
		http.Error(w, fmt.Sprintf("ui: graph %q: no components", r.PathValue("graph")), http.StatusNotFound)
		return
	}
	var in struct {
		Name string `json:"name"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest)).Decode(&in); err != nil || in.Name == "" {
		http.Error(w, `ui: invalid request: want {"name": the name of a component}`, http.StatusBadRequest)
		return
	}
	name, err := json.Marshal(in.Name)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	base := address(r)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	for _, file := range b.styles {
		fmt.Fprintf(w, "<link rel=\"stylesheet\" href=\"%s\" />\n", html.EscapeString(base+url.PathEscape(file)))
	}
	call := fmt.Sprintf(`%s.render(%s, "{{shadowRootId}}")`, b.global, name)
	fmt.Fprintf(w, "<script src=\"%s\" onload=\"%s\"></script>\n", html.EscapeString(base+url.PathEscape(b.script)), html.EscapeString(call))
}

// address returns the address of the folder that a request is about, for pages of any origin.
func address(r *http.Request) string {
	where, _, _ := strings.Cut(r.RequestURI, "?") // with the prefix that a handler before this one has removed
	scheme := ""                                  // the page's, because a proxy may have ended TLS
	host := r.Host
	if name, _, err := net.SplitHostPort(r.Host); err == nil {
		host = name
	}
	if ip := net.ParseIP(strings.Trim(host, "[]")); host == "localhost" || ip != nil && ip.IsLoopback() {
		scheme = "http:"
	}
	return scheme + "//" + r.Host + strings.TrimRight(where, "/") + "/"
}

func (h *handler) file(w http.ResponseWriter, r *http.Request) {
	b, name := h.bundles[r.PathValue("graph")], r.PathValue("file")
	if b == nil || !fs.ValidPath(name) {
		http.NotFound(w, r)
		return
	}
	info, err := fs.Stat(b.files, name)
	if err != nil || !info.Mode().IsRegular() {
		http.NotFound(w, r)
		return
	}
	http.ServeFileFS(w, r, b.files, name)
}
