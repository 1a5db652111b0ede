// Package mcpfiles shows the resources of MCP servers to a deep agent as files:
//
//	backend, err := files.Mount(files.Thread{}, map[string]files.Backend{"/mcp": mcpfiles.New(servers)})
//
// The file tools of an agent with this backend list, search, and read the resources, and its permissions
// apply to them.
package mcpfiles

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/treadle-go/treadle/agent/deep/files"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/mcptool"
)

// New returns a backend with the resources that the servers list. The path of a resource is the name of its
// server, and the host, path, and query of its URI: docs://guide/setup.md of the server wiki is
// /wiki/guide/setup.md. A name gets the suffix "~" if it is taken, or if it is the name of a
// directory. A listing asks the servers each time. The files cannot be changed.
func New(servers *mcptool.Servers) files.Backend {
	return &resources{servers: servers}
}

type resources struct {
	servers *mcptool.Servers

	mu    sync.Mutex
	known map[string]mcptool.Resource // by path, as last listed
}

// list returns the resources by path, and the entries of their files in order.
func (b *resources) list(ctx context.Context) (map[string]mcptool.Resource, []files.Entry, error) {
	all, err := b.servers.Resources(ctx)
	if err != nil {
		return nil, nil, err
	}
	slices.SortStableFunc(all, func(a, b mcptool.Resource) int { // the order decides which name gets a suffix
		return cmp.Or(strings.Compare(a.Server, b.Server), strings.Compare(a.URI, b.URI))
	})
	dirs := map[string]bool{}
	paths := make([]string, len(all))
	for i, r := range all {
		p, err := pathOf(r.Server, r.URI)
		if err != nil {
			continue // too long
		}
		paths[i] = p
		for d := path.Dir(p); !dirs[d]; d = path.Dir(d) {
			dirs[d] = true
		}
	}
	known := map[string]mcptool.Resource{}
	var entries []files.Entry
	for i, r := range all {
		p := paths[i]
		if p == "" {
			continue
		}
		for taken := true; taken; {
			if _, taken = known[p]; taken || dirs[p] {
				p, taken = p+"~", true
			}
		}
		known[p] = r
		entries = append(entries, files.Entry{Path: p, Size: max(0, r.Size)})
	}
	slices.SortFunc(entries, func(a, b files.Entry) int { return files.Compare(a.Path, b.Path) })
	b.mu.Lock()
	defer b.mu.Unlock()
	b.known = known
	return known, entries, nil
}

// pathOf returns the path of a resource.
func pathOf(server, uri string) (string, error) {
	rest := uri
	if u, err := url.Parse(uri); err == nil && u.Scheme != "" {
		if rest = u.Opaque; rest == "" {
			rest = u.Host + "/" + strings.TrimPrefix(u.Path, "/")
		}
		if u.RawQuery != "" {
			rest += "?" + u.RawQuery
		}
	}
	elems := []string{url.PathEscape(server)}
	for elem := range strings.SplitSeq(rest, "/") {
		switch elem {
		case "", ".":
		case "..":
			elems = append(elems, "%2E%2E")
		default:
			elems = append(elems, strings.Map(visible, strings.ToValidUTF8(elem, "_")))
		}
	}
	if len(elems) == 1 {
		elems = append(elems, "resource")
	}
	return files.Clean("/" + strings.Join(elems, "/"))
}

// visible replaces what a path may not contain.
func visible(r rune) rune {
	if r < ' ' || r == 0x7f || r == '\\' {
		return '_'
	}
	return r
}

// Open implements [files.Backend].
func (b *resources) Open(ctx context.Context, p string) (*files.File, error) {
	b.mu.Lock()
	r, ok := b.known[p]
	b.mu.Unlock()
	if !ok {
		known, entries, err := b.list(ctx)
		if err != nil {
			return nil, err
		}
		if r, ok = known[p]; !ok {
			if slices.ContainsFunc(entries, func(e files.Entry) bool { return files.Below(e.Path, p) }) {
				return nil, fmt.Errorf("%w: %s", files.ErrIsDir, p)
			}
			return nil, missing(p)
		}
	}
	blocks, err := b.servers.Read(ctx, r.Server, r.URI)
	if err != nil {
		return nil, err
	}
	content := contentOf(blocks)
	return &files.File{Entry: files.Entry{Path: p, Size: int64(len(content))}, ReadCloser: io.NopCloser(bytes.NewReader(content))}, nil
}

// contentOf joins the parts of a resource.
func contentOf(blocks []llm.Block) []byte {
	var parts [][]byte
	for _, b := range blocks {
		if b.Data != nil {
			parts = append(parts, b.Data)
		} else {
			parts = append(parts, []byte(b.Text))
		}
	}
	return bytes.Join(parts, []byte("\n"))
}

func missing(p string) error { return fmt.Errorf("mcpfiles: %s: %w", p, fs.ErrNotExist) }

// Write implements [files.Backend]. It returns an error.
func (*resources) Write(_ context.Context, p string, _ []byte, _ files.Version) error {
	return readOnly(p)
}

// Delete implements [files.Backend]. It returns an error.
func (*resources) Delete(_ context.Context, p string, _ files.Version) error { return readOnly(p) }

func readOnly(p string) error {
	return fmt.Errorf("mcpfiles: %s: resources of MCP servers cannot be changed: %w", p, fs.ErrPermission)
}

// List implements [files.Backend].
func (b *resources) List(ctx context.Context, dir string) ([]files.Entry, error) {
	_, entries, err := b.list(ctx)
	if err != nil {
		return nil, err
	}
	prefix := strings.TrimSuffix(dir, "/") + "/"
	var out []files.Entry
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Path, prefix)
		if !ok {
			continue
		}
		name, _, deeper := strings.Cut(rest, "/")
		if !deeper {
			out = append(out, e)
		} else if n := len(out); n == 0 || out[n-1].Path != prefix+name {
			out = append(out, files.Entry{Path: prefix + name, Dir: true})
		}
	}
	if out == nil && dir != "/" {
		return nil, missing(dir)
	}
	return out, nil
}

// Walk implements [files.Backend].
func (b *resources) Walk(ctx context.Context, dir string) iter.Seq2[files.Entry, error] {
	return func(yield func(files.Entry, error) bool) {
		_, entries, err := b.list(ctx)
		if err != nil {
			yield(files.Entry{Path: dir, Dir: true}, err)
			return
		}
		for _, e := range entries {
			if e.Path != dir && files.Below(e.Path, dir) && !yield(e, nil) {
				return
			}
		}
	}
}
