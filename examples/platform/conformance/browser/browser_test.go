package browser

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/internal/test/browsertest"
	"github.com/treadle-go/treadle/internal/test/platform"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/server"
	"github.com/treadle-go/treadle/sqlite"
	"github.com/treadle-go/treadle/ui"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var only = flag.String("only", "", "run the checks whose names start with `PREFIX`")

func TestPages(t *testing.T) {
	g := &gates{open: map[string]chan struct{}{}, end: make(chan struct{})}
	c := &connections{next: serve(t, g), open: map[*connection]bool{}}
	mux := http.NewServeMux()
	mux.Handle("/", c)
	components, err := ui.Handler(map[string]fs.FS{"weather": os.DirFS("../../../ui/components")})
	if err != nil {
		t.Fatal(err)
	}
	mux.Handle("/ui/", components)
	mux.HandleFunc("POST /gates/{name}", func(_ http.ResponseWriter, r *http.Request) { close(g.named(r.PathValue("name"))) })
	mux.HandleFunc("POST /cut/{thread}", func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, c.cut(r.PathValue("thread")))
	})
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	browsertest.Run(t, "main.mjs", "--url", web.URL, "--only", *only)
}

// serve returns a server with the graphs for comparing servers and those of graphs_test.go. It
// must end without an error in its log.
func serve(t *testing.T, g *gates) http.Handler {
	t.Helper()
	graphs, err := platform.All()
	if err != nil {
		t.Fatal(err)
	}
	m := &model{gates: g, asked: map[string]int{}}
	for _, build := range []func(*model) (treadle.AnyGraph, error){newChat, newWeather, newHelper, newCopilot} {
		graph, err := build(m)
		if err != nil {
			t.Fatal(err)
		}
		graphs = append(graphs, graph)
	}
	db, err := sqlite.Open(filepath.Join(t.TempDir(), "browser.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	s, err := server.New(db, graphs, &server.Options{
		CORS:   &server.CORS{Origins: []string{"*"}}, // the pages come from another server
		Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		close(g.end)
		if err := s.Drain(context.Background()); err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		if log.Len() > 0 {
			t.Errorf("the server's log has errors: %s", log.String())
		}
	})
	return s
}

// gates are what answers wait for in the middle. They are closed until the script opens them.
type gates struct {
	mu   sync.Mutex
	open map[string]chan struct{}
	end  chan struct{} // closed at the end of the test
}

func (g *gates) named(name string) chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open[name] == nil {
		g.open[name] = make(chan struct{})
	}
	return g.open[name]
}

// connections hands requests to a server, and cuts their connections as a network does that fails.
type connections struct {
	next http.Handler
	mu   sync.Mutex
	open map[*connection]bool
}

type connection struct {
	path   string
	cancel func()
	ended  chan struct{}
}

// ServeHTTP implements [http.Handler].
func (c *connections) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	conn := &connection{r.URL.Path, cancel, make(chan struct{})}
	defer close(conn.ended)
	c.mu.Lock()
	c.open[conn] = true
	c.mu.Unlock()
	c.next.ServeHTTP(w, r.WithContext(ctx))
	c.mu.Lock()
	delete(c.open, conn)
	c.mu.Unlock()
	if ctx.Err() != nil {
		panic(http.ErrAbortHandler) // without it the answer would look as if it were whole
	}
}

// cut cuts the connections of the requests about a thread, and returns how many there were.
func (c *connections) cut(thread string) int {
	c.mu.Lock()
	var about []*connection
	for conn := range c.open {
		if strings.Contains(conn.path, thread) {
			about = append(about, conn)
		}
	}
	c.mu.Unlock()
	for _, conn := range about {
		conn.cancel()
		<-conn.ended
	}
	return len(about)
}

// model repeats the last message, word by word, with the number of times that its thread has asked.
// After the word gate:NAME it waits for this gate to be opened, so that a script decides how
// much of the answer a page has when something happens to the page.
type model struct {
	gates *gates
	mu    sync.Mutex
	asked map[string]int
}

var word = regexp.MustCompile(`\S+\s*`)

// Stream implements [llm.Model].
func (m *model) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	text := req.Messages[len(req.Messages)-1].Text()
	key := treadle.InfoFrom(ctx).Thread + " " + text
	m.mu.Lock()
	m.asked[key]++
	answer := fmt.Sprintf("Answer %d: %s", m.asked[key], text)
	m.mu.Unlock()
	return func(yield func(llm.Chunk, error) bool) {
		for _, w := range word.FindAllString(answer, -1) {
			if !yield(llm.Chunk{Content: w}, nil) {
				return
			}
			gate, ok := strings.CutPrefix(strings.TrimSpace(w), "gate:")
			if !ok {
				continue
			}
			select {
			case <-m.gates.named(gate):
			case <-m.gates.end:
			case <-ctx.Done():
				yield(llm.Chunk{}, ctx.Err())
				return
			}
		}
	}
}
