package memorytest

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/treadle-go/treadle/internal/test/pgtest"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/postgres"
	"github.com/treadle-go/treadle/sqlite"
	"github.com/treadle-go/treadle/store"
)

// manyMemories is the number of memories in the benchmarks. All contain the same three
// words, which are not function words, and one in a thousand has the same topic.
const (
	manyMemories = 100_000
	manyTopics   = 1000
)

func manyText(i int) string {
	rnd := rand.New(rand.NewPCG(uint64(i), 1))
	zipf := rand.NewZipf(rnd, 1.05, 2.7, 20_000)
	words := []string{"customer", "account", "meeting"}
	for range 8 + rnd.IntN(10) {
		words = append(words, fmt.Sprintf("w%d", zipf.Uint64()))
	}
	return strings.Join(words, " ")
}

// manyEmbedder computes vectors that are distributed like embeddings: around centers that
// are nearer to each other than random ones. The vector of a text is always the same.
type manyEmbedder struct{}

func (manyEmbedder) Dimension() int { return 384 }

func (manyEmbedder) Model() string { return "many" }

func (manyEmbedder) Embed(_ context.Context, texts []string) ([][]float32, error) {
	out := make([][]float32, len(texts))
	for i, text := range texts {
		if strings.HasPrefix(text, "{") {
			var v struct{ Content json.RawMessage } // the tool stores a string here
			var m memory.Memory
			if err := json.Unmarshal([]byte(text), &v); err != nil {
				return nil, err
			}
			if json.Unmarshal(v.Content, &m) == nil {
				text = m.Content
			}
		}
		h := fnv.New64a()
		h.Write([]byte(text))
		rnd := rand.New(rand.NewPCG(h.Sum64(), 3))
		center := rand.New(rand.NewPCG(rnd.Uint64N(2000), 5))
		v := make([]float32, 384)
		var sum float64
		for j := range v {
			x := 0.5 + center.NormFloat64() + 0.7*rnd.NormFloat64()
			v[j] = float32(x)
			sum += x * x
		}
		for j := range v {
			v[j] /= float32(math.Sqrt(sum))
		}
		out[i] = v
	}
	return out, nil
}

var manyOptions = &store.Options{Embedder: manyEmbedder{}, Ranking: store.Hybrid}

func fillMany(b *testing.B, s *store.Store) {
	b.Helper()
	var ops []store.Op
	for i := range manyMemories {
		ops = append(ops, store.PutOp{Namespace: memories, Key: fmt.Sprint(i), Value: map[string]any{
			"kind": "Memory", "content": memory.Memory{Content: manyText(i)}, "topic": fmt.Sprint("topic ", i%manyTopics), "number": i},
			PutOptions: store.PutOptions{Meta: map[string]any{"rank": i % 400}}})
		if len(ops) == 500 || i == manyMemories-1 {
			if _, err := s.Batch(b.Context(), ops...); err != nil {
				b.Fatal(err)
			}
			ops = ops[:0]
		}
	}
}

// used returns the CPU time of the process.
func used(b *testing.B) time.Duration {
	b.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// timed runs do in the benchmark loop and reports the median, the 95th percentile, and the
// CPU time, which depends less on other processes.
func timed(b *testing.B, do func(i int) error) {
	b.Helper()
	var took []time.Duration
	before := used(b)
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		if err := do(i); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	b.ReportMetric(float64((used(b)-before).Microseconds())/1000/float64(len(took)), "cpu-ms")
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*95/100].Microseconds())/1000, "p95-ms")
}

// speeds runs the benchmarks of a store with many memories. Pseudorandom vectors stand for
// embeddings; computing them takes a few microseconds of each search.
func speeds(b *testing.B, s *store.Store) {
	// A message of ten words; all memories contain three of them.
	question := func(i int) string {
		words := strings.Fields(manyText(i * 37))
		return strings.Join(words[:min(len(words), 9)], " ") + " please"
	}
	search := func(o store.SearchOptions, want int) func(i int) error {
		return func(i int) error {
			o := o
			if o.Query != "" {
				o.Query = question(i)
			}
			items, err := s.Search(b.Context(), memories, &o)
			if err == nil && len(items) != want {
				err = fmt.Errorf("found %d items, want %d", len(items), want)
			}
			return err
		}
	}
	rare := store.Eq("topic", "topic 7")
	for _, bench := range []struct {
		name string
		do   func(i int) error
	}{
		{"semantic", search(store.SearchOptions{Query: "q", Ranking: store.Semantic}, 10)},
		{"keyword", search(store.SearchOptions{Query: "q", Ranking: store.Keyword}, 10)},
		{"hybrid", search(store.SearchOptions{Query: "q"}, 10)},
		{"rare filter", search(store.SearchOptions{Filter: rare}, 10)},
		{"semantic with rare filter", search(store.SearchOptions{Query: "q", Filter: rare, Ranking: store.Semantic}, 10)},
		{"hybrid with rare filter", search(store.SearchOptions{Query: "q", Filter: rare}, 10)},
		{"newest in range", search(store.SearchOptions{Filter: store.And(store.Gte("number", 20_000), store.Lt("number", 20_250))}, 10)},
		{"semantic in Meta, 1 in 400", search(store.SearchOptions{Query: "q", Filter: store.Meta(store.Eq("rank", 7)), Ranking: store.Semantic}, 10)},
		{"hybrid in Meta, 1 in 400", search(store.SearchOptions{Query: "q", Filter: store.Meta(store.Eq("rank", 7))}, 10)},
		{"semantic in range, 1 in 100", search(store.SearchOptions{Query: "q", Filter: store.Lt("number", manyMemories/100), Ranking: store.Semantic}, 10)},
		{"hybrid in range, 1 in 100", search(store.SearchOptions{Query: "q", Filter: store.Lt("number", manyMemories/100)}, 10)},
		{"keyword in range, 1 in 40", search(store.SearchOptions{Query: "q", Filter: store.Lt("number", manyMemories/40), Ranking: store.Keyword}, 10)},
		{"semantic in Meta, 1 in 10", search(store.SearchOptions{Query: "q", Filter: store.Meta(store.Lt("rank", 40)), Ranking: store.Semantic}, 10)},
		{"hybrid in Meta, 1 in 10", search(store.SearchOptions{Query: "q", Filter: store.Meta(store.Lt("rank", 40))}, 10)},
		{"hybrid in Meta, 9 in 10", search(store.SearchOptions{Query: "q", Filter: store.Meta(store.Gte("rank", 40))}, 10)},
		{"hybrid with unmatched filter", search(store.SearchOptions{Query: "q", Filter: store.Eq("topic", "none")}, 0)},
	} {
		b.Run(bench.name, func(b *testing.B) { timed(b, bench.do) })
	}
	b.Run("recall", func(b *testing.B) {
		r, err := memory.NewRecaller(&memory.RecallerOptions{Store: s, Namespace: memories})
		if err != nil {
			b.Fatal(err)
		}
		timed(b, func(i int) error {
			got, err := r.Recall(b.Context(), llm.User(question(i)))
			if err == nil && len(got.Memories) != 10 {
				err = fmt.Errorf("recalled %d memories", len(got.Memories))
			}
			return err
		})
	})
	b.Run("create", func(b *testing.B) {
		tool, err := memory.ManageTool[string](&memory.ToolOptions{Store: s, Namespace: memories})
		if err != nil {
			b.Fatal(err)
		}
		timed(b, func(i int) error {
			args, err := json.Marshal(map[string]any{"content": fmt.Sprint(manyText(-i-1), time.Now().UnixNano())})
			if err != nil {
				return err
			}
			_, err = tool.Call(b.Context(), llm.ToolCall{ID: "1", Name: tool.Name, Args: args})
			return err
		})
	})
}

func BenchmarkManyMemoriesInMemory(b *testing.B) {
	s, err := store.NewMemory(manyOptions)
	if err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	fillMany(b, s)
	b.Logf("filling took %v", time.Since(start))
	speeds(b, s)
}

func BenchmarkManyMemoriesOnSQLite(b *testing.B) {
	path := filepath.Join(b.TempDir(), "memories.db")
	open := func() (*sqlite.DB, *store.Store) {
		db, err := sqlite.Open(path, nil)
		if err != nil {
			b.Fatal(err)
		}
		s, err := db.Store(manyOptions)
		if err != nil {
			b.Fatal(err)
		}
		return db, s
	}
	shut := func(db *sqlite.DB) {
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
	}
	// Filling takes a minute or more. TREADLE_BENCH_FILE names a copy that later runs reuse.
	kept := os.Getenv("TREADLE_BENCH_FILE")
	if data, err := os.ReadFile(kept); err == nil {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			b.Fatal(err)
		}
	} else {
		db, s := open()
		start := time.Now()
		fillMany(b, s)
		b.Logf("filling took %v", time.Since(start))
		shut(db)
		if kept != "" {
			if data, err = os.ReadFile(path); err == nil {
				err = os.WriteFile(kept, data, 0o600)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("first search", func(b *testing.B) {
		timed(b, func(i int) error {
			db, s := open()
			defer shut(db)
			items, err := s.Search(b.Context(), memories, &store.SearchOptions{Query: manyText(i) + " please"})
			if err == nil && len(items) != 10 {
				err = fmt.Errorf("found %d items", len(items))
			}
			return err
		})
	})
	db, s := open()
	defer shut(db)
	speeds(b, s)
}

func BenchmarkManyMemoriesOnPostgres(b *testing.B) {
	db, err := postgres.Open(b.Context(), pgtest.URL(b), &postgres.Options{Schema: "many_memories", Migrate: true})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	}()
	s, err := db.Store(manyOptions)
	if err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	fillMany(b, s)
	b.Logf("filling took %v", time.Since(start))
	speeds(b, s)
}
