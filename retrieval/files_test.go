package retrieval_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/retrieval"
	"github.com/treadle-go/treadle/store"
)

// documents returns the documents of a file.
func documents(t *testing.T, name string, content []byte) []retrieval.Document {
	t.Helper()
	fsys := fstest.MapFS{name: &fstest.MapFile{Data: content}}
	for source, err := range retrieval.FS(fsys, nil)(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		raw, err := source.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		docs, err := source.Parse(t.Context(), source.Name, raw)
		if err != nil {
			t.Fatal(err)
		}
		return docs
	}
	t.Fatal("no source")
	return nil
}

func inUTF16(text string, order binary.AppendByteOrder) (out []byte) {
	for _, unit := range utf16.Encode([]rune("\ufeff" + text)) {
		out = order.AppendUint16(out, unit)
	}
	return out
}

func TestFilesAreParsedByExtension(t *testing.T) {
	for name, c := range map[string]struct {
		content []byte
		want    []retrieval.Document
	}{
		"a.txt":     {[]byte("hi"), []retrieval.Document{{Text: "hi", Line: 1}}},
		"README":    {[]byte("hi"), []retrieval.Document{{Text: "hi", Line: 1}}},
		"a.MD":      {[]byte("# hi"), []retrieval.Document{{Text: "# hi", Line: 1, Format: "markdown"}}},
		"a.go":      {[]byte("package a"), []retrieval.Document{{Text: "package a", Line: 1, Format: "code"}}},
		"little.md": {inUTF16("žluťoučký 👩", binary.LittleEndian), []retrieval.Document{{Text: "žluťoučký 👩", Line: 1, Format: "markdown"}}},
		"big.txt":   {inUTF16("kůň", binary.BigEndian), []retrieval.Document{{Text: "kůň", Line: 1}}},
		"a.csv": {[]byte("name,age\nAda,36\n\"Bob\nJr\",7\nEve,1\n"), []retrieval.Document{
			{ID: "line 2", Text: "name: Ada\nage: 36\n", Meta: map[string]any{"name": "Ada", "age": "36"}},
			{ID: "line 3", Text: "name: Bob\nJr\nage: 7\n", Meta: map[string]any{"name": "Bob\nJr", "age": "7"}},
			{ID: "line 5", Text: "name: Eve\nage: 1\n", Meta: map[string]any{"name": "Eve", "age": "1"}},
		}},
		"a.json": {[]byte(`{"a": 1}`), []retrieval.Document{{Text: `{"a": 1}`, Format: "code", Line: 1}}},
		"list.json": {[]byte("[\n {\"a\":\n 1},\n\n \"b\"]"), []retrieval.Document{
			{ID: "0", Text: "{\"a\":\n 1}", Format: "code", Line: 2}, {ID: "1", Text: `"b"`, Format: "code", Line: 5},
		}},
		"a.jsonl": {[]byte("{\"a\":1}\n\n{\"b\":2}"), []retrieval.Document{
			{ID: "line 1", Text: `{"a":1}`, Format: "code", Line: 1}, {ID: "line 3", Text: `{"b":2}`, Format: "code", Line: 3},
		}},
	} {
		if diff := cmp.Diff(c.want, documents(t, name, c.content)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestUnusableFilesAreSkippedWithReason(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("good.txt", "good")
	write("binary", "\x7fELF\x00\x01")
	write("latin1.txt", "caf\xe9")
	write("odd.txt", "\xff\xfea")
	write("surrogate.txt", "\xff\xfe\x00\xd8")
	write("broken.json", `{"a":`)
	write("deep.json", strings.Repeat("[", 1<<20))
	write("broken.csv", "a,b\n1\n")
	write("bomb.csv", strings.Repeat("x", 1<<20)+"\n"+strings.Repeat("1\n", 1<<16))
	write("broken.jsonl", "{}\nnope\n")
	write("report.pdf", "%PDF-1.7 needs a parser")
	write("panics.x", "1")
	write(".env", "SECRET=1")
	write(".git/config", "x")
	write("empty.txt", " \n")
	big, err := os.Create(filepath.Join(dir, "big.txt")) // a sparse file
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(big.Truncate(1<<30), big.Close()); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"loop": ".", "outside": "/etc/passwd", "self": "self"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	x := newIndex(t, newStore(t, nil), nil)
	parsers := map[string]retrieval.Parser{".x": func(context.Context, string, []byte) ([]retrieval.Document, error) { panic("bug") }}
	load := retrieval.Dir(dir, &retrieval.FilesOptions{Parsers: parsers})
	const want = `1 added, 0 updated, 0 unchanged, 0 deleted, 18 skipped, 0 failed; 1 chunks written
skipped ".env": name starts with a dot
skipped ".git": directory whose name starts with a dot
skipped "big.txt": larger than 16777216 bytes
skipped "binary": binary file: it contains NUL bytes
skipped "bomb.csv": column names make the text too long
skipped "broken.csv": record on line 2: wrong number of fields
skipped "broken.json": unexpected end of JSON input
skipped "broken.jsonl": line 2 is not JSON
skipped "deep.json": invalid character '[' exceeded max depth
skipped "empty.txt": no text
skipped "latin1.txt": invalid UTF-8 at byte 3: convert it to UTF-8
skipped "loop": symbolic link
skipped "odd.txt": invalid UTF-16: it has an odd number of bytes
skipped "outside": symbolic link
skipped "panics.x": parser: panic: bug
skipped "report.pdf": no parser for .pdf
skipped "self": symbolic link
skipped "surrogate.txt": invalid UTF-16`
	for _, status := range []string{"1 added, 0 updated, 0 unchanged", "0 added, 0 updated, 1 unchanged"} {
		got := strings.Split(syncs(t, x, load, nil).String(), "\n")
		for i := range got {
			if at := strings.Index(got[i], " (retrieval"); at > 0 {
				got[i] = got[i][:at] // the place of the panic
			}
		}
		wanted := strings.Split(strings.Replace(want, "1 added, 0 updated, 0 unchanged", status, 1), "\n")
		wanted[0] = strings.Replace(wanted[0], "1 chunks", map[bool]string{true: "1 chunks", false: "0 chunks"}[strings.HasPrefix(status, "1")], 1)
		if diff := cmp.Diff(wanted, got); diff != "" {
			t.Error(diff)
		}
	}
}

func TestUnusableFileIsRemoved(t *testing.T) {
	x := newIndex(t, newStore(t, nil), nil)
	syncs(t, x, retrieval.FS(folder(map[string]string{"a.txt": "text"}), nil), nil)
	r := syncs(t, x, retrieval.FS(folder(map[string]string{"a.txt": "\x00"}), nil), nil)
	if names, err := x.Sources(t.Context()); err != nil || len(names) != 0 || len(r.Skipped) != 1 {
		t.Error(names, err, r)
	}
	r = syncs(t, x, retrieval.FS(folder(map[string]string{"a.txt": "text"}), nil), nil)
	if r.Added != 1 || r.Chunks != 1 {
		t.Error(r)
	}
}

func TestFailedListingFailsSync(t *testing.T) {
	x := newIndex(t, newStore(t, nil), nil)
	dir := t.TempDir()
	for _, load := range []retrieval.Loader{retrieval.Dir(filepath.Join(dir, "missing"), nil), retrieval.FS(nil, nil), nil} {
		if r, err := x.Sync(t.Context(), load, nil); err == nil || r == nil {
			t.Error(r, err)
		}
	}
	if _, err := x.Sync(t.Context(), retrieval.Dir(filepath.Join(dir, "missing"), nil), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestMatchSelectsFiles(t *testing.T) {
	x := newIndex(t, newStore(t, nil), nil)
	match := func(path string) bool { return strings.HasPrefix(path, "docs/") }
	r := syncs(t, x, retrieval.FS(folder(map[string]string{"docs/a.md": "a", "b.md": "b"}), &retrieval.FilesOptions{Match: match}), nil)
	if names, err := x.Sources(t.Context()); err != nil || !slices.Equal(names, []string{"docs/a.md"}) || len(r.Skipped) != 0 {
		t.Error(names, err, r)
	}
}

// TestChunksKnowTheirPlace checks that the offsets and lines of stored chunks are those of
// the file.
func TestChunksKnowTheirPlace(t *testing.T) {
	text := "intro\n\n# Owls\n\n" + strings.Repeat("Owls fly silently at night.\n", 100) + "\n## Food\n\nMice.\n"
	s := newStore(t, nil)
	x := newIndex(t, s, retrieval.Split(&retrieval.SplitOptions{Size: 300, Overlap: 60}))
	syncs(t, x, retrieval.FS(folder(map[string]string{"owls.md": text}), nil), nil)
	found, err := s.Search(t.Context(), store.Namespace{"documents", "chunks"}, &store.SearchOptions{Limit: 100})
	if err != nil || len(found) < 10 {
		t.Fatal(len(found), err)
	}
	for _, item := range found {
		var c retrieval.Chunk
		if err := item.Decode(&c); err != nil {
			t.Fatal(err)
		}
		first := strings.TrimSpace(c.Text)
		line := 1 + strings.Count(text[:strings.Index(text[c.Start:], first)+c.Start], "\n")
		if c.Text != text[c.Start:c.End] || c.Line != line || c.Place() != fmt.Sprintf("owls.md:%d", line) {
			t.Errorf("chunk %d at line %d has line %d and place %s", c.Number, line, c.Line, c.Place())
		}
	}
	if last := found[len(found)-1]; !bytes.Contains(last.Value, []byte(`"headings":["Owls","Food"]`)) {
		t.Errorf("%s", last.Value)
	}
}
