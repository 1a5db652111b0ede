package items

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/treadle-go/treadle/internal/test/pgtest"
	"github.com/treadle-go/treadle/postgres/internal/database"
	"github.com/treadle-go/treadle/postgres/internal/databasetest"
	"github.com/treadle-go/treadle/store"
	"github.com/treadle-go/treadle/store/storetest"
)

// sentence is one of some billions that people might have a program remember.
func sentence(rnd *rand.Rand) string {
	pick := func(of string) string {
		all := strings.Split(of, "|")
		return all[rnd.IntN(len(all))]
	}
	return fmt.Sprintf("%s %s %s %s %s %s",
		pick("Ada|Bob|the customer|our neighbour|my sister|the new colleague|a friend of mine|Dr. Osei|the landlord|everyone in the team|Mr. Tanaka|the night nurse"),
		pick("likes|cannot stand|asked about|has forgotten|wants to buy|complained about|recommended|repaired|wrote a letter about|dreams of|was allergic to|is learning about|sold|teaches"),
		pick("green|old|expensive|Italian|broken|second-hand|wooden|electric|frozen|medieval|noisy|organic|Portuguese|imported|blue|tiny"),
		pick("tea|bicycles|pizza|violins|guitar strings|train tickets|tax returns|tomatoes|keyboards|novels|mountain huts|solar panels|dishwashers|insurance contracts|cheese|owls|chess sets|passwords|running shoes|greenhouses"),
		pick("on Mondays|since the accident|before breakfast|during the meeting|in Lisbon|at the station|because of the weather|for the first time|when nobody listens|near the river|after the concert|until next spring|in the garden|without telling anybody"),
		pick("and it matters a lot|but only sometimes|as far as I know|which is a secret|and will do so again|to everyone's surprise|with great care|for good reasons|again and again|and regrets it"))
}

// fill puts many items under a thousand users.
func fill(tb testing.TB, s *store.Store, items int) {
	tb.Helper()
	rnd := rand.New(rand.NewPCG(1, 2))
	var ops []store.Op
	for i := range items {
		ops = append(ops, store.PutOp{Namespace: store.Namespace{"users", fmt.Sprint(i % 1000)}, Key: fmt.Sprint("key ", i),
			Value: map[string]any{"text": sentence(rnd), "n": i, "kind": fmt.Sprint("kind ", i%100)}})
		if len(ops) == 500 || i == items-1 {
			if _, err := s.Batch(tb.Context(), ops...); err != nil {
				tb.Fatal(err)
			}
			ops = ops[:0]
		}
	}
}

// filled returns a store with many items, on a disk that is waited for.
func filled(tb testing.TB, items int, opts *store.Options) (*testDB, *store.Store) {
	tb.Helper()
	db := fresh(tb, pgtest.URL(tb), database.Options{MaxConns: 16})
	s := storeOf(tb, db, opts)
	fill(tb, s, items)
	return db, s
}

var textOnly = []string{"text"}

func BenchmarkStore(b *testing.B) {
	storetest.Benchmark(b, func(b *testing.B) store.Backend { return fresh(b, pgtest.URL(b), database.Options{}).backend })
}

// Sixteen writers, who come one after another.
func BenchmarkStorePutByMany(b *testing.B) {
	_, s := filled(b, 1000, &store.Options{Fields: textOnly})
	var n atomic.Int64
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			i := n.Add(1)
			if err := s.Put(b.Context(), store.Namespace{"users", fmt.Sprint(i % 1000)}, fmt.Sprint("new ", i), map[string]any{"text": "Ada likes green tea"}, nil); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// settle is what the server does by itself a while after much was written.
func settle(tb testing.TB, db *testDB) {
	tb.Helper()
	if _, err := db.conn.Pool.Exec(tb.Context(), db.conn.In("VACUUM ANALYZE {schema}.store_item, {schema}.store_vector, {schema}.store_record")); err != nil {
		tb.Fatal(err)
	}
}

func BenchmarkStoreSearch(b *testing.B) {
	db, s := filled(b, 10_000, &store.Options{Fields: textOnly, Embedder: store.NewHashEmbedder(384)})
	settle(b, db)
	searches(b, s)
}

// The same in a database that has pgvector, and is slow otherwise.
func BenchmarkStoreSearchPgvector(b *testing.B) {
	db := lite(b)
	s := storeOf(b, db, &store.Options{Fields: textOnly, Embedder: store.NewHashEmbedder(384)})
	fill(b, s, 10_000)
	settle(b, db)
	searches(b, s)
}

func searches(b *testing.B, s *store.Store) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for _, bench := range []struct {
		name   string
		prefix store.Namespace
		o      func() *store.SearchOptions
	}{
		{"semantic", nil, func() *store.SearchOptions { return &store.SearchOptions{Query: sentence(rnd)} }},
		{"semantic user", store.Namespace{"users", "7"}, func() *store.SearchOptions { return &store.SearchOptions{Query: sentence(rnd)} }},
		{"keyword", nil, func() *store.SearchOptions {
			return &store.SearchOptions{Query: "Portuguese tea before breakfast", Ranking: store.Keyword}
		}},
		{"keyword user", store.Namespace{"users", "7"}, func() *store.SearchOptions {
			return &store.SearchOptions{Query: "Portuguese tea before breakfast", Ranking: store.Keyword}
		}},
		{"hybrid", nil, func() *store.SearchOptions {
			return &store.SearchOptions{Query: "Portuguese tea before breakfast", Ranking: store.Hybrid}
		}},
		{"filter", nil, func() *store.SearchOptions { return &store.SearchOptions{Filter: store.Eq("kind", "kind 5")} }},
		{"filter none", nil, func() *store.SearchOptions { return &store.SearchOptions{Filter: store.Eq("kind", "none")} }},
		{"semantic filter", nil, func() *store.SearchOptions {
			return &store.SearchOptions{Query: sentence(rnd), Filter: store.Eq("kind", "kind 5")}
		}},
		{"newest", nil, func() *store.SearchOptions { return &store.SearchOptions{} }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				o := bench.o()
				start := time.Now()
				if _, err := s.Search(b.Context(), bench.prefix, o); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(start))
			}
			b.ReportMetric(float64(databasetest.Median(took).Microseconds()), "p50-µs")
			b.ReportMetric(float64(slices.Min(took).Microseconds()), "best-µs")
		})
	}
}
