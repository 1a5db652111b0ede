package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Thread is a [Backend] that keeps files in the state of the agent's thread: in the field
// files, as [Records]. The files fork and time-travel with the thread, and a write is saved
// in the same step as the result of the tool that made it. Thread works only in the
// context of an [Overlay], which the agent's middleware provides to its tools.
type Thread struct {
	// At is the directory in the thread's files that is the root of the backend; empty
	// means all files. It is for a backend that is mounted in another one.
	At string
}

// inner returns the path of an entry of the thread's files in the backend.
func (t Thread) inner(all []Entry) []Entry {
	for i := range all {
		all[i].Path = strings.TrimPrefix(all[i].Path, t.At)
	}
	return all
}

// An Overlay holds the files of a thread and the writes of a tool or hook that is
// running.
type Overlay struct {
	base Records
	now  func() time.Time

	mu      sync.Mutex
	written Records
}

type overlayKey struct{}

// WithOverlay returns a context in which [Thread] reads base. Writes go to the returned
// overlay, and later reads see them.
func WithOverlay(ctx context.Context, base Records) (context.Context, *Overlay) {
	o := &Overlay{base: base, now: time.Now}
	return context.WithValue(ctx, overlayKey{}, o), o
}

// Writes returns the update of the field files, or nil if nothing was written.
func (o *Overlay) Writes() Records {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.written)
}

// Apply adds the writes of an update, such as those of a sub-agent.
func (o *Overlay) Apply(u Records) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.written == nil {
		o.written = Records{}
	}
	maps.Copy(o.written, u)
}

// Files returns the files as a tool sees them.
func (o *Overlay) Files() Records {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.base.Reduce(o.written)
}

// OverlayFrom returns the overlay of ctx, or nil.
func OverlayFrom(ctx context.Context) *Overlay {
	o, _ := ctx.Value(overlayKey{}).(*Overlay)
	return o
}

func overlayOf(ctx context.Context) (*Overlay, error) {
	if o, ok := ctx.Value(overlayKey{}).(*Overlay); ok {
		return o, nil
	}
	return nil, errors.New("files: thread's files are available only to tools of its agent: pass the tool's context")
}

// get returns a file, or nil. The caller must hold mu.
func (o *Overlay) get(p string) *Record {
	if r, ok := o.written[p]; ok {
		return r
	}
	return o.base[p]
}

// entries returns the files below dir, in order.
func (o *Overlay) entries(dir string) []Entry {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.written) == 0 {
		return o.base.entries(dir)
	}
	return o.base.Reduce(o.written).entries(dir)
}

// isDir reports whether there are files below p. The caller must hold mu.
func (o *Overlay) isDir(p string) bool {
	for f, r := range o.written {
		if r != nil && f != p && Below(f, p) {
			return true
		}
	}
	for f := range o.base {
		if r, changed := o.written[f]; f != p && Below(f, p) && (r != nil || !changed) {
			return true
		}
	}
	return false
}

// entries returns the files below dir, in order.
func (r Records) entries(dir string) []Entry {
	var out []Entry
	for p, f := range r {
		if p != dir && Below(p, dir) {
			out = append(out, Entry{Path: p, Size: int64(len(f.Content)), Modified: f.Modified})
		}
	}
	slices.SortFunc(out, func(a, b Entry) int { return Compare(a.Path, b.Path) })
	return out
}

// dir returns the path of a directory of the backend in the thread's files.
func (t Thread) dir(p string) string {
	if t.At != "" && p == "/" {
		return t.At
	}
	return t.At + p
}

// Transactional implements [Transactional]: all files are part of the state.
func (Thread) Transactional(string) bool { return true }

// Open implements [Backend].
func (t Thread) Open(ctx context.Context, p string) (*File, error) {
	o, err := overlayOf(ctx)
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	r := o.get(t.At + p)
	switch {
	case r != nil:
	case p == "/" || o.isDir(t.At+p):
		return nil, isDir(p)
	default:
		return nil, notExist(p)
	}
	return &File{Entry{Path: p, Size: int64(len(r.Content)), Modified: r.Modified}, io.NopCloser(bytes.NewReader(r.Content))}, nil
}

// Write implements [Backend].
func (t Thread) Write(ctx context.Context, p string, content []byte, old Version) error {
	if p == "/" {
		return isDir(p)
	}
	p = t.At + p
	return change(ctx, p, old, func(o *Overlay, was *Record) (*Record, error) {
		if err := placeable(p, func(p string) bool { return o.get(p) != nil }); err != nil {
			return nil, err
		}
		return was.after(bytes.Clone(content), o.now()), nil
	})
}

// Delete implements [Backend].
func (t Thread) Delete(ctx context.Context, p string, old Version) error {
	if p == "/" {
		return isDir(p)
	}
	return change(ctx, t.At+p, old, func(_ *Overlay, was *Record) (*Record, error) {
		if was == nil {
			return nil, notExist(p)
		}
		return nil, nil
	})
}

// change replaces a file if it has the version old.
func change(ctx context.Context, p string, old Version, next func(o *Overlay, was *Record) (*Record, error)) error {
	o, err := overlayOf(ctx)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	was := o.get(p)
	if was == nil && o.isDir(p) {
		return isDir(p)
	}
	r, err := next(o, was)
	if err != nil {
		return err
	}
	var content []byte
	if was != nil {
		content = was.Content
	}
	if err := checkVersion(p, content, was != nil, old); err != nil {
		return err
	}
	if o.written == nil {
		o.written = Records{}
	}
	o.written[p] = r
	return nil
}

// placeable returns an error if a parent directory of p is a file.
func placeable(p string, isFile func(string) bool) error {
	for i, c := range p {
		if c == '/' && i > 0 && isFile(p[:i]) {
			return fmt.Errorf("files: write %s: %s is a file, not a directory", p, p[:i])
		}
	}
	return nil
}

// List implements [Backend].
func (t Thread) List(ctx context.Context, dir string) ([]Entry, error) {
	o, err := overlayOf(ctx)
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	file := o.get(t.At+dir) != nil
	o.mu.Unlock()
	return listOf(dir, t.inner(o.entries(t.dir(dir))), file)
}

// listOf returns the directory dir, given the files below it. file reports whether dir is
// a file.
func listOf(dir string, below []Entry, file bool) ([]Entry, error) {
	switch {
	case file:
		return nil, fmt.Errorf("files: %s is a file, not a directory", dir)
	case len(below) == 0 && dir != "/":
		return nil, notExist(dir)
	}
	return listed(dir, below), nil
}

// Walk implements [Backend].
func (t Thread) Walk(ctx context.Context, dir string) iter.Seq2[Entry, error] {
	o, err := overlayOf(ctx)
	if err != nil {
		return failed(dir, err)
	}
	return walked(t.inner(o.entries(t.dir(dir))))
}

func failed(dir string, err error) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) { yield(Entry{Path: dir, Dir: true}, err) }
}

func walked(all []Entry) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for _, e := range all {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// cleanPrefix removes the trailing slash of a prefix.
func cleanPrefix(prefix string) (string, error) {
	p, err := Clean(strings.TrimSuffix(prefix, "/"))
	if err == nil && p == "/" {
		err = fmt.Errorf("%w %q: a mount needs a directory below /", ErrPath, prefix)
	}
	return p, err
}
