package items

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/test/pgtest"
	"github.com/treadle-go/treadle/internal/test/race"
	"github.com/treadle-go/treadle/postgres/internal/database"
	"github.com/treadle-go/treadle/postgres/internal/databasetest"
	"github.com/treadle-go/treadle/store"
	"github.com/treadle-go/treadle/store/storetest"
)

// In both ways to talk to the server the store passes the suite, and does as
// memory does.
func TestStore(t *testing.T) {
	for name, m := range databasetest.SuiteModes() {
		t.Run(name, func(t *testing.T) {
			db := newTestDB(m.Fresh(t, databasetest.Quick(t)))
			backend := func(t *testing.T) store.Backend { return checked(t, emptied(t, db)) }
			t.Run("suite", func(t *testing.T) { storetest.Run(t, backend) })
			t.Run("branches", func(t *testing.T) { storetest.Branches(t, backend, 1) })
			t.Run("differential", func(t *testing.T) { storetest.Differential(t, backend) })
		})
	}
}

func TestEncryptedStore(t *testing.T) {
	db := fresh(t, databasetest.Quick(t), database.Options{})
	sealed := func(t *testing.T) store.Backend {
		b, err := store.Encrypted(checked(t, emptied(t, db)), checkpoint.EncryptionKey{ID: 1, Secret: make([]byte, 32)})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if !race.Enabled {
		t.Run("suite", func(t *testing.T) { storetest.Run(t, sealed) })
	}
	t.Run("differential", func(t *testing.T) { storetest.Differential(t, sealed) })
}

// checked returns a backend whose tables are checked after the test.
func checked(t *testing.T, db *testDB) *Backend {
	t.Helper()
	t.Cleanup(func() {
		if !t.Failed() {
			databasetest.CheckTables(databasetest.Background(t), db.conn)
		}
	})
	return db.backend
}

// lite opens a schema in a database with pgvector.
func lite(t testing.TB) *testDB {
	t.Helper()
	url := pgtest.PGlite(t)
	db := fresh(t, url, database.Options{PoolerSafe: true, MaxConns: 1})
	t.Cleanup(func() { // it is in memory
		if _, err := db.conn.Pool.Exec(context.WithoutCancel(t.Context()), "DROP SCHEMA "+db.conn.Quoted+" CASCADE"); err != nil {
			t.Error(err)
		}
	})
	return db
}

// emptied removes what earlier tests have stored. Creating a schema for each test would
// take most of the time.
func emptied(t testing.TB, db *testDB) *testDB {
	t.Helper()
	// TRUNCATE would make files anew.
	_, err := db.conn.Pool.Exec(t.Context(), db.conn.In(`DELETE FROM {schema}.store_vector; DELETE FROM {schema}.store_item; DELETE FROM {schema}.store_life;
		DELETE FROM {schema}.store_record; UPDATE {schema}.store_state SET seq = 0, compacted = 0`), pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		t.Fatal(err)
	}
	db.backend.near.byStamp = nil // its numbers are given out again
	db.backend.lists.clear()
	return db
}

// With pgvector it is the same.
func TestStoreWithPgvector(t *testing.T) {
	db := lite(t)
	backend := func(t *testing.T) store.Backend { return checked(t, emptied(t, db)) }
	if !race.Enabled {
		t.Run("suite", func(t *testing.T) { storetest.Run(t, backend) })
	}
	t.Run("differential", func(t *testing.T) { storetest.Differential(t, backend) })
	if db.backend.server.known.vector == "" {
		t.Error("pgvector was not used")
	}
}

// What jsonb refuses, or would take for something else, is kept to the byte, and
// filters see it as it is.
func TestValuesUnfitForJSONBAreKept(t *testing.T) {
	db := fresh(t, databasetest.Quick(t), database.Options{})
	s := storeOf(t, db, nil)
	n := store.Namespace{"odd"}
	deep := strings.Repeat(`{"a":`, 3000) + "1" + strings.Repeat("}", 3000)
	values := map[string]string{
		"plain":     `{"v":"x"}`,
		"NUL":       `{"v":"\u0000"}`,
		"NUL key":   `{"v\u0000":1,"v":2}`,
		"surrogate": `{"v":"\ud800"}`,
		"huge":      `{"v":1e400000}`,
		"tiny":      `{"v":1e-400000}`,
		"long":      `{"v":` + strings.Repeat("9", 200_000) + `}`,
		"twice":     `{"v":1,"v":"last"}`,
		"deep":      `{"v":` + deep + `}`,
		"spaced":    `{"b":1.50,"a":[1e2],"v":100}`,
		"array":     `{"v":["zero"]}`,
	}
	for key, value := range values {
		if err := s.Put(t.Context(), n, key, json.RawMessage(value), nil); err != nil {
			t.Fatal(err)
		}
	}
	for key, want := range values {
		item, err := s.Get(t.Context(), n, key, nil)
		if err != nil || string(item.Value) != want {
			t.Errorf("%s is %.100s, %v", key, item.Value, err)
		}
	}
	for want, f := range map[string]store.Filter{
		"plain": store.Eq("v", "x"), "NUL": store.Eq("v", "\x00"), "surrogate": store.Eq("v", "\ufffd"), "huge": store.Eq("v", json.RawMessage("10e399999")),
		"tiny": store.Eq("v", json.RawMessage("1e-400000")), "twice": store.Eq("v", "last"), "spaced": store.And(store.Eq("v", 1e2), store.Eq("b", 1.5), store.Eq("a", []int{100})),
		"array": store.Eq("v.0", "zero"), "NUL key": store.Eq("v", 2), "deep": store.Exists("v.a.a.a"), "long": store.Eq("v", json.RawMessage(strings.Repeat("9", 200_000))),
	} {
		items, err := s.Search(t.Context(), n, &store.SearchOptions{Filter: f})
		if err != nil || len(items) != 1 || items[0].Key != want {
			t.Errorf("the filter for %s finds %d, %v", want, len(items), err)
		}
	}
	var docs int
	if err := db.conn.Pool.QueryRow(t.Context(), db.conn.In("SELECT count(doc) FROM {schema}.store_item")).Scan(&docs); err != nil || docs != 3 {
		t.Errorf("%d values are kept as jsonb, too, %v", docs, err)
	}
}

// What narrows a search down leaves the decision to the filter.
func TestValueIndexNarrowsFilters(t *testing.T) {
	db := fresh(t, databasetest.Quick(t), database.Options{})
	p := &prepared{backend: db.backend, server: &server{utf8: true}}
	for want, f := range map[string]store.Filter{
		`i.doc @> ?::jsonb [{"a":{"b":1}}]`:                                                          store.Eq("a.b", 1),
		`(i.doc @> ?::jsonb AND i.doc @> ?::jsonb) [{"a":"x"} {"b":null}]`:                           store.And(store.Eq("a", "x"), store.Gt("n", 1), store.Eq("b", nil), store.Meta(store.Eq("c", 1))),
		`i.doc @> ?::jsonb [{"a\\.":[1]}]`:                                                           store.Eq(`a\\\.`, []int{1}),
		`(i.doc @> ?::jsonb AND i.doc @> ?::jsonb) [{"b":1} {"c":true}]`:                             store.And(store.Not(store.Eq("a", 1)), store.Or(store.Eq("b", 1)), store.Eq("c", true)),
		`(i.doc @> ?::jsonb OR (i.doc @> ?::jsonb AND i.doc @> ?::jsonb)) [{"a":1} {"b":2} {"c":3}]`: store.Or(store.Eq("a", 1), store.And(store.Eq("b", 2), store.Eq("c", 3))),
		`(i.doc @> ?::jsonb OR i.doc @> ?::jsonb) [{"a":1} {"a":2}]`:                                 store.In("a", 1, 2),
		` []`:                         store.Or(store.Eq("a", 1), store.Gt("b", 2)),
		`i.doc @> ?::jsonb [{"c":1}]`: store.And(store.Or(store.Eq("a", 1), store.Exists("b")), store.Eq("c", 1)),
	} {
		compiled := &watched{Backend: db.backend}
		s, err := store.New(compiled, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Search(t.Context(), nil, &store.SearchOptions{Filter: f}); err != nil {
			t.Fatal(err)
		}
		n := p.narrow(compiled.last.Searches[0].Filter())
		if got := fmt.Sprint(n.sql, " ", n.args); got != want {
			t.Errorf("the filter is narrowed by %s, want %s", got, want)
		}
	}
}

// hold keeps all writers waiting until it is released.
func hold(t *testing.T, db *testDB) (release func()) {
	t.Helper()
	tx, err := db.conn.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), db.conn.In(lock)); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := tx.Rollback(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// waitingWriters returns when so many wait to go together.
func waitingWriters(db *testDB, n int) {
	for {
		db.backend.together.mu.Lock()
		waiting := len(db.backend.together.waiting)
		db.backend.together.mu.Unlock()
		if waiting == n {
			return
		}
		runtime.Gosched()
	}
}

func TestWaitingWritersShareTransaction(t *testing.T) {
	db := fresh(t, databasetest.Quick(t), database.Options{})
	s := storeOf(t, db, nil)
	n := store.Namespace{"n"}
	release := hold(t, db)
	var group sync.WaitGroup
	put := func(ctx context.Context, key string, want error) {
		group.Go(func() {
			if err := s.Put(ctx, n, key, map[string]any{}, nil); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", key, err, want)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	put(t.Context(), "first", nil)
	for !busy(db) {
		runtime.Gosched()
	}
	for i := range 5 {
		put(t.Context(), fmt.Sprint(i), nil)
	}
	waitingWriters(db, 5)
	put(ctx, "gone", context.Canceled)
	waitingWriters(db, 6)
	cancel()
	waitingWriters(db, 5)
	release()
	group.Wait()
	var together int
	err := db.conn.Pool.QueryRow(t.Context(), db.conn.In("SELECT max(n) FROM (SELECT count(*) AS n FROM {schema}.store_record GROUP BY xmin::text) x")).Scan(&together)
	if err != nil || together != 5 {
		t.Errorf("%d were written by one transaction, %v", together, err)
	}
	items, err := s.Search(t.Context(), n, nil)
	if err != nil || len(items) != 6 {
		t.Errorf("there are %d items, %v", len(items), err)
	}
}

func busy(db *testDB) bool {
	db.backend.together.mu.Lock()
	defer db.backend.together.mu.Unlock()
	return db.backend.together.busy
}

func TestWatchEndsWithDB(t *testing.T) {
	db := fresh(t, databasetest.Quick(t), database.Options{})
	s := storeOf(t, db, nil)
	if err := s.Put(t.Context(), store.Namespace{"n"}, "k", map[string]any{}, nil); err != nil {
		t.Fatal(err)
	}
	for _, err := range s.Watch(t.Context(), nil, 0) {
		if err == nil {
			db.conn.Close()
		} else if errors.Is(err, database.ErrClosed) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A watcher in another process sees what is written here.
func TestWatchSeesOtherProcesses(t *testing.T) {
	url := databasetest.Quick(t)
	db := fresh(t, url, database.Options{})
	here, there := storeOf(t, db, nil), storeOf(t, open(t, url, &database.Options{Schema: db.conn.Schema}), nil)
	put := func(i int) {
		if err := here.Put(t.Context(), store.Namespace{"n"}, fmt.Sprint(i), map[string]any{}, nil); err != nil {
			t.Fatal(err)
		}
	}
	put(0)
	seen := 0
	for c, err := range there.Watch(t.Context(), nil, 0) {
		if err != nil || c.Key != fmt.Sprint(seen) {
			t.Fatalf("change %d is of %s, %v", seen, c.Key, err)
		}
		if seen++; seen == 3 {
			break
		}
		put(seen)
	}
}

func TestMissingPgvectorIsLoggedOnce(t *testing.T) {
	var log strings.Builder
	db := fresh(t, databasetest.Quick(t), database.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	s := storeOf(t, db, &store.Options{Embedder: store.NewHashEmbedder(8)})
	for range 3 {
		if _, err := s.Search(t.Context(), nil, &store.SearchOptions{Query: "tea"}); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(log.String(), "pgvector 0.8 not available"); n != 1 {
		t.Errorf("the log says %d times:\n%s", n, log.String())
	}
}

// A store's row that is missing is an error, not the end of the process.
func TestMissingStoreRowReturnsErrDamaged(t *testing.T) {
	url := databasetest.Quick(t)
	for _, table := range []string{"store_record", "store_life"} {
		db := fresh(t, url, database.Options{})
		s := storeOf(t, db, &store.Options{Fields: textOnly})
		if err := s.Put(t.Context(), store.Namespace{"a"}, "k", map[string]any{"text": "tea"}, &store.PutOptions{TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
		if _, err := db.conn.Pool.Exec(t.Context(), db.conn.In("DELETE FROM {schema}."+table)); err != nil {
			t.Fatal(err)
		}
		for what, o := range map[string]*store.SearchOptions{"list": nil, "filter": {Filter: store.Eq("text", "tea")}} {
			if found, err := s.Search(t.Context(), store.Namespace{"a"}, o); !errors.Is(err, database.ErrDamaged) {
				t.Errorf("without %s, %s: %v, %v; want %v", table, what, found, err, database.ErrDamaged)
			}
		}
	}
}
