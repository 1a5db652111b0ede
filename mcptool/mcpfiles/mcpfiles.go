// Package mcpfiles shows the resources of MCP servers to a deep agent as files:
//
//	backend, err := files.Mount(files.Thread{}, map[string]files.Backend{"/mcp": mcpfiles.New(servers)})
//
// The file tools of an agent with this backend list, search, and read the resources, and its permissions
// apply to them.
package mcpfiles

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/treadle-go/treadle/agent/deep/files"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/mcptool"
)

// New returns a backend with the resources that the servers list. The path of a resource is the name of its
// server, and the host, path, and query of its URI: docs://guide/setup.md of the server wiki is
// /wiki/guide/setup.md. A name gets a suffix such as "~1" if it is taken, or if it is the name of a
// directory. Resources with longer paths than [files.MaxPath] are left out.
//
// Each listing asks the servers. A server that does not respond within 10 seconds, or the shorter Timeout of
// its [mcptool.Server], fails the listing of its own directory only. The files cannot be changed.
func New(servers *mcptool.Servers) files.Backend {
	b := &resources{servers: servers, known: map[string]map[string]string{}}
	for _, name := range servers.Names() {
		dir := url.PathEscape(name)
		if strings.Trim(dir, ".") == "" {
			dir = strings.ReplaceAll(dir, ".", "%2E")
		}
		b.roots = append(b.roots, root{name, "/" + dir})
	}
	slices.SortFunc(b.roots, func(a, b root) int { return files.Compare(a.dir, b.dir) })
	return b
}

// listTimeout limits the time to list the resources of a server.
const listTimeout = 10 * time.Second

type resources struct {
	servers *mcptool.Servers
	roots   []root // in order

	mu    sync.Mutex
	known map[string]map[string]string // URIs by server and path, as last listed
}

// root is the directory of a server.
type root struct{ server, dir string }

// listing contains the files of a server, in order, or the reason why they are unknown.
type listing struct {
	root
	entries []files.Entry
	err     error
}

// list lists the servers whose directories are at or below dir, or contain it, concurrently.
func (b *resources) list(ctx context.Context, dir string) []listing {
	var out []listing
	for _, r := range b.roots {
		if files.Below(r.dir, dir) || files.Below(dir, r.dir) {
			out = append(out, listing{root: r})
		}
	}
	var all sync.WaitGroup
	for i := range out {
		all.Go(func() { out[i].entries, out[i].err = b.listServer(ctx, out[i].root) })
	}
	all.Wait()
	return out
}

func (b *resources) listServer(ctx context.Context, r root) ([]files.Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	found, err := b.servers.Resources(ctx, r.server)
	if err != nil {
		return nil, err
	}
	known, entries := named(r.dir, found)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.known[r.server] = known
	return entries, nil
}

// named returns the URIs of a server's resources by path, and the entries of their files in order. The server
// chooses the URIs, so the time must be bounded for any of them.
func named(dir string, found []mcptool.Resource) (map[string]string, []files.Entry) {
	slices.SortStableFunc(found, func(a, b mcptool.Resource) int { return strings.Compare(a.URI, b.URI) }) // the order decides which name gets a suffix
	found = slices.CompactFunc(found, func(a, b mcptool.Resource) bool { return a.URI == b.URI })
	paths := make([]string, len(found))
	var wanted []string
	for i, r := range found {
		if p, err := pathOf(dir, r.URI); err == nil { // otherwise it is too long
			paths[i] = p
			wanted = append(wanted, p)
		}
	}
	slices.SortFunc(wanted, files.Compare)
	// isDir reports whether a wanted path is below p: such a path directly follows p.
	isDir := func(p string) bool {
		i, _ := slices.BinarySearchFunc(wanted, p+"/", files.Compare)
		return i < len(wanted) && files.Below(wanted[i], p)
	}
	known := map[string]string{}
	tries := map[string]int{}
	var entries []files.Entry
	for i, r := range found {
		p := paths[i]
		if p == "" {
			continue
		}
		name := p
		for _, taken := known[name]; taken || isDir(name); _, taken = known[name] {
			tries[p]++
			name = fmt.Sprintf("%s~%d", p, tries[p])
		}
		if len(name) > files.MaxPath {
			continue
		}
		known[name] = r.URI
		entries = append(entries, files.Entry{Path: name, Size: max(0, r.Size)})
	}
	slices.SortFunc(entries, func(a, b files.Entry) int { return files.Compare(a.Path, b.Path) })
	return known, entries
}

// pathOf returns the path of a resource in the directory of its server.
func pathOf(dir, uri string) (string, error) {
	if len(uri) > 10*files.MaxPath {
		return "", files.ErrPath
	}
	rest := uri
	if u, err := url.Parse(uri); err == nil && u.Scheme != "" {
		rest = u.Opaque
		if rest == "" {
			rest = u.Host + "/" + strings.TrimPrefix(u.Path, "/")
		}
		if u.RawQuery != "" {
			rest += "?" + u.RawQuery
		}
	}
	elems := []string{dir}
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
	return files.Clean(strings.Join(elems, "/"))
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
	i := slices.IndexFunc(b.roots, func(r root) bool { return files.Below(p, r.dir) })
	if i < 0 {
		return nil, missing(p)
	}
	server := b.roots[i].server
	if uri, ok := b.uri(server, p); ok {
		f, err := b.read(ctx, p, server, uri)
		if err == nil || ctx.Err() != nil {
			return f, err
		}
		// The server may have replaced the resource since it was listed.
	}
	entries, err := b.listServer(ctx, b.roots[i])
	if err != nil {
		return nil, err
	}
	if uri, ok := b.uri(server, p); ok {
		return b.read(ctx, p, server, uri)
	}
	if slices.ContainsFunc(entries, func(e files.Entry) bool { return files.Below(e.Path, p) }) {
		return nil, fmt.Errorf("%w: %s", files.ErrIsDir, p)
	}
	return nil, missing(p)
}

func (b *resources) read(ctx context.Context, p, server, uri string) (*files.File, error) {
	blocks, err := b.servers.Read(ctx, server, uri)
	if err != nil {
		return nil, err
	}
	content := contentOf(blocks)
	return &files.File{Entry: files.Entry{Path: p, Size: int64(len(content))}, ReadCloser: io.NopCloser(bytes.NewReader(content))}, nil
}

// uri returns the URI of a file, as last listed.
func (b *resources) uri(server, p string) (string, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	uri, ok := b.known[server][p]
	return uri, ok
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

// List implements [files.Backend]. The root directory contains the directories of servers with resources, and
// of those that failed.
func (b *resources) List(ctx context.Context, dir string) ([]files.Entry, error) {
	prefix := strings.TrimSuffix(dir, "/") + "/"
	var out []files.Entry
	for _, l := range b.list(ctx, dir) {
		if dir == "/" {
			if l.err != nil || len(l.entries) > 0 {
				out = append(out, files.Entry{Path: l.dir, Dir: true})
			}
			continue
		}
		if l.err != nil {
			return nil, l.err
		}
		for _, e := range l.entries {
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
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if out == nil && dir != "/" {
		return nil, missing(dir)
	}
	return out, nil
}

// Walk implements [files.Backend].
func (b *resources) Walk(ctx context.Context, dir string) iter.Seq2[files.Entry, error] {
	return func(yield func(files.Entry, error) bool) {
		for _, l := range b.list(ctx, dir) {
			failed := files.Entry{Path: l.dir, Dir: true}
			if files.Below(dir, l.dir) {
				failed.Path = dir
			}
			if l.err != nil && !yield(failed, l.err) {
				return
			}
			for _, e := range l.entries {
				if e.Path != dir && files.Below(e.Path, dir) && !yield(e, nil) {
					return
				}
			}
		}
	}
}
