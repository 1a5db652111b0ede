package files_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent/deep/files"
	"github.com/treadle-go/treadle/agent/deep/files/filestest"
	"github.com/treadle-go/treadle/store"
)

func threadFiles(t *testing.T) (context.Context, files.Backend) {
	ctx, _ := files.WithOverlay(t.Context(), nil)
	return ctx, files.Thread{}
}

func storeFiles(t *testing.T) (context.Context, files.Backend) {
	s := treadle.Must(store.NewMemory(nil))
	b, err := files.NewStore(&files.StoreOptions{Store: s, Namespace: func(context.Context) (store.Namespace, error) { return store.Namespace{"files", "ada"}, nil }})
	if err != nil {
		t.Fatal(err)
	}
	return t.Context(), b
}

func dir(t *testing.T, at string) *files.Dir {
	t.Helper()
	d, err := files.NewDir(at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func TestThread(t *testing.T) { filestest.Run(t, threadFiles) }

func TestThreadBelowDirectory(t *testing.T) {
	filestest.Run(t, func(t *testing.T) (context.Context, files.Backend) {
		ctx, _ := files.WithOverlay(t.Context(), files.Records{"/other": files.Text("x"), "/mine2/x": files.Text("x")})
		return ctx, files.Thread{At: "/mine"}
	})
}

func TestStore(t *testing.T) { filestest.Run(t, storeFiles) }

func TestDir(t *testing.T) {
	filestest.Run(t, func(t *testing.T) (context.Context, files.Backend) { return t.Context(), dir(t, t.TempDir()) })
}

// The mount is empty, is reached by the suite's directory /d, or contains all its files.
func TestMount(t *testing.T) {
	for _, at := range []string{"/elsewhere/deep", "/d"} {
		t.Run(strings.Trim(at, "/"), func(t *testing.T) {
			filestest.Run(t, func(t *testing.T) (context.Context, files.Backend) {
				if at == "/d" && !strings.HasSuffix(t.Name(), "Names") && !strings.HasSuffix(t.Name(), "Glob") && !strings.HasSuffix(t.Name(), "Walk") {
					at = "/elsewhere/d" // other cases expect that /d can be a file
				}
				ctx, thread := threadFiles(t)
				return ctx, hideMount{mounted(t, thread, at, dir(t, t.TempDir()))}
			})
		})
	}
}

// hideMount omits an empty mount from listings, because the suite starts with no entries.
type hideMount struct{ files.Backend }

func (h hideMount) List(ctx context.Context, dir string) ([]files.Entry, error) {
	all, err := h.Backend.List(ctx, dir)
	var out []files.Entry
	for _, e := range all {
		if e.Path != "/elsewhere" {
			out = append(out, e)
		}
	}
	return out, err
}

func mounted(t *testing.T, rest files.Backend, at string, b files.Backend) files.Backend {
	t.Helper()
	m, err := files.Mount(rest, map[string]files.Backend{at: b})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func write(t *testing.T, ctx context.Context, b files.Backend, p, content string) {
	t.Helper()
	if err := b.Write(ctx, p, []byte(content), files.Any); err != nil {
		t.Fatal(err)
	}
}

func TestMountRoutesByLongestPrefix(t *testing.T) {
	ctx, thread := threadFiles(t)
	disk := t.TempDir()
	_, shared := storeFiles(t)
	m, err := files.Mount(thread, map[string]files.Backend{"/disk/": dir(t, disk), "/disk/shared": shared})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"/a", "/disk/b", "/disk/shared/c", "/disks", "/disk/sharedX"} {
		write(t, ctx, m, p, p)
	}
	for where, p := range map[files.Backend]string{thread: "/disks", shared: "/c"} {
		if _, err := where.Open(ctx, p); err != nil {
			t.Errorf("%s: %v", p, err)
		}
	}
	if raw, err := os.ReadFile(filepath.Join(disk, "sharedX")); err != nil || string(raw) != "/disk/sharedX" {
		t.Errorf("%q, %v", raw, err)
	}
	var got []string
	for e, err := range m.Walk(ctx, "/") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.Path)
	}
	if d := cmp.Diff([]string{"/a", "/disk/b", "/disk/shared/c", "/disk/sharedX", "/disks"}, got); d != "" {
		t.Error(d)
	}
	if !files.IsTransactional(m, "/a") || files.IsTransactional(m, "/disk/b") {
		t.Error("only the thread's files are transactional")
	}
}

// silent is a backend that does not respond until it is released.
type silent struct {
	files.Backend
	released chan struct{}
}

func (s silent) Walk(context.Context, string) iter.Seq2[files.Entry, error] {
	return func(yield func(files.Entry, error) bool) {
		<-s.released
		yield(files.Entry{Path: "/", Dir: true}, errors.New("no response"))
	}
}

// A mounted backend that hangs must not hide the files before it.
func TestMountWalksOtherFilesFirst(t *testing.T) {
	disk, nested, released := t.TempDir(), t.TempDir(), make(chan struct{})
	for _, name := range []string{"a", "net", "z"} {
		if err := os.WriteFile(filepath.Join(disk, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(nested, "b"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := files.Mount(dir(t, disk), map[string]files.Backend{"/m": dir(t, nested), "/m/inner": dir(t, nested), "/n": silent{released: released}})
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for e, err := range m.Walk(t.Context(), "/") {
		found = append(found, fmt.Sprint(e.Path, " ", err))
		if e.Path == "/m/inner/b" {
			close(released)
		}
	}
	if d := cmp.Diff([]string{"/a <nil>", "/m/b <nil>", "/m/inner/b <nil>", "/n no response", "/net <nil>", "/z <nil>"}, found); d != "" {
		t.Error(d)
	}
}

func TestMountRejectsMistakes(t *testing.T) {
	for name, at := range map[string]map[string]files.Backend{
		"root": {"/": files.Thread{}}, "nil": {"/a": nil}, "twice": {"/a": files.Thread{}, "/a/": files.Thread{}}, "dots": {"/a/../b": files.Thread{}},
	} {
		if _, err := files.Mount(files.Thread{}, at); err == nil {
			t.Errorf("%s accepted", name)
		}
	}
	if _, err := files.Mount(nil, nil); err == nil {
		t.Error("nil backend accepted")
	}
}

func TestCleanPaths(t *testing.T) {
	for given, want := range map[string]string{
		"a/b": "/a/b", "/a//b/": "/a/b", `a\b`: "/a/b", "./a/./b": "/a/b", "": "/", ".": "/", "a..b": "/a..b", "/[...x].ts": "/[...x].ts", "/...": "/...",
	} {
		if got, err := files.Clean(given); err != nil || got != want {
			t.Errorf("Clean(%q) = %q, %v; want %q", given, got, err, want)
		}
	}
	for _, given := range []string{"..", "/a/../b", `a\..\..\etc`, "~", "~/x", "~root", "C:/x", `c:\x`, "a\x00b", "a\nb", "\xff", "/" + strings.Repeat("x", 2000)} {
		if got, err := files.Clean(given); !errors.Is(err, files.ErrPath) {
			t.Errorf("Clean(%q) = %q, %v", given, got, err)
		}
	}
}

func TestPatternMistakes(t *testing.T) {
	for _, pattern := range []string{"", "a/../b", "[a", "{a,b", "~/x", strings.Repeat("{a,b}", 12), strings.Repeat("x", 2000)} {
		if _, err := files.Compile(pattern); !errors.Is(err, files.ErrPath) {
			t.Errorf("%.40q: %v", pattern, err)
		}
	}
	if _, err := files.CompileRule("secret/**"); !errors.Is(err, files.ErrPath) {
		t.Error("relative rule accepted")
	}
}

// A hostile pattern must not take exponential time.
func TestPatternTakesLinearTime(t *testing.T) {
	p, err := files.Compile("/" + strings.Repeat("**/a/", 100) + "b")
	if err != nil {
		t.Fatal(err)
	}
	if p.Match("/", "/"+strings.Repeat("a/", 400)+"c") {
		t.Error("matches")
	}
}

func TestRulePatternsMatchHiddenNames(t *testing.T) {
	p, err := files.CompileRule("/secret/**")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"/secret": true, "/secret/.env": true, "/secret/.a/.b": true, "/secrets": false} {
		if p.Match("/", name) != want {
			t.Errorf("%s: want %v", name, want)
		}
	}
	if p.Anchor() != "/secret" {
		t.Errorf("anchor %s", p.Anchor())
	}
}

func TestRecordsReadOtherForms(t *testing.T) {
	var got files.Records
	raw := `{"/a":{"content":["x","y"],"created_at":"2025-01-02T03:04:05.000006","modified_at":"2025-01-02T03:04:05+00:00"},
		"/b":{"content":"/w==","encoding":"base64"},"/c":"text","/d":null}`
	if err := json.Unmarshal([]byte(raw), &got); err != nil {
		t.Fatal(err)
	}
	want := files.Records{"/a": {Content: []byte("x\ny"), Created: time.Date(2025, 1, 2, 3, 4, 5, 6000, time.UTC), Modified: time.Date(2025, 1, 2, 3, 4, 5, 0, time.UTC)},
		"/b": {Content: []byte{0xff}}, "/c": files.Text("text"), "/d": nil}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	again, err := json.Marshal(want["/b"])
	if err != nil || string(again) != `{"content":"/w==","encoding":"base64"}` {
		t.Errorf("%s, %v", again, err)
	}
	for _, bad := range []string{`{"/a":{"content":1}}`, `{"/a":{"content":"x","encoding":"rot13"}}`, `{"/a":{"content":"%","encoding":"base64"}}`} {
		if err := json.Unmarshal([]byte(bad), &got); err == nil {
			t.Errorf("%s accepted", bad)
		}
	}
}

// The records of a thread are the JSON that deepagents writes, and read back the same.
func TestRecordsRoundTrip(t *testing.T) {
	at := time.Date(2026, 11, 19, 10, 0, 0, 5000, time.UTC)
	want := files.Records{"/a\n\"b\u2028": {Content: []byte("one\ttwo \\ <x> \x01\u2029 ü\r\n"), Created: at, Modified: at.Add(time.Hour)}, "/b": {Content: []byte{0xff, 0}}, "/c": {Content: []byte{}}, "/d": nil}
	raw, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got files.Records
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s\n%s", raw, d)
	}
	if one, _ := json.Marshal(files.Records{"/a": want["/a\n\"b\u2028"]}); !strings.HasSuffix(string(one), `,"encoding":"utf-8","created_at":"2026-11-19T10:00:00.000005Z","modified_at":"2026-11-19T11:00:00.000005Z"}}`) {
		t.Errorf("got %s", one)
	}
}

func TestRecordsMergeAndDelete(t *testing.T) {
	was := files.Records{"/a": files.Text("1"), "/b": files.Text("2")}
	now := was.Reduce(files.Records{"/b": nil, "/c": files.Text("3")})
	if d := cmp.Diff(files.Records{"/a": files.Text("1"), "/c": files.Text("3")}, now); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(now, was.Reduce(was.Changes(now))); d != "" {
		t.Error(d)
	}
}

// Nothing outside the directory can be read, replaced, or deleted, whatever is in it.
func TestDirConfinesPaths(t *testing.T) {
	outside := t.TempDir()
	secret := filepath.Join(outside, "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	for name, target := range map[string]string{"link": secret, "dir": outside, "up": "../", "inner": "real", "loop": "loop"} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(root, "real"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := mkfifo(filepath.Join(root, "fifo")); err != nil {
		t.Fatal(err)
	}
	d, ctx := dir(t, root), t.Context()
	write(t, ctx, d, "/real/file", "x")
	for _, p := range []string{"/link", "/dir/secret", "/up/x", "/inner/file", "/loop", "/loop/x", "/fifo"} {
		_, err := d.Open(ctx, p)
		denied(t, "open "+p, err)
		denied(t, "write "+p, d.Write(ctx, p, []byte("mine"), files.Any))
		denied(t, "delete "+p, d.Delete(ctx, p, files.Any))
	}
	for _, p := range []string{"/dir", "/inner", "/up", "/loop"} {
		_, err := d.List(ctx, p)
		denied(t, "list "+p, err)
	}
	var found []string
	for e, err := range d.Walk(ctx, "/") {
		found = append(found, e.Path)
		if err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff([]string{"/real/file"}, found); diff != "" {
		t.Error(diff)
	}
	if raw, err := os.ReadFile(secret); err != nil || string(raw) != "secret" {
		t.Errorf("secret is %q, %v", raw, err)
	}
}

func denied(t *testing.T, what string, err error) {
	t.Helper()
	switch {
	case !errors.Is(err, fs.ErrPermission):
		t.Errorf("%s: got error %v, want permission denied", what, err)
	case strings.Contains(err.Error(), os.TempDir()):
		t.Errorf("%s: error shows the real path: %v", what, err)
	}
}

// Another process exchanges a directory for a symbolic link all the time. Whatever is read
// and written stays inside.
func TestDirSurvivesExchangedDirectories(t *testing.T) {
	outside, root := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "f"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	private := filepath.Join(root, "private")
	if err := os.Mkdir(private, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(private, "f"), []byte("private"), 0o600); err != nil {
		t.Fatal(err)
	}
	d, ctx := dir(t, root), t.Context()
	write(t, ctx, d, "/open/f", "open")
	stop := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() {
		at, aside, link := filepath.Join(root, "open"), filepath.Join(root, "aside"), filepath.Join(root, "ln")
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			target := outside
			if i%2 == 0 {
				target = "private"
			}
			_ = os.Symlink(target, link) // each step may fail if the test writes in between
			_ = os.Rename(at, aside)
			_ = os.Rename(link, at)
			_ = os.Remove(at)
			_ = os.Rename(aside, at)
			_ = os.Remove(link)
		}
	})
	for i := range 1000 {
		if raw, err := files.Read(ctx, d, "/open/f", 100); err == nil && string(raw) != "open" && string(raw) != "mine" {
			t.Errorf("read %q through a link", raw)
		}
		if i%10 != 0 {
			continue
		}
		_ = d.Write(ctx, "/open/f", []byte("mine"), files.Any) // may fail while the directory is away
	}
	close(stop)
	swapping.Wait()
	for p, want := range map[string]string{filepath.Join(outside, "f"): "secret", filepath.Join(private, "f"): "private"} {
		if raw, err := os.ReadFile(p); err != nil || string(raw) != want {
			t.Errorf("%s is %q, %v", p, raw, err)
		}
	}
}

func TestDirKeepsModeAndHidesTemporaryFiles(t *testing.T) {
	root := t.TempDir()
	script := filepath.Join(root, "run.sh")
	if err := os.WriteFile(script, []byte("a"), 0o700); err != nil { //nolint:gosec // a script is executable
		t.Fatal(err)
	}
	d, ctx := dir(t, root), t.Context()
	write(t, ctx, d, "/run.sh", "b")
	is, err := os.Stat(script)
	if err != nil || is.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v", is.Mode(), err)
	}
	if err := os.WriteFile(filepath.Join(root, ".treadle-x"), nil, 0o600); err != nil { // of a process that died
		t.Fatal(err)
	}
	all, err := d.List(ctx, "/")
	if err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
	if err := d.Write(ctx, "/.treadle-y", nil, files.Any); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("reserved name: %v", err)
	}
	for _, p := range []string{"/.treadle-y/a", "/a/.treadle-old-y/b/c"} { // a file that no listing would show
		_, open := d.Open(ctx, p)
		_, list := d.List(ctx, path.Dir(p))
		for what, err := range map[string]error{"write": d.Write(ctx, p, nil, files.Any), "delete": d.Delete(ctx, p, files.Any), "open": open, "list": list} {
			if !errors.Is(err, fs.ErrPermission) {
				t.Errorf("%s %s: %v", what, p, err)
			}
		}
	}
}

func TestStoreRequiresNamespace(t *testing.T) {
	if _, err := files.NewStore(nil); err == nil {
		t.Error("store without namespace accepted")
	}
}

func TestThreadNeedsItsAgent(t *testing.T) {
	if _, err := (files.Thread{}).Open(t.Context(), "/a"); err == nil {
		t.Error("opened outside of an agent")
	}
}
