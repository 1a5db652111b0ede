package sandbox

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// A Snapshotter is a [Sandbox] that can save its working directory and return to it.
//
// Snapshot and Restore wait until no command runs, and commands wait for them. Do not call
// them from the writers of a command.
type Snapshotter interface {
	Sandbox
	// Snapshot writes the content of the working directory to w, for Restore: files,
	// directories, and symbolic links, with their permissions and modification times.
	// It omits devices, pipes, and sockets. After an error, the written data is useless.
	Snapshot(ctx context.Context, w io.Writer) error
	// Restore replaces the content of the working directory with a snapshot, and removes
	// all other content. Restore does not trust the snapshot: it rejects names that lead
	// outside, through a link, or to a device. After an error, the content is unchanged,
	// unless the error states otherwise.
	Restore(ctx context.Context, r io.Reader) error
}

// Names in a working directory that commands must not use. Package files hides all names
// with the prefix and uses it for files that it is writing.
const (
	reserved   = ".treadle-"
	oldPrefix  = reserved + "old-"
	newPrefix  = reserved + "new-"
	unfinished = reserved + "restore" // the moves of a Restore that must be finished
)

// endOfTar is the number of zero bytes at the end of an archive. Package tar also accepts an
// archive that was cut off between two blocks.
const endOfTar = 1024

// Snapshot implements [Snapshotter]. It writes a tar archive without owners, and returns an
// error if the archive exceeds Limits.Snapshot or if this process may not read a file.
func (w *workspace) Snapshot(ctx context.Context, to io.Writer) error {
	if err := w.snapshot(ctx, to); err != nil {
		return fmt.Errorf("sandbox: snapshot: %w", err)
	}
	return nil
}

func (w *workspace) snapshot(ctx context.Context, to io.Writer) error {
	leave, err := w.enter(ctx, true)
	if err != nil {
		return err
	}
	defer leave()
	root, err := os.OpenRoot(w.dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // every write was checked
	if err := w.finish(root); err != nil {
		return err
	}
	archive := tar.NewWriter(&limitedWriter{ctx, to, w.limit, w.limit})
	if err := pack(root, ".", archive); err != nil {
		return err
	}
	return archive.Close()
}

// pack adds the entries of a directory to an archive, in the order of their names.
func pack(root *os.Root, dir string, to *tar.Writer) error {
	names, err := list(root, dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		name = path.Join(dir, name)
		info, err := root.Lstat(name)
		if err != nil {
			return err
		}
		h := &tar.Header{Format: tar.FormatPAX, Name: name, Mode: int64(info.Mode().Perm()), ModTime: info.ModTime()}
		switch {
		case info.IsDir():
			h.Typeflag, h.Name = tar.TypeDir, name+"/"
			if err = to.WriteHeader(h); err == nil {
				err = pack(root, name, to)
			}
		case info.Mode()&fs.ModeSymlink != 0:
			h = &tar.Header{Format: tar.FormatPAX, Typeflag: tar.TypeSymlink, Name: name, Mode: 0o777}
			if h.Linkname, err = root.Readlink(name); err == nil {
				err = to.WriteHeader(h)
			}
		case info.Mode().IsRegular():
			h.Typeflag, h.Size = tar.TypeReg, info.Size()
			err = packFile(root, name, h, to)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func packFile(root *os.Root, name string, h *tar.Header, to *tar.Writer) error {
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	if err := to.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.CopyN(to, f, h.Size)
	return err
}

// list returns the sorted names in a directory, without the reserved ones.
func list(root *os.Root, dir string) ([]string, error) {
	f, err := root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, reserved) }), err
}

// Restore implements [Snapshotter]. It accepts tar archives of other programs too. An archive
// may contain links to any target, as commands may make them; nothing follows them.
//
// Restore first unpacks the archive next to the content, which takes space for both, and then
// exchanges them. If the process is killed, the next sandbox for the directory keeps the
// previous content or finishes the exchange. No other process may use the directory
// while Restore runs. Restored files belong to the user of this process.
func (w *workspace) Restore(ctx context.Context, from io.Reader) error {
	if err := w.restore(ctx, from); err != nil {
		return fmt.Errorf("sandbox: restore: %w", err)
	}
	return nil
}

func (w *workspace) restore(ctx context.Context, from io.Reader) error {
	leave, err := w.enter(ctx, true)
	if err != nil {
		return err
	}
	defer leave()
	root, err := os.OpenRoot(w.dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // every write was checked
	if w.finish(root) == nil {          // otherwise this snapshot replaces the other
		_ = clean(root, oldPrefix, newPrefix) // reported below if it fails again
	}
	u := &unpacking{ctx: ctx, root: root, token: rand.Text(), limit: w.limit, dirs: map[string]bool{".": true}, top: map[string]string{}}
	err = u.unpack(from)
	var moves []move
	if err == nil {
		moves, err = u.plan()
	}
	if err == nil {
		err = u.commit(moves)
	}
	if err != nil {
		_ = clean(root, newPrefix+u.token) // report the first error
		return err
	}
	if err := w.finish(root); err != nil {
		return err
	}
	if err := clean(root, oldPrefix, newPrefix); err != nil {
		return fmt.Errorf("the snapshot is restored, but previous files remain as %s*: %w", oldPrefix, err)
	}
	return nil
}

// finish finishes an exchange that failed. Until it succeeds, commands are rejected.
func (w *workspace) finish(root *os.Root) error {
	err := finish(root)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.torn = err != nil
	return err
}

// unpacking is a Restore in progress. Its entries have temporary names in the working
// directory itself, because moving a write-protected directory elsewhere is not permitted.
type unpacking struct {
	ctx   context.Context //nolint:containedctx // of one call
	root  *os.Root
	token string
	limit int64
	dirs  map[string]bool   // directories of the archive
	top   map[string]string // temporary names of the archive's top entries
}

// unpack creates the entries of an archive under temporary names.
func (u *unpacking) unpack(from io.Reader) error {
	in := &limitedReader{ctx: u.ctx, from: from, limit: u.limit}
	archive := tar.NewReader(in)
	var dirs []*tar.Header
	var size int64 // with the holes of sparse files, which an archive does not contain
	for {
		before := in.n
		h, err := archive.Next()
		if errors.Is(err, io.EOF) && min(in.n-before, in.zeros) < endOfTar {
			err = io.ErrUnexpectedEOF
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		name := strings.TrimSuffix(h.Name, "/")
		size += h.Size
		switch {
		case u.limit >= 0 && size > u.limit:
			return tooLarge(u.limit)
		case name == "." && h.Typeflag == tar.TypeDir:
			continue // other programs add it
		}
		name = strings.TrimPrefix(name, "./")
		if err := u.create(name, h, archive); err != nil {
			return fmt.Errorf("entry %q: %w", h.Name, err)
		}
		if h.Typeflag == tar.TypeDir {
			h.Name = u.temporary(name)
			dirs = append(dirs, h)
		}
	}
	for _, h := range slices.Backward(dirs) { // writing into a directory changes its time, and may be forbidden by its mode
		if err := errors.Join(u.root.Chtimes(h.Name, h.ModTime, h.ModTime), u.root.Chmod(h.Name, fs.FileMode(h.Mode).Perm())); err != nil {
			return err
		}
	}
	return nil
}

// create creates an entry of an archive. It returns an error if the entry exists.
func (u *unpacking) create(name string, h *tar.Header, content io.Reader) error {
	switch {
	case !filepath.IsLocal(name) || path.Clean(name) != name || name == ".":
		return errors.New("leads out of the directory")
	case strings.HasPrefix(name, reserved) || strings.Contains(name, "/"+reserved):
		return fmt.Errorf("names that start with %s are reserved", reserved)
	case !u.dirs[path.Dir(name)]:
		return errors.New("parent directory missing in archive")
	}
	if _, err := u.root.Lstat(name); !strings.Contains(name, "/") && err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // the system does not accept the name
	}
	to := u.temporary(name)
	switch h.Typeflag {
	case tar.TypeDir:
		u.dirs[name] = true
		return u.root.Mkdir(to, 0o700)
	case tar.TypeSymlink:
		return u.root.Symlink(h.Linkname, to)
	case tar.TypeReg:
		f, err := u.root.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, content)
		if err = errors.Join(err, f.Chmod(fs.FileMode(h.Mode).Perm()), f.Close()); err != nil {
			return err
		}
		return u.root.Chtimes(to, h.ModTime, h.ModTime)
	}
	return fmt.Errorf("type %q is neither a file, a directory, nor a symbolic link", h.Typeflag)
}

// temporary returns the temporary name of an entry.
func (u *unpacking) temporary(name string) string {
	first, rest, _ := strings.Cut(name, "/")
	temp, ok := u.top[first]
	if !ok {
		temp = fmt.Sprintf("%s%s-%d", newPrefix, u.token, len(u.top))
		u.top[first] = temp
	}
	return path.Join(temp, rest)
}

// move renames an entry of the working directory. Names need not be valid UTF-8.
type move struct{ From, To []byte }

// plan returns the moves that exchange the content for the unpacked entries.
func (u *unpacking) plan() ([]move, error) {
	names, err := list(u.root, ".")
	var moves []move
	for i, name := range names {
		moves = append(moves, move{[]byte(name), fmt.Appendf(nil, "%s%s-%d", oldPrefix, u.token, i)})
	}
	for name, temp := range u.top {
		moves = append(moves, move{[]byte(temp), []byte(name)})
	}
	return moves, err
}

// commit saves the moves. From then on, they will be finished.
func (u *unpacking) commit(moves []move) error {
	raw, err := json.Marshal(moves)
	if err != nil {
		return err
	}
	temp := newPrefix + u.token
	if err := u.root.WriteFile(temp, raw, 0o600); err != nil {
		return err
	}
	return u.root.Rename(temp, unfinished)
}

// finish finishes an exchange that was committed, if any.
func finish(root *os.Root) error {
	info, err := root.Lstat(unfinished)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var raw []byte
	if err == nil && info.Mode().IsRegular() {
		raw, err = root.ReadFile(unfinished)
	}
	if err != nil {
		return err
	}
	var moves []move
	if json.Unmarshal(raw, &moves) != nil {
		moves = nil // a command has written it
	}
	for _, m := range moves {
		if err := m.apply(root); err != nil {
			return fmt.Errorf("%w: the directory contains files of the snapshot and earlier ones: restore again, or remove %s from the directory to keep both", err, unfinished)
		}
	}
	return root.RemoveAll(unfinished)
}

// apply renames an entry, unless that was done already: then the target exists.
func (m move) apply(root *os.Root) error {
	_, err := root.Lstat(string(m.To))
	if errors.Is(err, fs.ErrNotExist) {
		return root.Rename(string(m.From), string(m.To))
	}
	if _, left := root.Lstat(string(m.From)); err == nil && left == nil && bytes.HasPrefix(m.From, []byte(newPrefix)) {
		return fmt.Errorf("rename %s: %s: %w", m.From, m.To, fs.ErrExist)
	}
	return err
}

// clean removes entries that a Restore has left behind, by the start of their names.
func clean(root *os.Root, prefixes ...string) error {
	f, err := root.Open(".")
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	names, err := f.Readdirnames(-1)
	for _, name := range names {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			unprotect(root, name)
			err = errors.Join(err, root.RemoveAll(name))
		}
	}
	return err
}

// unprotect permits removing the entries of a directory.
func unprotect(root *os.Root, name string) {
	if info, err := root.Lstat(name); err != nil || !info.IsDir() {
		return
	}
	_ = root.Chmod(name, 0o700) // removing reports the error
	names, _ := list(root, name)
	for _, one := range names {
		unprotect(root, path.Join(name, one))
	}
}

func tooLarge(limit int64) error {
	return fmt.Errorf("larger than the limit of %d bytes: raise Limits.Snapshot", limit)
}

// limitedWriter rejects more bytes than its limit, if the limit is not negative.
type limitedWriter struct {
	ctx         context.Context //nolint:containedctx // of one call
	to          io.Writer
	limit, left int64
}

func (l *limitedWriter) Write(p []byte) (int, error) {
	if err := context.Cause(l.ctx); err != nil {
		return 0, err
	}
	l.left -= int64(len(p))
	if l.limit >= 0 && l.left < 0 {
		return 0, tooLarge(l.limit)
	}
	return l.to.Write(p)
}

// limitedReader fails after more bytes than its limit, if the limit is not negative.
type limitedReader struct {
	ctx      context.Context //nolint:containedctx // of one call
	from     io.Reader
	limit, n int64
	zeros    int64 // zero bytes at the end of the read data
}

func (l *limitedReader) Read(p []byte) (int, error) {
	if err := context.Cause(l.ctx); err != nil {
		return 0, err
	}
	n, err := l.from.Read(p)
	if tail := int64(n - len(bytes.TrimRight(p[:n], "\x00"))); tail == int64(n) {
		l.zeros += tail
	} else {
		l.zeros = tail
	}
	l.n += int64(n)
	if l.limit >= 0 && l.n > l.limit {
		return 0, tooLarge(l.limit)
	}
	return n, err
}
