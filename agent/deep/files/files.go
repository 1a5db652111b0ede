// Package files gives agents a file system: an interface for backends, and backends that
// keep files in the state of a thread, in a store, or in a directory.
//
// Paths are absolute, with slashes, and independent of the operating system:
// "/notes/plan.md". A directory exists as long as it contains files. Package filestest
// contains the suite that every backend must pass.
package files

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// A Backend keeps files. It is safe for concurrent use. Its methods take paths that
// [Clean] has returned.
//
// Errors wrap [fs.ErrNotExist] if the file does not exist, [fs.ErrPermission] if the backend
// refuses access, [ErrIsDir], and [ErrConflict].
type Backend interface {
	// Open opens a regular file. The caller closes it.
	Open(ctx context.Context, path string) (*File, error)
	// Write creates or replaces a file, with its directories, if the file has the
	// version old. A reader sees either the old content or the new one.
	Write(ctx context.Context, path string, content []byte, old Version) error
	// Delete removes a file if it has the version old, and the directories that
	// become empty.
	Delete(ctx context.Context, path string, old Version) error
	// List returns the files and directories directly in dir, in the order of
	// [Compare]. It omits everything else, such as symbolic links.
	List(ctx context.Context, dir string) ([]Entry, error)
	// Walk yields all files below dir, in the order of [Compare]. If a directory
	// cannot be read, Walk yields its entry with an error and continues.
	Walk(ctx context.Context, dir string) iter.Seq2[Entry, error]
}

// A Transactional backend saves the files at and below some paths together with the step of
// the agent that writes them. A write to such a path is never repeated or lost by a crash.
type Transactional interface {
	Transactional(path string) bool
}

// IsTransactional reports whether b is [Transactional] at a path.
func IsTransactional(b Backend, path string) bool {
	t, ok := b.(Transactional)
	return ok && t.Transactional(path)
}

// Entry describes a file or directory.
type Entry struct {
	Path     string
	Dir      bool
	Size     int64
	Modified time.Time // zero if unknown
}

// File is an open file.
type File struct {
	Entry
	io.ReadCloser
}

// Version identifies the content of a file for a conditional write.
type Version string

// Special versions.
const (
	Any    Version = ""       // whatever the file contains, and if it does not exist
	Absent Version = "absent" // the file must not exist
)

// VersionOf returns the version of a file with the given content.
func VersionOf(content []byte) Version {
	sum := sha256.Sum256(content)
	return Version(hex.EncodeToString(sum[:]))
}

// Errors of backends.
var (
	// ErrConflict reports that a file does not have the version that a write requires.
	ErrConflict = errors.New("files: file has changed: read it again")
	// ErrIsDir reports that the path of a file is a directory.
	ErrIsDir = errors.New("files: path is a directory")
	// ErrTooLarge reports a file that exceeds a size limit.
	ErrTooLarge = errors.New("files: file is too large")
	// ErrPath reports an invalid path or pattern.
	ErrPath = errors.New("files: invalid path")
)

// MaxPath is the maximum length of a path in bytes.
const MaxPath = 1000

// Clean returns the canonical form of a path given by a model. It accepts backslashes,
// a missing first slash, and repeated slashes. It rejects the element "..", a leading "~",
// drive letters, and control characters, which have no place in a virtual path.
func Clean(given string) (string, error) {
	bad := func(why string) (string, error) { return "", fmt.Errorf("%w %q: %s", ErrPath, short(given), why) }
	p := strings.ReplaceAll(given, `\`, "/")
	switch {
	case strings.HasPrefix(p, "~"):
		return bad(`"~" is not supported: use a path that starts with /`)
	case len(p) >= 2 && p[1] == ':' && (p[0]|0x20 >= 'a' && p[0]|0x20 <= 'z'):
		return bad("drive letters are not supported: use a path that starts with /")
	case !utf8.ValidString(p):
		return bad("not valid UTF-8")
	case strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return bad("contains a control character")
	case slices.Contains(strings.Split(p, "/"), ".."):
		return bad(`".." is not supported: use a path that starts with /`)
	}
	if p = path.Clean("/" + p); len(p) > MaxPath {
		return bad(fmt.Sprintf("longer than %d bytes", MaxPath))
	}
	return p, nil
}

func short(s string) string {
	if len(s) > 200 {
		return s[:200] + "…"
	}
	return s
}

// Compare orders paths by their elements, so that a directory precedes its files and
// nothing comes between them.
func Compare(a, b string) int {
	for i := range min(len(a), len(b)) {
		if a[i] == b[i] {
			continue
		}
		switch {
		case a[i] == '/':
			return -1
		case b[i] == '/':
			return 1
		case a[i] < b[i]:
			return -1
		}
		return 1
	}
	return len(a) - len(b)
}

// Below reports whether p is dir or below it.
func Below(p, dir string) bool {
	return dir == "/" || p == dir || strings.HasPrefix(p, dir) && p[len(dir)] == '/'
}

// Read reads a whole file of at most limit bytes. It returns [ErrTooLarge] for a larger
// file.
func Read(ctx context.Context, b Backend, p string, limit int64) ([]byte, error) {
	f, err := b.Open(ctx, p)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	if f.Size > limit {
		return nil, fmt.Errorf("%w: %s has %d bytes, over the limit of %d", ErrTooLarge, p, f.Size, limit)
	}
	raw := bytes.NewBuffer(make([]byte, 0, max(f.Size, 0)+bytes.MinRead))
	_, err = raw.ReadFrom(io.LimitReader(f, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("files: read %s: %w", p, err)
	case int64(raw.Len()) > limit: // it has grown
		return nil, fmt.Errorf("%w: %s has more than %d bytes", ErrTooLarge, p, limit)
	}
	return raw.Bytes(), nil
}

// Stat describes a file or directory.
func Stat(ctx context.Context, b Backend, p string) (Entry, error) {
	if p == "/" {
		return Entry{Path: "/", Dir: true}, nil
	}
	all, err := b.List(ctx, path.Dir(p))
	if err != nil {
		return Entry{}, err
	}
	i := slices.IndexFunc(all, func(e Entry) bool { return e.Path == p })
	if i < 0 {
		return Entry{}, notExist(p)
	}
	return all[i], nil
}

func notExist(p string) error { return fmt.Errorf("files: %s: %w", p, fs.ErrNotExist) }

func isDir(p string) error { return fmt.Errorf("%w: %s", ErrIsDir, p) }

// checkVersion returns an error unless a file has the version old. content is nil if the
// file does not exist.
func checkVersion(p string, content []byte, exists bool, old Version) error {
	switch {
	case old == Any, old == Absent && !exists, exists && old != Absent && VersionOf(content) == old:
		return nil
	}
	return fmt.Errorf("%w: %s", ErrConflict, p)
}

// listed returns the entries directly in dir, given the files below it in order. It
// fails if dir is a file.
func listed(dir string, all []Entry) []Entry {
	var out []Entry
	prefix := strings.TrimSuffix(dir, "/") + "/"
	for _, e := range all {
		rest, ok := strings.CutPrefix(e.Path, prefix)
		if !ok {
			continue
		}
		name, _, deeper := strings.Cut(rest, "/")
		if !deeper {
			out = append(out, e)
		} else if n := len(out); n == 0 || out[n-1].Path != prefix+name {
			out = append(out, Entry{Path: prefix + name, Dir: true})
		}
	}
	return out
}
