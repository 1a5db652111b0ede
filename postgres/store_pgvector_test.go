package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/treadle-go/treadle/internal/pgtest"
	"github.com/treadle-go/treadle/store"
	"github.com/treadle-go/treadle/store/storetest"
)

// planner is a transaction that notes how the server goes about queries.
type planner struct {
	querier
	plans []string
}

func (p *planner) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if strings.Contains(sql, "<#>") {
		rows, err := p.querier.Query(ctx, "EXPLAIN "+sql, args...)
		if err != nil {
			return nil, err
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return nil, err
		}
		p.plans = append(p.plans, strings.Join(lines, "\n"))
	}
	return p.querier.Query(ctx, sql, args...)
}

// plansOf does the searches of a batch and returns the plans of those for
// vectors.
func plansOf(t testing.TB, db *DB, as *store.Options, prefix store.Namespace, o *store.SearchOptions) (items []*store.Item, plans []string) {
	t.Helper()
	watched := &watched{Backend: &db.backend}
	w, err := store.New(watched, as)
	if err != nil {
		t.Fatal(err)
	}
	if items, err = w.Search(t.Context(), prefix, o); err != nil {
		t.Fatal(err)
	}
	p, err := db.backend.prepare(t.Context(), watched.last)
	if err != nil {
		t.Fatal(err)
	}
	err = db.read(t.Context(), func(c *pgx.Conn) error {
		return frozen(t.Context(), c, func(q querier) error {
			noted := &planner{querier: q}
			_, err := newLook(t.Context(), noted, p).all()
			plans = noted.plans
			return err
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return items, plans
}

// watched keeps the last batch.
type watched struct {
	store.Backend
	last *store.Batch
}

func (w *watched) Do(ctx context.Context, b *store.Batch) (*store.Results, error) {
	w.last = b
	return w.Backend.Do(ctx, b)
}

func TestPgvectorsIndexFindsTheNearestOfMany(t *testing.T) {
	db := lite(t)
	db.backend.few = new(500)
	o := &store.Options{Fields: textOnly, Embedder: store.NewHashEmbedder(64)}
	s := storeOf(t, db, o)
	exact, err := store.NewMemory(o)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, s, 1500)
	fill(t, exact, 1500)
	rnd := rand.New(rand.NewPCG(7, 8))
	found, of := 0, 0
	for range 20 {
		query := &store.SearchOptions{Query: sentence(rnd)}
		got, plans := plansOf(t, db, o, nil, query)
		if len(plans) != 1 || !strings.Contains(plans[0], "Index Scan using store_near_") {
			t.Fatalf("the index is not used:\n%s", strings.Join(plans, "\n\n"))
		}
		want, err := exact.Search(t.Context(), nil, query)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			of++
			if slices.ContainsFunc(got, func(g *store.Item) bool { return g.Key == w.Key }) {
				found++
			}
		}
	}
	if recall := float64(found) / float64(of); recall < 0.95 {
		t.Errorf("the recall is %.2f", recall)
	}
	for name, test := range map[string]struct {
		prefix store.Namespace
		o      store.SearchOptions
		want   int
		plans  int
	}{
		"a namespace with few":     {store.Namespace{"users", "7"}, store.SearchOptions{Query: "tea"}, 2, 1},
		"a filter that few pass":   {nil, store.SearchOptions{Query: "tea", Filter: store.Eq("n", 1499)}, 1, 2},
		"more than the index has":  {nil, store.SearchOptions{Query: "tea", Limit: 1200}, 1200, 1},
		"a filter that SQL leaves": {nil, store.SearchOptions{Query: "tea", Filter: store.Gte("n", 1490)}, 10, 3},
	} {
		items, plans := plansOf(t, db, o, test.prefix, &test.o)
		if len(items) != test.want || len(plans) != test.plans {
			t.Errorf("%s: there are %d items of %d and %d plans of %d:\n%s", name, len(items), test.want, len(plans), test.plans, strings.Join(plans, "\n\n"))
		}
		if last := plans[len(plans)-1]; strings.Contains(last, "store_near_") {
			t.Errorf("%s: the index answers:\n%s", name, last)
		}
	}
}

// Even where all is looked up in the index, a small store is as memory is.
func TestPgvectorsIndexMissesNothingOfFew(t *testing.T) {
	db := lite(t)
	db.backend.few = new(0)
	storetest.Differential(t, func(t *testing.T) store.Backend { return checked(t, emptied(t, db).db) })
}

// The role of a program may not make indexes, but there is one for each model.
func TestARoleThatMayOnlyReadAndWriteGetsIndexes(t *testing.T) {
	db := lite(t)
	exec := func(query string) {
		t.Helper()
		if _, err := db.pool.Exec(context.WithoutCancel(t.Context()), db.backend.in(query), pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
	exec(`CREATE ROLE app; REVOKE ALL ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC;
		GRANT USAGE ON SCHEMA {schema} TO app;
		GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO app;
		GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO app;
		SET ROLE app; SET search_path = ''`)
	defer exec("RESET ROLE; RESET search_path; DROP OWNED BY app; DROP ROLE app")
	for dimension := 8; dimension <= 16; dimension += 8 {
		s := storeOf(t, db, &store.Options{Embedder: store.NewHashEmbedder(dimension)})
		exercise(t, s)
	}
	var indexes int
	if err := db.pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_indexes WHERE schemaname = $1 AND indexname LIKE 'store_near_%' AND indexdef LIKE '%hnsw%'", db.schema).Scan(&indexes); err != nil || indexes != 2 {
		t.Errorf("there are %d indexes, %v", indexes, err)
	}
}

// Vectors that were written without pgvector are found with it, and the other way
// round: it may come and go.
func TestPgvectorMayComeAndGo(t *testing.T) {
	first := lite(t)
	url := pgtest.PGlite(t)
	o := &store.Options{Fields: textOnly, Embedder: store.NewHashEmbedder(16)}
	for i, script := range []string{"", "DROP EXTENSION vector CASCADE", "CREATE EXTENSION vector; " + Migrations(first.schema)} {
		if _, err := first.pool.Exec(t.Context(), script, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
		db := open(t, url, &Options{Schema: first.schema, PoolerSafe: true, MaxConns: 1})
		db.backend.few = new(0)
		s := storeOf(t, db, o)
		if err := s.Put(t.Context(), store.Namespace{"n"}, fmt.Sprint(i), map[string]any{"text": "green tea"}, nil); err != nil {
			t.Fatal(err)
		}
		items, plans := plansOf(t, db, o, nil, &store.SearchOptions{Query: "tea"})
		if len(items) != i+1 {
			t.Errorf("after %q there are %d items of %d", script, len(items), i+1)
		}
		if used := strings.Contains(strings.Join(plans, ""), "store_near_1"); used != (i != 1) {
			t.Errorf("after %q the index is used: %t", script, used)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

// exercise does everything that a store can.
func exercise(t testing.TB, s *store.Store) {
	t.Helper()
	ctx := t.Context()
	ok := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	n := store.Namespace{"users", "7"}
	for i := range 5 {
		ok("put", s.Put(ctx, n, fmt.Sprint(i%3), map[string]any{"text": "green tea", "i": i}, &store.PutOptions{TTL: 1e12}))
	}
	ok("put if absent", s.Put(ctx, n, "once", map[string]any{}, &store.PutOptions{IfAbsent: true}))
	_, err := s.Get(ctx, n, "1", nil)
	ok("get", err)
	for _, o := range []store.SearchOptions{{}, {Filter: store.Eq("i", 1)}, {Query: "tea"}, {Query: "tea", Ranking: store.Keyword}} {
		_, err := s.Search(ctx, nil, &o)
		ok("search", err)
	}
	_, err = s.Namespaces(ctx, nil)
	ok("namespaces", err)
	_, err = s.History(ctx, n, "1")
	ok("history", err)
	_, err = s.AsOf(time.Now()).Search(ctx, n, &store.SearchOptions{Query: "tea"})
	ok("the past", err)
	ok("delete", s.Delete(ctx, n, "2", nil))
	ok("forget", s.Forget(ctx, n, "1"))
	_, err = s.Reindex(ctx)
	ok("reindex", err)
	_, err = s.Sweep(ctx)
	ok("sweep", err)
	for _, err := range s.Watch(ctx, n, 0) {
		ok("watch", err)
		break
	}
	ok("forget all", s.ForgetAll(ctx, store.Namespace{"users"}))
}
