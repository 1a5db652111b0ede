package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/fsnotify/fsnotify"
)

// tree writes files into a new directory and changes to it.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	return dir
}

const (
	testModule  = "module shop\n\ngo 1.26\n"
	testProgram = "package main\n\nfunc main() {}\n"
)

func TestDevFindsProgram(t *testing.T) {
	for _, test := range []struct {
		name  string
		files map[string]string
		named string
		want  string // the package, or part of the error
	}{
		{"here", map[string]string{"go.mod": testModule, "main.go": testProgram, "cmd/a/main.go": testProgram}, "", "."},
		{"only program in cmd", map[string]string{"go.mod": testModule, "shop.go": "package shop\n", "cmd/a/main.go": testProgram, "cmd/b/b.go": "package b\n"}, "", "./cmd/a"},
		{"nothing here", map[string]string{"go.mod": testModule, "cmd/a/main.go": testProgram}, "", "./cmd/a"},
		{"named", map[string]string{"go.mod": testModule, "cmd/a/main.go": testProgram, "cmd/b/main.go": testProgram}, "./cmd/b", "./cmd/b"},
		{"several", map[string]string{"go.mod": testModule, "cmd/a/main.go": testProgram, "cmd/b/main.go": testProgram}, "", "several programs: specify one of ./cmd/a, ./cmd/b"},
		{"none", map[string]string{"go.mod": testModule, "shop.go": "package shop\n"}, "", "no program in this directory or ./cmd. Write one as below, or start with treadle new NAME:\n\npackage main\n"},
		{"no module", map[string]string{"main.go": testProgram}, "", "this directory is not in a Go module. Write one"},
		{"nothing at all", map[string]string{"README": "hello"}, "", ""}, // the demo is served
		{"this module", map[string]string{"go.mod": strings.Replace(testModule, "module shop", "module "+ownModules[0], 1), "cmd/treadle/main.go": testProgram}, "", ""},
		{"not a program", map[string]string{"go.mod": testModule, "shop.go": "package shop\n"}, ".", ". is package shop, not a program. Write one"},
		{"not there", map[string]string{"go.mod": testModule}, "./nosuch", "nosuch"},
	} {
		t.Run(test.name, func(t *testing.T) {
			tree(t, test.files)
			got, err := findProgram(t.Context(), test.named)
			if err != nil {
				got = err.Error()
			}
			if got != test.want && (err == nil || !strings.Contains(got, test.want)) {
				t.Errorf("found %q, want %q", got, test.want)
			}
		})
	}
}

func TestDevShowsExampleWithoutProgram(t *testing.T) {
	tree(t, map[string]string{"go.mod": testModule})
	got := call(t.Context(), "dev")
	if got.Code != 1 || !strings.HasPrefix(got.Stderr, "treadle: no program") || !strings.Contains(got.Stderr, "\tstandalone.Main(nil, graph)") {
		t.Errorf("got %+v", got)
	}
}

func TestDevRequiresFreePort(t *testing.T) {
	tree(t, map[string]string{"go.mod": testModule, "main.go": testProgram})
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	got := call(t.Context(), "dev", "--port", strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	if got.Code != 1 || !strings.Contains(got.Stderr, "address already in use: stop the other program, or use --port") {
		t.Errorf("got %+v", got)
	}
}

// If the first build fails, the command prints the errors and waits for a change.
func TestDevWaitsAfterFailedFirstBuild(t *testing.T) {
	tree(t, map[string]string{"go.mod": testModule, "main.go": testProgram + "nonsense\n"})
	cache, err := goCommand(t.Context(), "env", "GOCACHE")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOCACHE", strings.TrimSpace(string(cache)))
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got result
	stderr := writerFunc(func(p []byte) (int, error) {
		got.Stderr += string(p)
		if strings.Contains(got.Stderr, "waiting for changes\n") {
			cancel() // as Ctrl-C does
		}
		return len(p), nil
	})
	got.Code = run(ctx, []string{"dev", "--port", "0"}, strings.NewReader(""), brokenPipe{}, stderr)
	if got.Code != 0 || !strings.Contains(got.Stderr, "main.go:4:1: syntax error") || !strings.Contains(got.Stderr, "treadle: build failed; waiting for changes\n") {
		t.Errorf("got %+v", got)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestWatcherSelectsRelevantFiles(t *testing.T) {
	dir := tree(t, map[string]string{
		"go.mod":                  testModule,
		"main.go":                 "package main\n\nimport _ \"embed\"\n\n//go:embed texts prompt*.md\nvar s string\n\nfunc main() {}\n",
		"texts/a/b.txt":           "b",
		"prompt1.md":              "p",
		"treadle.json":            `{"env":"conf/dev.env"}`,
		"conf/dev.env":            "",
		".git/config":             "",
		"node_modules/x/index.js": "",
		"vendor/x/x.go":           "package x\n",
		"other/go.mod":            "module other\n",
		"other/other.go":          "package other\n",
		"treadle.db":              "",
	})
	w, err := newWatcher(t.Context(), "treadle.json")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.close() }()
	// The pattern is invalid for a string, but go list reports it anyway.
	if err := w.follow(t.Context(), "."); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"main.go": true, "sub/new.go": true, "go.mod": true, "go.sum": true, "treadle.json": true, "langgraph.json": true, "conf/dev.env": true,
		"texts/a/b.txt": true, "texts/new.txt": true, "prompt2.md": true,
		"main_test.go": false, ".#main.go": false, "README.md": false, "treadle.db": false, "treadle.db-wal": false, "conf/other.env": false, ".env": false, "main.go~": false,
	} {
		file := filepath.Join(dir, name)
		if got := w.changed(fsnotify.Event{Name: file, Op: fsnotify.Write}) == file; got != want {
			t.Errorf("%s matters: %v, want %v", name, got, want)
		}
		if w.changed(fsnotify.Event{Name: file, Op: fsnotify.Chmod}) != "" {
			t.Errorf("%s: change of mode matters", name)
		}
	}
	watched := strings.Join(w.w.WatchList(), "\n") + "\n"
	for _, name := range []string{"", "/texts", "/texts/a", "/conf"} {
		if !strings.Contains(watched, dir+name+"\n") {
			t.Errorf("%s is not watched", dir+name)
		}
	}
	for _, name := range []string{".git", "node_modules", "vendor", "other"} {
		if strings.Contains(watched, filepath.Join(dir, name)+"\n") {
			t.Errorf("%s is watched", name)
		}
	}
	// A directory that appears with files, as after git checkout.
	fresh := filepath.Join(dir, "fresh", "deep")
	if err := os.MkdirAll(fresh, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(fresh, "x.go"), []byte("package deep\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := w.changed(fsnotify.Event{Name: filepath.Join(dir, "fresh"), Op: fsnotify.Create}); got != filepath.Join(fresh, "x.go") {
		t.Errorf("new directory: %q", got)
	}
	if !strings.Contains(strings.Join(w.w.WatchList(), "\n")+"\n", fresh+"\n") {
		t.Error("new directory is not watched")
	}
}

func TestReleaseOf(t *testing.T) {
	for version, want := range map[string]string{
		"v1.2.3": "v1.2.3", "v1.2.3-rc.1": "v1.2.3-rc.1", "v0.0.0-20261001120000-0123456789ab": "v0.0.0-20261001120000-0123456789ab",
		"(devel)": "", "": "", "v1.2.3+dirty": "",
	} {
		diff(t, releaseOf(&debug.BuildInfo{Main: debug.Module{Version: version}}, true), want)
	}
	diff(t, releaseOf(nil, false), "")
}

func TestCheckoutIsFoundFromElsewhere(t *testing.T) {
	want, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	diff(t, checkout(), want)
}
