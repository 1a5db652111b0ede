package files

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
)

// NewDir returns a [Backend] for the files in a directory, which must exist. The caller
// closes it.
//
// No path leads out of the directory. The backend rejects symbolic links, even within the
// directory, because a link is a second path to a file, with possibly other permissions.
// It rejects everything that is neither a regular file nor a directory, such as a device.
// It checks each element of a path after opening it, so another process cannot exchange it
// in between. A write goes to a temporary file, whose name starts with ".treadle-" and is
// hidden, and then replaces the file atomically.
//
// Writes with a required version are safe against other writers in this process, not
// against other programs.
func NewDir(dir string) (*Dir, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("files: open directory: %w", err)
	}
	return &Dir{root: root}, nil
}

// Dir is a directory; see [NewDir].
type Dir struct {
	root *os.Root
	mu   sync.Mutex // held by writers
}

// Close closes the directory.
func (d *Dir) Close() error { return d.root.Close() }

const tempPrefix = ".treadle-"

// isReserved reports whether an element of a path starts with tempPrefix.
func isReserved(p string) bool { return strings.Contains(p, "/"+tempPrefix) }

func reserved(p string) error {
	return fmt.Errorf("files: %s: names that start with %s are reserved: %w", p, tempPrefix, fs.ErrPermission)
}

// enter opens the directory at p, element by element. The caller closes the result
// unless it is the root.
func (d *Dir) enter(p string) (*os.Root, error) {
	if isReserved(p) {
		return nil, reserved(p)
	}
	at := d.root
	for name := range strings.SplitSeq(strings.Trim(p, "/"), "/") {
		if name == "" {
			continue
		}
		next, err := step(at, name)
		d.leave(at)
		if err != nil {
			return nil, refusal(p, err)
		}
		at = next
	}
	return at, nil
}

func (d *Dir) leave(r *os.Root) {
	if r != d.root {
		_ = r.Close() // nothing was written through it
	}
}

var (
	errLink    = fmt.Errorf("symbolic link: %w", fs.ErrPermission)
	errSpecial = fmt.Errorf("neither a file nor a directory: %w", fs.ErrPermission)
	errSwapped = fmt.Errorf("replaced while being opened: %w", fs.ErrPermission)
	errNotDir  = errors.New("not a directory")
)

// step opens a directory in r. The entry may be exchanged for a symbolic link after it was
// checked, so step compares the opened file with the checked one.
func step(r *os.Root, name string) (*os.Root, error) {
	is, err := r.Lstat(name)
	switch {
	case err != nil:
		return nil, err
	case is.Mode()&fs.ModeSymlink != 0:
		return nil, errLink
	case !is.IsDir():
		return nil, errNotDir
	}
	next, err := r.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	opened, err := next.Stat(".")
	if err == nil && !os.SameFile(is, opened) {
		err = errSwapped
	}
	if err != nil {
		_ = next.Close() // nothing was read
		return nil, err
	}
	return next, nil
}

// refusal returns an error with the virtual path in place of the real one.
func refusal(p string, err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		err = e.Err
	}
	return fmt.Errorf("files: %s: %w", p, err)
}

// Open implements [Backend].
func (d *Dir) Open(_ context.Context, p string) (*File, error) {
	switch {
	case p == "/":
		return nil, isDir(p)
	case isReserved(p):
		return nil, reserved(p)
	}
	at, err := d.enter(path.Dir(p))
	if err != nil {
		return nil, err
	}
	defer d.leave(at)
	f, is, err := open(at, path.Base(p))
	if errors.Is(err, ErrIsDir) {
		return nil, isDir(p)
	}
	if err != nil {
		return nil, refusal(p, err)
	}
	return &File{Entry{Path: p, Size: is.Size(), Modified: is.ModTime()}, f}, nil
}

// open opens a regular file in r.
func open(r *os.Root, name string) (*os.File, fs.FileInfo, error) {
	is, err := regular(r, name)
	if err != nil {
		return nil, nil, err
	}
	f, err := r.OpenFile(name, os.O_RDONLY|nonblock, 0) // a fifo put in its place must not block
	if err != nil {
		return nil, nil, err
	}
	opened, err := f.Stat()
	if err == nil && !os.SameFile(is, opened) {
		err = errSwapped
	}
	if err != nil {
		_ = f.Close() // nothing was read
		return nil, nil, err
	}
	return f, opened, nil
}

// regular describes a regular file in r.
func regular(r *os.Root, name string) (fs.FileInfo, error) {
	is, err := r.Lstat(name)
	switch {
	case err != nil:
		return nil, err
	case is.Mode()&fs.ModeSymlink != 0:
		return nil, errLink
	case is.IsDir():
		return nil, ErrIsDir
	case !is.Mode().IsRegular():
		return nil, errSpecial
	}
	return is, nil
}

// Write implements [Backend].
func (d *Dir) Write(_ context.Context, p string, content []byte, old Version) error {
	switch {
	case p == "/":
		return isDir(p)
	case isReserved(p):
		return reserved(p)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	at, err := d.create(path.Dir(p))
	if err != nil {
		return err
	}
	defer d.leave(at)
	name := path.Base(p)
	mode := fs.FileMode(0o644)
	if is, err := d.current(at, p, old); err != nil {
		return err
	} else if is != nil {
		mode = is.Mode().Perm()
	}
	if err := replace(at, name, content, mode); err != nil {
		return refusal(p, err)
	}
	return nil
}

// replace writes a file under a temporary name and then renames it.
func replace(at *os.Root, name string, content []byte, mode fs.FileMode) error {
	temp := tempPrefix + rand.Text()
	err := fill(at, temp, content, mode)
	if err == nil {
		err = at.Rename(temp, name)
	}
	if err != nil {
		_ = at.Remove(temp) // report the first error
	}
	return err
}

func fill(at *os.Root, name string, content []byte, mode fs.FileMode) error {
	f, err := at.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync() // otherwise a power failure may leave an empty file under the new name
	}
	return errors.Join(err, f.Close())
}

// create opens the directory at p and creates missing ones.
func (d *Dir) create(p string) (*os.Root, error) {
	at := d.root
	for name := range strings.SplitSeq(strings.Trim(p, "/"), "/") {
		if name == "" {
			continue
		}
		next, err := step(at, name)
		if errors.Is(err, fs.ErrNotExist) {
			if err = at.Mkdir(name, 0o755); err == nil || errors.Is(err, fs.ErrExist) {
				next, err = step(at, name)
			}
		}
		d.leave(at)
		if err != nil {
			return nil, refusal(p, err)
		}
		at = next
	}
	return at, nil
}

// current describes the file at p, or returns nil if it does not exist. It returns an
// error unless the file has the version old.
func (d *Dir) current(at *os.Root, p string, old Version) (fs.FileInfo, error) {
	is, err := regular(at, path.Base(p))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, checkVersion(p, nil, false, old)
	case errors.Is(err, ErrIsDir):
		return nil, isDir(p)
	case err != nil:
		return nil, refusal(p, err)
	case old == Any:
		return is, nil
	}
	f, _, err := open(at, path.Base(p))
	if err != nil {
		return nil, refusal(p, err)
	}
	defer func() { _ = f.Close() }() // only read
	var content bytes.Buffer
	if _, err := io.Copy(&content, f); err != nil {
		return nil, refusal(p, err)
	}
	return is, checkVersion(p, content.Bytes(), true, old)
}

// Delete implements [Backend].
func (d *Dir) Delete(_ context.Context, p string, old Version) error {
	switch {
	case p == "/":
		return isDir(p)
	case isReserved(p):
		return reserved(p)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	at, err := d.enter(path.Dir(p))
	if err != nil {
		return err
	}
	defer d.leave(at)
	is, err := d.current(at, p, old)
	switch {
	case err != nil:
		return err
	case is == nil:
		return notExist(p)
	}
	if err := at.Remove(path.Base(p)); err != nil {
		return refusal(p, err)
	}
	d.prune(path.Dir(p))
	return nil
}

// prune removes the directory at p and its parents, up to the first that is not empty.
func (d *Dir) prune(p string) {
	for ; p != "/"; p = path.Dir(p) {
		at, err := d.enter(path.Dir(p))
		if err != nil {
			return
		}
		err = at.Remove(path.Base(p)) // fails if it is not empty
		d.leave(at)
		if err != nil {
			return
		}
	}
}

// List implements [Backend].
func (d *Dir) List(_ context.Context, dir string) ([]Entry, error) {
	at, err := d.enter(dir)
	if err != nil {
		return nil, err
	}
	defer d.leave(at)
	return entries(at, dir)
}

// entries returns the files and directories in r, which is at the path dir.
func entries(r *os.Root, dir string) ([]Entry, error) {
	f, err := r.Open(".")
	if err != nil {
		return nil, refusal(dir, err)
	}
	defer func() { _ = f.Close() }() // only read
	all, err := f.ReadDir(-1)
	if err != nil {
		return nil, refusal(dir, err)
	}
	out := make([]Entry, 0, len(all))
	for _, one := range all {
		if !one.IsDir() && !one.Type().IsRegular() || strings.HasPrefix(one.Name(), tempPrefix) {
			continue
		}
		e := Entry{Path: path.Join(dir, one.Name()), Dir: one.IsDir()}
		if clean, err := Clean(e.Path); err != nil || clean != e.Path {
			continue // no tool could name it
		}
		if !e.Dir {
			is, err := one.Info()
			if err != nil {
				continue // deleted in the meantime
			}
			e.Size, e.Modified = is.Size(), is.ModTime()
		}
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b Entry) int { return Compare(a.Path, b.Path) })
	return out, nil
}

// Walk implements [Backend].
func (d *Dir) Walk(ctx context.Context, dir string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		at, err := d.enter(dir)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotDir) {
			return // nothing is below it
		}
		if err != nil {
			yield(Entry{Path: dir, Dir: true}, err)
			return
		}
		defer d.leave(at)
		walk(ctx, at, dir, yield)
	}
}

// walk reports whether to continue.
func walk(ctx context.Context, at *os.Root, dir string, yield func(Entry, error) bool) bool {
	all, err := entries(at, dir)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return yield(Entry{Path: dir, Dir: true}, err) && ctx.Err() == nil
	}
	for _, e := range all {
		if !e.Dir {
			if !yield(e, nil) {
				return false
			}
			continue
		}
		next, err := step(at, path.Base(e.Path))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // deleted in the meantime
		case err != nil:
			if !yield(e, refusal(e.Path, err)) {
				return false
			}
			continue
		}
		more := walk(ctx, next, e.Path, yield)
		_ = next.Close() // only read
		if !more {
			return false
		}
	}
	return true
}
