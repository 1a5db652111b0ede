// Package filestest contains the suite that every files.Backend must pass.
package filestest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/agent/deep/files"
)

// Run runs the suite. open returns an empty backend, and the context to use it with.
func Run(t *testing.T, open func(t *testing.T) (context.Context, files.Backend)) {
	for name, test := range map[string]func(*suite){
		"RoundTrip": roundTrip, "Replace": replace, "Names": names, "Missing": missing, "Directories": directories,
		"List": list, "Walk": walk, "Delete": remove, "Versions": versions, "OwnWrites": ownWrites,
		"Concurrent": concurrent, "Large": large, "Glob": globs,
	} {
		t.Run(name, func(t *testing.T) {
			ctx, b := open(t)
			test(&suite{t, ctx, b})
		})
	}
}

type suite struct {
	*testing.T
	ctx context.Context
	files.Backend
}

func (s *suite) write(p, content string) {
	s.Helper()
	if err := s.Write(s.ctx, p, []byte(content), files.Any); err != nil {
		s.Fatalf("write %s: %v", p, err)
	}
}

func (s *suite) read(p string) string {
	s.Helper()
	raw, err := files.Read(s.ctx, s, p, 1<<30)
	if err != nil {
		s.Fatalf("read %s: %v", p, err)
	}
	return string(raw)
}

func (s *suite) want(p, content string) {
	s.Helper()
	if got := s.read(p); got != content {
		s.Errorf("%s contains %.100q, want %.100q", p, got, content)
	}
}

func (s *suite) fails(what string, err, want error) {
	s.Helper()
	if !errors.Is(err, want) {
		s.Errorf("%s: got error %v, want %v", what, err, want)
	}
}

// walked returns the paths that a walk yields, or its error.
func (s *suite) walked(dir string) string {
	var out []string
	for e, err := range s.Walk(s.ctx, dir) {
		if err != nil {
			return err.Error()
		}
		if e.Dir {
			s.Errorf("walk yields directory %s", e.Path)
		}
		out = append(out, e.Path)
	}
	return strings.Join(out, " ")
}

func (s *suite) listed(dir string) string {
	all, err := s.List(s.ctx, dir)
	if err != nil {
		return err.Error()
	}
	var out []string
	for _, e := range all {
		name := e.Path
		if e.Dir {
			name += "/"
		}
		out = append(out, name)
	}
	return strings.Join(out, " ")
}

func roundTrip(s *suite) {
	for i, content := range []string{"", "x", "line\n", "\r\n\r", "\n\n\n", "é漢😀", "\xff\xfe\x00\x01", "{\"a\":1}", strings.Repeat("0123456789", 1000)} {
		p := fmt.Sprintf("/f%d", i)
		s.write(p, content)
		s.want(p, content)
		f, err := s.Open(s.ctx, p)
		if err != nil {
			s.Fatal(err)
		}
		if f.Size != int64(len(content)) || f.Path != p || f.Dir {
			s.Errorf("%s is described as %+v, want %d bytes", p, f.Entry, len(content))
		}
		if err := f.Close(); err != nil {
			s.Error(err)
		}
	}
}

func replace(s *suite) {
	s.write("/a", "one, a longer text")
	s.write("/a", "two")
	s.want("/a", "two")
}

func names(s *suite) {
	for _, p := range []string{"/a..b", "/[...x].ts", "/with space", "/é漢", "/.hidden", "/a'b\"c", "/{x}", "/$HOME", "/a*b", "/%2e%2e", "/d/...", "/#", "/a;b&c|d"} {
		s.write(p, p)
		s.want(p, p)
	}
}

func missing(s *suite) {
	_, err := s.Open(s.ctx, "/none")
	s.fails("open", err, fs.ErrNotExist)
	_, err = s.Open(s.ctx, "/no/such")
	s.fails("open in missing directory", err, fs.ErrNotExist)
	s.fails("delete", s.Backend.Delete(s.ctx, "/none", files.Any), fs.ErrNotExist)
	_, err = s.List(s.ctx, "/none")
	s.fails("list", err, fs.ErrNotExist)
	if got := s.walked("/none"); got != "" {
		s.Errorf("walk of missing directory: %s", got)
	}
	if got := s.listed("/"); got != "" {
		s.Errorf("empty backend lists %s", got)
	}
}

func directories(s *suite) {
	s.write("/d/e/f", "x")
	_, err := s.Open(s.ctx, "/d")
	s.fails("open directory", err, files.ErrIsDir)
	s.fails("write directory", s.Write(s.ctx, "/d/e", nil, files.Any), files.ErrIsDir)
	s.fails("write root", s.Write(s.ctx, "/", nil, files.Any), files.ErrIsDir)
	s.fails("delete directory", s.Backend.Delete(s.ctx, "/d/e", files.Any), files.ErrIsDir)
	if err := s.Write(s.ctx, "/d/e/f/g", nil, files.Any); err == nil {
		s.Error("write below a file succeeded")
	}
	if _, err := s.List(s.ctx, "/d/e/f"); err == nil {
		s.Error("list of a file succeeded")
	}
	s.want("/d/e/f", "x")
}

func list(s *suite) {
	for _, p := range []string{"/b", "/a/x", "/a/y/z", "/a-b", "/a.b", "/c/d/e/f"} {
		s.write(p, p)
	}
	for dir, want := range map[string]string{"/": "/a/ /a-b /a.b /b /c/", "/a": "/a/x /a/y/", "/c/d": "/c/d/e/"} {
		if d := cmp.Diff(want, s.listed(dir)); d != "" {
			s.Errorf("%s (-want +got):\n%s", dir, d)
		}
	}
}

func walk(s *suite) {
	for _, p := range []string{"/b", "/a/x", "/a/y/z", "/a-b", "/ab/c"} {
		s.write(p, p)
	}
	for dir, want := range map[string]string{"/": "/a/x /a/y/z /a-b /ab/c /b", "/a": "/a/x /a/y/z", "/b": ""} {
		if d := cmp.Diff(want, s.walked(dir)); d != "" {
			s.Errorf("%s (-want +got):\n%s", dir, d)
		}
	}
	for e := range s.Walk(s.ctx, "/") {
		if e.Size != int64(len(e.Path)) {
			s.Errorf("%s has size %d", e.Path, e.Size)
		}
		break // leaving the loop early is not an error
	}
}

func remove(s *suite) {
	s.write("/d/a", "1")
	s.write("/d/b", "2")
	for _, p := range []string{"/d/a", "/d/b"} {
		if err := s.Backend.Delete(s.ctx, p, files.Any); err != nil {
			s.Fatal(err)
		}
	}
	_, err := s.Open(s.ctx, "/d/a")
	s.fails("open deleted file", err, fs.ErrNotExist)
	if got := s.listed("/"); got != "" {
		s.Errorf("empty directory remains: %s", got)
	}
	s.write("/d", "now a file")
	s.want("/d", "now a file")
}

func versions(s *suite) {
	put := func(content string, old files.Version) error { return s.Write(s.ctx, "/v", []byte(content), old) }
	s.fails("replace absent file", put("1", files.VersionOf([]byte("0"))), files.ErrConflict)
	if err := put("1", files.Absent); err != nil {
		s.Fatal(err)
	}
	s.fails("create existing file", put("2", files.Absent), files.ErrConflict)
	s.fails("replace other content", put("2", files.VersionOf([]byte("0"))), files.ErrConflict)
	if err := put("2", files.VersionOf([]byte("1"))); err != nil {
		s.Fatal(err)
	}
	s.fails("delete other content", s.Backend.Delete(s.ctx, "/v", files.VersionOf([]byte("1"))), files.ErrConflict)
	s.want("/v", "2")
	if err := s.Backend.Delete(s.ctx, "/v", files.VersionOf([]byte("2"))); err != nil {
		s.Fatal(err)
	}
}

func ownWrites(s *suite) {
	content := []byte("before")
	if err := s.Write(s.ctx, "/o", content, files.Any); err != nil {
		s.Fatal(err)
	}
	copy(content, "xxxxxx")
	s.want("/o", "before")
	raw := []byte(s.read("/o"))
	copy(raw, "yyyyyy")
	s.want("/o", "before")
}

// concurrent adds a line to a file from several goroutines; none may be lost.
func concurrent(s *suite) {
	s.write("/n", "")
	var all sync.WaitGroup
	const writers = 8
	for i := range writers {
		all.Go(func() {
			if err := s.Write(s.ctx, fmt.Sprintf("/dir/%d", i), []byte("x"), files.Absent); err != nil {
				s.Error(err)
			}
			for {
				was, err := files.Read(s.ctx, s, "/n", 1<<20)
				if err != nil {
					s.Error(err)
					return
				}
				err = s.Write(s.ctx, "/n", append(bytes.Clone(was), fmt.Sprintln(i)...), files.VersionOf(was))
				if errors.Is(err, files.ErrConflict) {
					continue
				}
				if err != nil {
					s.Error(err)
				}
				return
			}
		})
	}
	all.Wait()
	if got := strings.Count(s.read("/n"), "\n"); got != writers {
		s.Errorf("%d of %d lines are left", got, writers)
	}
	if got := len(strings.Fields(s.walked("/dir"))); got != writers {
		s.Errorf("%d of %d files are left", got, writers)
	}
}

func large(s *suite) {
	content := strings.Repeat("a line of text\n", 1<<16)
	s.write("/large", content)
	s.want("/large", content)
	_, err := files.Read(s.ctx, s, "/large", 1000)
	s.fails("read above the limit", err, files.ErrTooLarge)
	f, err := s.Open(s.ctx, "/large")
	if err != nil {
		s.Fatal(err)
	}
	start := make([]byte, 4)
	if _, err := io.ReadFull(f, start); err != nil || string(start) != "a li" {
		s.Errorf("start is %q, %v", start, err)
	}
	if err := f.Close(); err != nil { // before the end
		s.Error(err)
	}
}

// globs finds the same files in every backend.
func globs(s *suite) {
	for _, p := range []string{"/a.go", "/d/b.go", "/d/e/c.go", "/d/e/c.txt", "/.git/x.go", "/d/.env", "/d/[x].go", "/d/.c/h.go"} {
		s.write(p, "x")
	}
	for _, c := range []struct{ pattern, dir, want string }{
		{"*.go", "/", "/.git/x.go /a.go /d/.c/h.go /d/[x].go /d/b.go /d/e/c.go"},
		{"**/*.go", "/", "/a.go /d/[x].go /d/b.go /d/e/c.go"},
		{"/*.go", "/", "/a.go"},
		{"d/*.go", "/", "/d/[x].go /d/b.go"},
		{"*.go", "/d/e", "/d/e/c.go"},
		{"e/*", "/d", "/d/e/c.go /d/e/c.txt"},
		{"/d/**", "/", "/d/[x].go /d/b.go /d/e/c.go /d/e/c.txt"},
		{"c.{go,t{x,y}t}", "/", "/d/e/c.go /d/e/c.txt"},
		{"[!ab].go", "/", "/.git/x.go /d/.c/h.go /d/e/c.go"},
		{"?.go", "/d", "/d/.c/h.go /d/b.go /d/e/c.go"},
		{".env", "/", "/d/.env"},
		{".git/**", "/", "/.git/x.go"},
		{"[[]x].go", "/", "/d/[x].go"},
		{"nothing", "/", ""},
	} {
		p, err := files.Compile(c.pattern)
		if err != nil {
			s.Fatal(err)
		}
		var found []string
		for e, err := range s.Walk(s.ctx, c.dir) {
			if err != nil {
				s.Fatal(err)
			}
			if p.Match(c.dir, e.Path) {
				found = append(found, e.Path)
			}
		}
		if d := cmp.Diff(c.want, strings.Join(found, " ")); d != "" {
			s.Errorf("%s in %s (-want +got):\n%s", c.pattern, c.dir, d)
		}
	}
}
