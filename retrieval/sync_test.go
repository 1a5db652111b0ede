package retrieval_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/treadle-go/treadle/retrieval"
	"github.com/treadle-go/treadle/store"
)

// byLine makes a chunk of each line, so that small files have many chunks.
var byLine = retrieval.NewSplitter("lines", func(d *retrieval.Document) (spans []retrieval.Span) {
	at := 0
	for line := range strings.Lines(d.Text) {
		spans = append(spans, retrieval.Span{Start: at, End: at + len(line)})
		at += len(line)
	}
	return spans
})

func folder(files map[string]string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fsys
}

// counted counts the texts that it embeds. It fails while fail is positive, which each call
// decrements.
type counted struct {
	store.Embedder
	texts, fail atomic.Int64
}

var errEmbed = errors.New("the provider is down")

func (c *counted) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	if c.fail.Add(-1) >= 0 {
		return nil, errEmbed
	}
	c.texts.Add(int64(len(texts)))
	return c.Embedder.Embed(ctx, texts)
}

func newStore(t testing.TB, e store.Embedder) *store.Store {
	t.Helper()
	s, err := store.NewMemory(&store.Options{Embedder: e, History: 1})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newIndex(t testing.TB, s *store.Store, splitter *retrieval.Splitter) *retrieval.Index {
	t.Helper()
	x, err := retrieval.New(s, &retrieval.Options{Splitter: splitter})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func syncs(t testing.TB, x *retrieval.Index, load retrieval.Loader, opts *retrieval.SyncOptions) *retrieval.Report {
	t.Helper()
	r, err := x.Sync(t.Context(), load, opts)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// items returns the values of all items under a namespace, by key.
func items(t interface {
	Helper()
	Fatal(...any)
}, s *store.Store, n ...string) map[string]string {
	t.Helper()
	found, err := s.Search(context.Background(), n, &store.SearchOptions{Limit: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, item := range found {
		out[item.Key] = string(item.Value)
	}
	return out
}

// TestRepeatedDataIsBounded indexes sources whose headings and Meta, which each chunk repeats,
// are so long that the index would be much larger than the sources.
func TestRepeatedDataIsBounded(t *testing.T) {
	s := newStore(t, nil)
	x := newIndex(t, s, nil)
	paragraphs := strings.Repeat(strings.Repeat("word ", 150)+"\n\n", 200)
	long := strings.Repeat("é", 50_000)
	load := retrieval.Documents(
		retrieval.Document{ID: "heading", Format: "markdown", Text: "# " + long + "\n\n" + paragraphs},
		retrieval.Document{ID: "meta", Text: "text", Meta: map[string]any{"a": long}},
		retrieval.Document{ID: "metas", Text: strings.Repeat(paragraphs, 15), Meta: map[string]any{"a": long[:60_000]}},
	)
	const want = "1 added, 0 updated, 0 unchanged, 0 deleted, 2 skipped, 0 failed; 251 chunks written\n" +
		"skipped \"meta\": meta of document \"\" exceeds 65536 bytes\n" +
		"skipped \"metas\": headings and meta that all chunks repeat exceed 134217728 bytes"
	if got := syncs(t, x, load, nil).String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	size := 0
	for _, value := range items(t, s, "documents", "chunks") {
		size += len(value)
	}
	if most := 3 * (len(paragraphs) + len(long)); size > most {
		t.Errorf("the chunks have %d bytes, want at most %d", size, most)
	}
	hits, err := x.Search(t.Context(), "word", &retrieval.SearchOptions{Limit: 1})
	if err != nil || len(hits) != 1 || len(hits[0].Headings) != 1 || hits[0].Headings[0] != strings.Repeat("é", 100)+"…" {
		t.Errorf("%.300q, %v", fmt.Sprint(hits), err)
	}
}

func TestLongCellsAreNotMeta(t *testing.T) {
	s := newStore(t, nil)
	x := newIndex(t, s, nil)
	syncs(t, x, retrieval.FS(folder(map[string]string{"a.csv": "id,text\n7," + strings.Repeat("long ", 20_000) + "\n8,short\n"}), nil), nil)
	for _, c := range []struct {
		filter store.Filter
		want   int
	}{{store.Eq("meta.id", "7"), 102}, {store.Eq("meta.text", "short"), 1}, {store.Exists("meta.text"), 1}} {
		found, err := s.Search(t.Context(), store.Namespace{"documents", "chunks"}, &store.SearchOptions{Filter: c.filter, Limit: 1000})
		if err != nil || len(found) != c.want {
			t.Errorf("%v finds %d chunks, want %d: %v", c.filter, len(found), c.want, err)
		}
	}
}

func TestSyncMatchesFolder(t *testing.T) {
	s := newStore(t, nil)
	x := newIndex(t, s, byLine)
	files := map[string]string{"a.txt": "one\ntwo\n", "b/c.md": "# C\n", "gone.txt": "bye\n"}
	if got := syncs(t, x, retrieval.FS(folder(files), nil), nil).String(); got != "3 added, 0 updated, 0 unchanged, 0 deleted, 0 skipped, 0 failed; 4 chunks written" {
		t.Error(got)
	}
	files["a.txt"] = "one\n2\nthree\n"
	delete(files, "gone.txt")
	files["new.txt"] = "new\n"
	var progress []string
	r := syncs(t, x, retrieval.FS(folder(files), nil), &retrieval.SyncOptions{Workers: 1, Progress: func(p retrieval.Progress) {
		progress = append(progress, fmt.Sprint(p.Source, " ", p.Status, " ", p.Chunks))
	}})
	if got := r.String(); got != "1 added, 1 updated, 1 unchanged, 1 deleted, 0 skipped, 0 failed; 3 chunks written" {
		t.Error(got)
	}
	slices.Sort(progress)
	if want := []string{"a.txt updated 2", "b/c.md unchanged 0", "gone.txt deleted 0", "new.txt added 1"}; !slices.Equal(progress, want) {
		t.Error(progress)
	}
	names, err := x.Sources(t.Context())
	if want := []string{"a.txt", "b/c.md", "new.txt"}; err != nil || !slices.Equal(names, want) {
		t.Error(names, err)
	}
	text, err := x.Text(t.Context(), "a.txt", "", 2, 8)
	if err != nil || text != "e\n2\nth" {
		t.Errorf("%q %v", text, err)
	}
	if _, err := x.Text(t.Context(), "a.txt", "", 2, 99); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
}

// fresh returns the items of an index that has only seen the given files.
func fresh(t *testing.T, files map[string]string, splitter *retrieval.Splitter) map[string]string {
	t.Helper()
	s := newStore(t, nil)
	syncs(t, newIndex(t, s, splitter), retrieval.FS(folder(files), nil), nil)
	return items(t, s, "documents")
}

// TestAnySyncsMatchFolder changes a folder, syncs it several times at once, lets the embedder
// fail, and compares the index with a new one.
func TestAnySyncsMatchFolder(t *testing.T) {
	names := rapid.SampledFrom([]string{"a.txt", "b.md", "d/c.txt", "data.csv", "image.png", "long.txt", "e.txt"})
	contents := rapid.OneOf(rapid.StringMatching(`([a-d]\n){0,6}`), rapid.Just("\xff\xfe\x00"), rapid.Just("h,i\n1,2\n3,4\n"),
		rapid.Custom(func(t *rapid.T) string {
			return strings.Repeat(rapid.SampledFrom([]string{"x\n", "y\n"}).Draw(t, "line"),
				rapid.SampledFrom([]int{250, 300, 600}).Draw(t, "lines"))
		}))
	rapid.Check(t, func(rt *rapid.T) {
		e := &counted{Embedder: store.NewHashEmbedder(8)}
		s := newStore(t, e)
		x := newIndex(t, s, byLine)
		files := map[string]string{}
		for range rapid.IntRange(1, 3).Draw(rt, "rounds") {
			for range rapid.IntRange(0, 5).Draw(rt, "changes") {
				name := names.Draw(rt, "name")
				if rapid.IntRange(0, 3).Draw(rt, "delete") == 0 {
					delete(files, name)
				} else {
					files[name] = contents.Draw(rt, "content")
				}
			}
			load := retrieval.FS(folder(files), nil)
			e.fail.Store(int64(rapid.IntRange(0, 3).Draw(rt, "failures")))
			var wait sync.WaitGroup
			for range rapid.IntRange(0, 3).Draw(rt, "syncs") {
				wait.Go(func() {
					if _, err := x.Sync(context.Background(), load, nil); err != nil && !errors.Is(err, errEmbed) {
						t.Error(err)
					}
				})
			}
			wait.Wait()
			e.fail.Store(0)
			if _, err := x.Sync(context.Background(), load, nil); err != nil {
				rt.Fatal(err)
			}
			if diff := cmp.Diff(fresh(t, files, byLine), items(rt, s, "documents")); diff != "" {
				rt.Fatalf("index does not match folder %v: %s", slices.Sorted(maps.Keys(files)), diff)
			}
		}
	})
}

func TestSyncsWithDifferentContentsAgree(t *testing.T) {
	s := newStore(t, nil)
	x := newIndex(t, s, byLine)
	var mu sync.Mutex
	current := strings.Repeat("old\n", 2000)
	load := retrieval.Loader(func(context.Context) iter.Seq2[retrieval.Source, error] {
		return func(yield func(retrieval.Source, error) bool) {
			yield(retrieval.Source{
				Name: "f",
				Read: func(context.Context) ([]byte, error) {
					mu.Lock()
					defer mu.Unlock()
					read := current
					current = strings.Repeat("new\n", 1000) // the file changes after the first read
					return []byte(read), nil
				},
				Parse: func(_ context.Context, _ string, content []byte) ([]retrieval.Document, error) {
					return []retrieval.Document{{Text: string(content)}}, nil
				},
			}, nil)
		}
	})
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			if r, err := x.Sync(t.Context(), load, nil); err != nil || len(r.Failed) > 0 {
				t.Error(r, err)
			}
		})
	}
	wait.Wait()
	syncs(t, x, load, nil)
	text, err := x.Text(t.Context(), "f", "", 0, 4000)
	if err != nil || text != current {
		t.Errorf("%.20q (%d bytes) %v", text, len(text), err)
	}
	if n := len(items(t, s, "documents", "chunks")); n != 1000 {
		t.Errorf("%d chunks", n)
	}
}

func TestSyncContinuesAfterFailure(t *testing.T) {
	e := &counted{Embedder: store.NewHashEmbedder(8)}
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintln(&b, "line", i)
	}
	load := retrieval.FS(folder(map[string]string{"long.txt": b.String()}), nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	stopping := &stopAfter{Embedder: e, calls: 2, stop: func() { cancel(stop) }}
	x := newIndex(t, newStore(t, stopping), byLine)
	if _, err := x.Sync(ctx, load, nil); !errors.Is(err, stop) && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	before := e.texts.Load()
	r := syncs(t, x, load, nil)
	if embedded := e.texts.Load() - before; before != 2*256 || embedded != 1000-256 && embedded != 1000-512 || r.Added != 1 {
		t.Errorf("the first sync embedded %d texts, and the second %d of 1000: %v", before, embedded, r)
	}
}

// stopAfter calls stop during a call.
type stopAfter struct {
	store.Embedder
	calls int
	stop  func()
}

func (s *stopAfter) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	if s.calls--; s.calls == 0 {
		s.stop()
	}
	return s.Embedder.Embed(ctx, texts)
}

func TestIncompleteListDeletesNothing(t *testing.T) {
	x := newIndex(t, newStore(t, nil), nil)
	syncs(t, x, retrieval.Documents(retrieval.Document{ID: "a", Text: "a"}, retrieval.Document{ID: "b", Text: "b"}), nil)
	broken := errors.New("the disk is gone")
	r, err := x.Sync(t.Context(), func(context.Context) iter.Seq2[retrieval.Source, error] {
		return func(yield func(retrieval.Source, error) bool) {
			_ = yield(retrieval.Source{Name: "a"}, broken) && yield(retrieval.Source{}, broken)
		}
	}, nil)
	if !errors.Is(err, broken) || r.Deleted != 0 {
		t.Error(r, err)
	}
	if names, err := x.Sources(t.Context()); err != nil || len(names) != 2 {
		t.Error(names, err)
	}
}

func TestUnreadableSourceIsKept(t *testing.T) {
	x := newIndex(t, newStore(t, nil), nil)
	syncs(t, x, retrieval.Documents(retrieval.Document{ID: "a", Text: "a"}), nil)
	r := syncs(t, x, func(context.Context) iter.Seq2[retrieval.Source, error] {
		return func(yield func(retrieval.Source, error) bool) {
			yield(retrieval.Source{Name: "a", Read: func(context.Context) ([]byte, error) { return nil, errors.New("permission denied") }}, nil)
		}
	}, nil)
	if got, want := r.String(), "0 added, 0 updated, 0 unchanged, 0 deleted, 0 skipped, 1 failed; 0 chunks written\nfailed \"a\": permission denied"; got != want {
		t.Error(got)
	}
	if names, err := x.Sources(t.Context()); err != nil || !slices.Equal(names, []string{"a"}) {
		t.Error(names, err)
	}
}

// database is a database in memory, whose stores see the same items.
type database struct{ backend store.Backend }

func (d database) Store(opts *store.Options) (*store.Store, error) { return store.New(d.backend, opts) }

// meaning is an embedder with a model, whose vectors are worth keeping.
type meaning struct{ *counted }

func (meaning) Model() string { return "meaning" }

func TestMovedTextIsNotEmbeddedAgain(t *testing.T) {
	e := &counted{Embedder: store.NewHashEmbedder(8)}
	db := database{store.NewMemoryBackend()}
	for n, files := range []map[string]string{
		{"a.txt": "one\ntwo\nthree\n"},
		{"b.txt": "zero\none\ntwo\nthree\n"},
	} {
		x, err := retrieval.Open(db, &retrieval.Options{Embedder: meaning{e}, Splitter: byLine})
		if err != nil {
			t.Fatal(err)
		}
		syncs(t, x, retrieval.FS(folder(files), nil), nil)
		if got := e.texts.Load(); got != int64(3+n) {
			t.Errorf("%d texts embedded after sync %d", got, n)
		}
	}
}
