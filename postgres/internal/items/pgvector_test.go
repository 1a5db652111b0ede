package items

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/treadle-go/treadle/internal/test/pgtest"
	"github.com/treadle-go/treadle/postgres/internal/database"
	"github.com/treadle-go/treadle/postgres/internal/databasetest"
	"github.com/treadle-go/treadle/store"
	"github.com/treadle-go/treadle/store/storetest"
)

// planner is a transaction that notes how the server goes about queries.
type planner struct {
	database.Querier
	plans []string
}

func (p *planner) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if strings.Contains(sql, "<#>") {
		rows, err := p.Querier.Query(ctx, "EXPLAIN "+sql, args...)
		if err != nil {
			return nil, err
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return nil, err
		}
		p.plans = append(p.plans, strings.Join(lines, "\n"))
	}
	return p.Querier.Query(ctx, sql, args...)
}

// plansOf does the searches of a batch and returns the plans of those for
// vectors.
func plansOf(t testing.TB, db *testDB, as *store.Options, prefix store.Namespace, opts *store.SearchOptions) (items []*store.Item, plans []string) {
	t.Helper()
	watched := &watched{Backend: db.backend}
	w, err := store.New(watched, as)
	if err != nil {
		t.Fatal(err)
	}
	if items, err = w.Search(t.Context(), prefix, opts); err != nil {
		t.Fatal(err)
	}
	p, err := db.backend.prepare(t.Context(), watched.last)
	if err != nil {
		t.Fatal(err)
	}
	err = db.conn.Read(t.Context(), func(c *pgx.Conn) error {
		return database.Snapshot(t.Context(), c, func(q database.Querier) error {
			noted := &planner{Querier: q}
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

func TestPgvectorIndexFindsNearestOfMany(t *testing.T) {
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
func TestPgvectorIndexIsExactForFewItems(t *testing.T) {
	db := lite(t)
	db.backend.few = new(0)
	storetest.Differential(t, func(t *testing.T) store.Backend { return checked(t, emptied(t, db)) })
}

// The role of a program may not make indexes, but there is one for each model.
func TestDocumentedGrantsAllowIndexes(t *testing.T) {
	db := lite(t)
	exec := func(query string) {
		t.Helper()
		if _, err := db.conn.Pool.Exec(context.WithoutCancel(t.Context()), db.conn.In(query), pgx.QueryExecModeSimpleProtocol); err != nil {
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
		databasetest.ExerciseStore(t, s)
	}
	var indexes int
	if err := db.conn.Pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_indexes WHERE schemaname = $1 AND indexname LIKE 'store_near_%' AND indexdef LIKE '%hnsw%'", db.conn.Schema).Scan(&indexes); err != nil || indexes != 2 {
		t.Errorf("there are %d indexes, %v", indexes, err)
	}
}

// Vectors that were written without pgvector are found with it, and the other way
// round: it may come and go.
func TestPgvectorCanBeAddedAndDropped(t *testing.T) {
	first := lite(t)
	url := pgtest.PGlite(t)
	o := &store.Options{Fields: textOnly, Embedder: store.NewHashEmbedder(16)}
	for i, script := range []string{"", "DROP EXTENSION vector CASCADE", "CREATE EXTENSION vector; " + database.Migrations(first.conn.Schema)} {
		if _, err := first.conn.Pool.Exec(t.Context(), script, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
		db := open(t, url, &database.Options{Schema: first.conn.Schema, PoolerSafe: true, MaxConns: 1})
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
		db.conn.Close()
	}
}
