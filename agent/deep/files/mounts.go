package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"strings"
)

// Mount combines backends by path: a path below one of the directories in at belongs to
// that backend, which sees the path without the directory; the longest directory wins.
// All other paths belong to rest.
//
//	b, err := files.Mount(files.Thread{}, map[string]files.Backend{"/memories": shared})
func Mount(rest Backend, at map[string]Backend) (Backend, error) {
	if rest == nil {
		return nil, errors.New("files: mount: nil backend for the other paths")
	}
	m := mounts{rest: rest}
	for _, prefix := range slices.Sorted(maps.Keys(at)) {
		dir, err := cleanPrefix(prefix)
		switch {
		case err != nil:
			return nil, fmt.Errorf("files: mount: %w", err)
		case at[prefix] == nil:
			return nil, fmt.Errorf("files: mount %s: nil backend", dir)
		case slices.ContainsFunc(m.at, func(p mount) bool { return p.dir == dir }):
			return nil, fmt.Errorf("files: mount %s: given twice", dir)
		}
		m.at = append(m.at, mount{dir, at[prefix]})
	}
	slices.SortFunc(m.at, func(a, b mount) int { return cmp.Or(len(b.dir)-len(a.dir), Compare(a.dir, b.dir)) })
	return &m, nil
}

type mount struct {
	dir string // empty for rest
	Backend
}

type mounts struct {
	rest Backend
	at   []mount // longest first
}

// of returns the backend of a path, and the path in it.
func (m mounts) of(p string) (mount, string) {
	for _, b := range m.at {
		if Below(p, b.dir) {
			return b, cmp.Or(p[len(b.dir):], "/")
		}
	}
	return mount{"", m.rest}, p
}

// outer converts an entry of a backend.
func (b mount) outer(e Entry) Entry {
	if e.Path = b.dir + e.Path; b.dir != "" {
		e.Path = strings.TrimSuffix(e.Path, "/") // of the backend's root
	}
	return e
}

// Transactional implements [Transactional]. A directory that contains others is transactional
// if all of their backends are.
func (m mounts) Transactional(p string) bool {
	b, inner := m.of(p)
	return IsTransactional(b.Backend, inner) && !slices.ContainsFunc(m.at, func(in mount) bool {
		return in.dir != p && Below(in.dir, p) && !IsTransactional(in.Backend, "/")
	})
}

// Open implements [Backend].
func (m mounts) Open(ctx context.Context, p string) (*File, error) {
	b, inner := m.of(p)
	if m.above(p) || inner == "/" {
		return nil, isDir(p)
	}
	f, err := b.Open(ctx, inner)
	if err != nil {
		return nil, b.named(p, err)
	}
	f.Entry = b.outer(f.Entry)
	return f, nil
}

// named adds the whole path to an error of a mounted backend, which sees only a part of it.
func (b mount) named(p string, err error) error {
	if err == nil || b.dir == "" {
		return err
	}
	return fmt.Errorf("%s: %w", p, err)
}

// Write implements [Backend].
func (m mounts) Write(ctx context.Context, p string, content []byte, old Version) error {
	b, inner := m.of(p)
	if m.above(p) || inner == "/" {
		return isDir(p)
	}
	return b.named(p, b.Backend.Write(ctx, inner, content, old))
}

// Delete implements [Backend].
func (m mounts) Delete(ctx context.Context, p string, old Version) error {
	b, inner := m.of(p)
	if m.above(p) || inner == "/" {
		return isDir(p)
	}
	return b.named(p, b.Backend.Delete(ctx, inner, old))
}

// above reports whether a backend is mounted below p.
func (m mounts) above(p string) bool {
	return slices.ContainsFunc(m.at, func(b mount) bool { return b.dir != p && Below(b.dir, p) })
}

// List implements [Backend].
func (m mounts) List(ctx context.Context, dir string) ([]Entry, error) {
	b, inner := m.of(dir)
	own, err := b.List(ctx, inner)
	if err != nil && (!errors.Is(err, fs.ErrNotExist) || !m.above(dir)) {
		return nil, b.named(dir, err)
	}
	var out []Entry
	for _, e := range own {
		if e = b.outer(e); !m.shadowed(b, e.Path) {
			out = append(out, e)
		}
	}
	prefix := strings.TrimSuffix(dir, "/") + "/"
	for _, inside := range m.at {
		rest, ok := strings.CutPrefix(inside.dir, prefix)
		if !ok {
			continue
		}
		name, _, _ := strings.Cut(rest, "/")
		if !slices.ContainsFunc(out, func(e Entry) bool { return e.Path == prefix+name }) {
			out = append(out, Entry{Path: prefix + name, Dir: true})
		}
	}
	slices.SortFunc(out, func(a, b Entry) int { return Compare(a.Path, b.Path) })
	return out, nil
}

// shadowed reports whether a path of backend b is hidden by a backend mounted over it.
func (m mounts) shadowed(b mount, p string) bool {
	at, _ := m.of(p)
	return at.dir != b.dir
}

// Walk implements [Backend]. It walks a mounted backend only when it reaches its directory, so a slow one
// delays only the files after it.
func (m mounts) Walk(ctx context.Context, dir string) iter.Seq2[Entry, error] {
	b, inner := m.of(dir)
	var inside []mount
	for _, at := range m.at {
		if at.dir != dir && Below(at.dir, dir) && at.dir != b.dir {
			inside = append(inside, at)
		}
	}
	slices.SortFunc(inside, func(a, b mount) int { return Compare(a.dir, b.dir) })
	return func(yield func(Entry, error) bool) { m.walk(ctx, b, inner, inside, yield) }
}

// walk yields the files of a backend below a directory, and at their places the files of the backends mounted
// inside, which are in order. It reports whether to continue.
func (m mounts) walk(ctx context.Context, b mount, dir string, inside []mount, yield func(Entry, error) bool) bool {
	// next yields the files of the first backend in inside.
	next := func() bool {
		at := inside[0]
		n := 1
		for n < len(inside) && Below(inside[n].dir, at.dir) {
			n++
		}
		nested := inside[1:n]
		inside = inside[n:]
		return m.walk(ctx, at, "/", nested, yield)
	}
	for e, err := range b.Walk(ctx, dir) {
		if e = b.outer(e); m.shadowed(b, e.Path) {
			continue
		}
		for len(inside) > 0 && Compare(inside[0].dir, e.Path) < 0 {
			if !next() {
				return false
			}
		}
		if !yield(e, err) {
			return false
		}
	}
	for len(inside) > 0 {
		if !next() {
			return false
		}
	}
	return true
}
