package postgres

import (
	"context"
	"testing"

	"github.com/treadle-go/treadle/internal/pgtest"
	"github.com/treadle-go/treadle/store"
	"github.com/treadle-go/treadle/store/storetest"
)

// In both ways to talk to the server the store passes the suite, and does as
// memory does.
func TestStore(t *testing.T) {
	for name, o := range modes {
		t.Run(name, func(t *testing.T) {
			url := quick(t)
			shelf := func(t *testing.T) store.Backend { return &fresh(t, url, o).shelf }
			t.Run("suite", func(t *testing.T) { storetest.Run(t, shelf) })
			t.Run("differential", func(t *testing.T) { storetest.Differential(t, shelf) })
		})
	}
}

// lite opens a schema in a database with pgvector.
func lite(t testing.TB) *DB {
	t.Helper()
	url := pgtest.PGlite(t)
	db := fresh(t, url, Options{PoolerSafe: true, MaxConns: 1})
	t.Cleanup(func() { // it is in memory
		if _, err := db.pool.Exec(context.WithoutCancel(t.Context()), "DROP SCHEMA "+db.quoted+" CASCADE"); err != nil {
			t.Error(err)
		}
	})
	return db
}

// emptied is the shelf of a schema without what earlier tests left in it: a
// schema of its own for each would take most of the time.
func emptied(t testing.TB, db *DB) *shelf {
	t.Helper()
	_, err := db.pool.Exec(t.Context(), db.shelf.in(`TRUNCATE {schema}.store_record, {schema}.store_life, {schema}.store_item, {schema}.store_vector`))
	if err == nil {
		_, err = db.pool.Exec(t.Context(), db.shelf.in("UPDATE {schema}.store_state SET seq = 0, compacted = 0"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return &db.shelf
}

// With pgvector it is the same.
func TestStoreWithPgvector(t *testing.T) {
	db := lite(t)
	shelf := func(t *testing.T) store.Backend { return emptied(t, db) }
	t.Run("suite", func(t *testing.T) { storetest.Run(t, shelf) })
	t.Run("differential", func(t *testing.T) { storetest.Differential(t, shelf) })
	if db.shelf.server.known.vector == "" {
		t.Error("pgvector was not used")
	}
}
