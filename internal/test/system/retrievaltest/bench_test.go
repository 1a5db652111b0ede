package retrievaltest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/treadle-go/treadle/retrieval"
	"github.com/treadle-go/treadle/store"
)

// writeFolder writes files with the given number of chunks in all.
func writeFolder(t testing.TB, dir string, chunks int) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 1))
	words := make([]string, 20_000)
	for i := range words {
		words[i] = fmt.Sprintf("w%c%c%d", 'a'+i%26, 'a'+i/26%26, i)
	}
	for file := 0; file*50 < chunks; file++ {
		var b strings.Builder
		for range 50 {
			for range 80 {
				b.WriteString(words[int(float64(len(words))*random.Float64()*random.Float64())])
				b.WriteByte(' ')
			}
			b.WriteString("\n\n")
		}
		name := filepath.Join(dir, fmt.Sprintf("%d/%d.txt", file%100, file))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// BenchmarkLargeIndex syncs a folder of 100,000 chunks, syncs it again unchanged, and searches
// it with and without a filter. Run it with -benchtime=1x.
func BenchmarkLargeIndex(b *testing.B) {
	chunks := 100_000
	dir := b.TempDir()
	writeFolder(b, dir, chunks)
	db, _, _, err := open(filepath.Join(b.TempDir(), "large.db"), store.NewHashEmbedder(384))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	x, err := retrieval.New(mustStore(b, db), &retrieval.Options{Splitter: retrieval.Split(&retrieval.SplitOptions{Size: 700})})
	if err != nil {
		b.Fatal(err)
	}
	load := retrieval.Dir(dir, nil)
	for _, kind := range []string{"first", "unchanged"} {
		start := time.Now()
		r, err := x.Sync(b.Context(), load, nil)
		if err != nil {
			b.Fatal(err)
		}
		taken := time.Since(start).Round(time.Millisecond)
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		b.Logf("%s sync: %v, heap %d MB, %v", kind, taken, m.HeapSys>>20, r)
	}
	random := rand.New(rand.NewPCG(2, 2))
	for _, c := range []struct {
		name string
		opts retrieval.SearchOptions
	}{
		{"semantic", retrieval.SearchOptions{Ranking: store.Semantic}},
		{"semantic-filtered", retrieval.SearchOptions{Ranking: store.Semantic, Filter: store.In("source", "1/1.txt", "2/102.txt", "3/203.txt")}},
		{"keyword", retrieval.SearchOptions{Ranking: store.Keyword}},
		{"hybrid", retrieval.SearchOptions{}},
		{"hybrid-filtered", retrieval.SearchOptions{Filter: store.In("source", "1/1.txt", "2/102.txt", "3/203.txt")}},
	} {
		var times []time.Duration
		for n := range 60 {
			query := fmt.Sprintf("wa%c%d wb%c%d wc", 'a'+random.IntN(26), random.IntN(20_000), 'a'+random.IntN(26), random.IntN(20_000))
			start := time.Now()
			if _, err := x.Search(b.Context(), query, &c.opts); err != nil {
				b.Fatal(err)
			}
			if n >= 5 { // the first read the index
				times = append(times, time.Since(start))
			}
		}
		slices.Sort(times)
		b.Logf("%s search: median %v, p95 %v", c.name, times[len(times)/2], times[len(times)*95/100])
	}
	for b.Loop() {
		if _, err := x.Search(b.Context(), "wab27 wcd", nil); err != nil {
			b.Fatal(err)
		}
	}
}

func mustStore(b *testing.B, db interface {
	Store(opts *store.Options) (*store.Store, error)
}) *store.Store {
	b.Helper()
	s, err := db.Store(&store.Options{Embedder: store.NewHashEmbedder(384), History: 1})
	if err != nil {
		b.Fatal(err)
	}
	return s
}
