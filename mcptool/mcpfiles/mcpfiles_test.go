package mcpfiles_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/treadle-go/treadle/agent/deep"
	"github.com/treadle-go/treadle/agent/deep/files"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/mcptool"
	"github.com/treadle-go/treadle/mcptool/mcpfiles"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve returns the files of a server with resources.
func serve(t *testing.T, uris ...string) files.Backend {
	t.Helper()
	s := mcp.NewServer(&mcp.Implementation{Name: "wiki", Version: "v1"}, &mcp.ServerOptions{PageSize: 3})
	read := func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		c := &mcp.ResourceContents{URI: r.Params.URI, Text: "text of " + r.Params.URI}
		if strings.HasSuffix(c.URI, ".png") {
			c.Text, c.Blob = "", []byte{0, 1, 2}
		}
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{c}}, nil
	}
	for _, uri := range uris {
		s.AddResource(&mcp.Resource{URI: uri, Name: uri, Size: -1}, read)
	}
	h := httptest.NewServer(mcptool.Handler(s, &mcptool.HandlerOptions{Sessions: true}))
	t.Cleanup(h.Close)
	all, err := mcptool.Connect(t.Context(), mcptool.Server{Name: "wiki", URL: h.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := all.Close(); err != nil {
			t.Error(err)
		}
	})
	return mcpfiles.New(all)
}

// walk returns the paths below a directory, and checks that they are valid.
func walk(t *testing.T, b files.Backend, dir string) (out []string) {
	t.Helper()
	for e, err := range b.Walk(t.Context(), dir) {
		if clean, cleanErr := files.Clean(e.Path); err != nil || cleanErr != nil || clean != e.Path || e.Size < 0 {
			t.Errorf("%+v, %v, %v", e, err, cleanErr)
		}
		out = append(out, e.Path)
	}
	return out
}

func TestResourcesAreFiles(t *testing.T) {
	b := serve(t, "docs://guide/setup.md", "docs://guide/owl.png", "file:///etc/motd", "note:7")
	if d := cmp.Diff([]string{"/wiki/7", "/wiki/etc/motd", "/wiki/guide/owl.png", "/wiki/guide/setup.md"}, walk(t, b, "/")); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"/wiki/guide/owl.png", "/wiki/guide/setup.md"}, walk(t, b, "/wiki/guide")); d != "" {
		t.Error(d)
	}
	list, err := b.List(t.Context(), "/wiki")
	if d := cmp.Diff([]files.Entry{{Path: "/wiki/7"}, {Path: "/wiki/etc", Dir: true}, {Path: "/wiki/guide", Dir: true}}, list); err != nil || d != "" {
		t.Error(err, d)
	}
	for p, want := range map[string]string{"/wiki/guide/setup.md": "text of docs://guide/setup.md", "/wiki/guide/owl.png": "\x00\x01\x02", "/wiki/7": "text of note:7"} {
		if raw, err := files.Read(t.Context(), b, p, 100); err != nil || string(raw) != want {
			t.Errorf("%s: %q, %v", p, raw, err)
		}
	}
	_, openDir := b.Open(t.Context(), "/wiki/guide")
	_, openNone := b.Open(t.Context(), "/wiki/none")
	_, listFile := b.List(t.Context(), "/wiki/7")
	for what, c := range map[string]struct{ err, want error }{
		"open directory": {openDir, files.ErrIsDir}, "open missing": {openNone, fs.ErrNotExist}, "list file": {listFile, fs.ErrNotExist},
		"write":  {b.Write(t.Context(), "/wiki/7", nil, files.Any), fs.ErrPermission},
		"delete": {b.Delete(t.Context(), "/wiki/7", files.Any), fs.ErrPermission},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v", what, c.err)
		}
	}
}

// A server chooses its URIs, so every one becomes a valid path of its own below the name of the server.
func TestHostileURIsStayBelowServer(t *testing.T) {
	uris := []string{"a://x", "b://x", "c://x/y", "d:///../../../etc/passwd", "e://h/%2e%2e/%2e%2e/f", `f://h/a%5c..%5cb`, "g://h/line%0Abreak",
		"h://", "i:///", "j://x/y?q=1&r=../..", "k://~root", "l://h/" + strings.Repeat("long/", 300), "m:..", "n://h//two"}
	b := serve(t, uris...)
	all := walk(t, b, "/")
	if len(all) != len(uris)-1 { // one is too long
		t.Errorf("%d files of %d resources: %q", len(all), len(uris), all)
	}
	read := map[string]bool{}
	for _, p := range all {
		raw, err := files.Read(t.Context(), b, p, 10_000)
		if err != nil || !strings.HasPrefix(p, "/wiki/") || read[string(raw)] {
			t.Errorf("%s: %.100q, %v", p, raw, err)
		}
		read[string(raw)] = true
	}
	if !slices.Contains(all, "/wiki/x~1") || !slices.Contains(all, "/wiki/x~2") || !slices.Contains(all, "/wiki/x/y") {
		t.Errorf("a name that is taken has no suffix: %q", all)
	}
}

// lists starts a server whose list of resources is given, and returns its configuration.
func lists(t *testing.T, name string, list func(context.Context) []*mcp.Resource) mcptool.Server {
	t.Helper()
	s := mcp.NewServer(&mcp.Implementation{Name: name, Version: "v1"}, &mcp.ServerOptions{Capabilities: &mcp.ServerCapabilities{Resources: &mcp.ResourceCapabilities{}}})
	s.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			if method == "resources/list" {
				return &mcp.ListResourcesResult{Resources: list(ctx)}, nil
			}
			return next(ctx, method, r)
		}
	})
	h := httptest.NewServer(mcptool.Handler(s, nil))
	t.Cleanup(h.Close)
	return mcptool.Server{Name: name, URL: h.URL}
}

func connect(t *testing.T, servers ...mcptool.Server) files.Backend {
	t.Helper()
	all, err := mcptool.Connect(t.Context(), servers...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := all.Close(); err != nil {
			t.Error(err)
		}
	})
	return mcpfiles.New(all)
}

// A server chooses how often it lists a URI, and which URIs have the same path.
func TestHostileListsHaveBoundedNames(t *testing.T) {
	const n, few = 10_000, 600 // few long URIs, because 10 MB take seconds on a busy machine
	for name, c := range map[string]struct {
		uri     func(i int) string
		n, want int
	}{
		"one URI":  {func(int) string { return "a://x" }, n, 1},
		"one path": {func(i int) string { return fmt.Sprintf("s%d://x", i) }, n, n},
		"one long path": {func(i int) string {
			return fmt.Sprintf("s%d://%s", i, strings.Repeat("x", files.MaxPath-len("/evil/")))
		}, few, 1},
		"taken suffixes":   {func(i int) string { return fmt.Sprintf("s%d://x%s", i, strings.Repeat(fmt.Sprint("~", i/2+1), i%2)) }, n, n},
		"deep paths":       {func(i int) string { return fmt.Sprintf("a://%d/%s", i, strings.Repeat("d/", 480)) }, few, few},
		"nested directory": {func(i int) string { return "a://" + strings.Repeat("d/", i%490+1) }, few, 490},
	} {
		t.Run(name, func(t *testing.T) {
			b := connect(t, lists(t, "evil", func(context.Context) (out []*mcp.Resource) {
				for i := range c.n {
					out = append(out, &mcp.Resource{URI: c.uri(i), Name: "r"})
				}
				return out
			}))
			all := walk(t, b, "/")
			if len(all) != c.want || len(slices.Compact(slices.Sorted(slices.Values(all)))) != len(all) {
				t.Errorf("%d files, want %d", len(all), c.want)
			}
			if !slices.IsSortedFunc(all, files.Compare) {
				t.Error("the files are not in order")
			}
		})
	}
}

// A server that is gone or does not respond must not hide the resources of others.
func TestFailedServerHidesNoOther(t *testing.T) {
	docs := func(context.Context) []*mcp.Resource { return []*mcp.Resource{{URI: "a://doc", Name: "doc"}} }
	silent := lists(t, "hangs", func(ctx context.Context) []*mcp.Resource { <-ctx.Done(); return nil })
	silent.Timeout = 300 * time.Millisecond
	b := connect(t, silent, lists(t, "wiki", docs), lists(t, "empty", func(context.Context) []*mcp.Resource { return nil }))
	var found, failed []string
	for e, err := range b.Walk(t.Context(), "/") {
		if err != nil {
			failed = append(failed, e.Path)
		} else {
			found = append(found, e.Path)
		}
	}
	if !slices.Equal(found, []string{"/wiki/doc"}) || !slices.Equal(failed, []string{"/hangs"}) {
		t.Errorf("found %q, failed %q", found, failed)
	}
	list, err := b.List(t.Context(), "/")
	if d := cmp.Diff([]files.Entry{{Path: "/hangs", Dir: true}, {Path: "/wiki", Dir: true}}, list); err != nil || d != "" {
		t.Error(err, d)
	}
	if _, err := b.List(t.Context(), "/hangs"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("directory of the server: %v", err)
	}
	for p, want := range map[string]error{"/hangs/doc": context.DeadlineExceeded, "/wiki/none": fs.ErrNotExist, "/nobody/doc": fs.ErrNotExist, "/wiki": files.ErrIsDir} {
		if _, err := b.Open(t.Context(), p); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", p, err, want)
		}
	}
}

// A resource that the server has replaced since it was listed is found again.
func TestReplacedResourceIsListedAgain(t *testing.T) {
	uri := "old://doc"
	s := mcp.NewServer(&mcp.Implementation{Name: "wiki", Version: "v1"}, nil)
	add := func() {
		s.AddResource(&mcp.Resource{URI: uri, Name: "doc"}, func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: r.Params.URI}}}, nil
		})
	}
	add()
	h := httptest.NewServer(mcptool.Handler(s, nil))
	t.Cleanup(h.Close)
	b := connect(t, mcptool.Server{Name: "wiki", URL: h.URL})
	for _, next := range []string{"old://doc", "new://doc"} {
		s.RemoveResources(uri)
		uri = next
		add()
		raw, err := files.Read(t.Context(), b, "/wiki/doc", 100)
		if err != nil || string(raw) != uri {
			t.Errorf("%q, %v, want %q", raw, err, uri)
		}
	}
}

func TestDeepAgentReadsResources(t *testing.T) {
	b, err := files.Mount(files.Thread{}, map[string]files.Backend{"/mcp": serve(t, "docs://guide/setup.md")})
	if err != nil {
		t.Fatal(err)
	}
	const file = "/mcp/wiki/guide/setup.md"
	model := llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("read_file", map[string]string{"file_path": file})),
		llmtest.Ask(llmtest.ToolCall("write_file", map[string]string{"file_path": file, "content": "x"})), llmtest.Say("done"))
	g, err := deep.New(model, &deep.Options{Files: deep.FilesOptions{Backend: b}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := g.Run(t.Context(), deep.Ask("go"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range out.Messages {
		if m.Role == llm.RoleTool {
			got = append(got, m.Text())
		}
	}
	if len(got) != 2 || !strings.Contains(got[0], "text of docs://guide/setup.md") || !strings.Contains(got[1], "cannot be changed") {
		t.Errorf("results %q", got)
	}
}
