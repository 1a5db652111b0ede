package postgres

import (
	"context"
	"maps"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/checkpoint/checkpointtest"
	"github.com/treadle-go/treadle/internal/test/race"
	"github.com/treadle-go/treadle/postgres/internal/databasetest"
	"github.com/treadle-go/treadle/store"
)

// open opens a database that is closed with the test.
func open(t testing.TB, url string, opts *Options) *DB {
	t.Helper()
	db, err := Open(t.Context(), url, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return db
}

// fresh opens a schema of its own, which is much faster than a database.
func fresh(t testing.TB, url string, o Options) *DB {
	t.Helper()
	o.Schema, o.Migrate = databasetest.NewSchema(), true
	return open(t, url, &o)
}

func quick(t testing.TB) string { return databasetest.Quick(t) }

// modes are the options that change how Open talks to the server.
var modes = map[string]Options{"prepared": {}, "pooler-safe": {PoolerSafe: true}}

// A mode is a way to use the server: Open, or New with a pool of the test.
type mode struct {
	Options
	shared bool
}

// allModes returns the modes of Open and those of New.
func allModes() map[string]mode {
	all := map[string]mode{"shared pool": {shared: true}, "shared pool, pooler-safe": {Options{PoolerSafe: true}, true}}
	for name, o := range modes {
		all[name] = mode{Options: o}
	}
	return all
}

// suiteModes returns the modes that run whole suites. They differ little in the code of
// this package, so the race detector checks one of them: see package race.
func suiteModes() map[string]mode {
	all := allModes()
	delete(all, "shared pool, pooler-safe")
	maps.DeleteFunc(all, func(name string, _ mode) bool { return !race.Runs(name == "prepared") })
	return all
}

// open opens a database that is closed with the test.
func (m mode) open(t testing.TB, url string) *DB {
	t.Helper()
	if !m.shared {
		return open(t, url, &m.Options)
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	if m.PoolerSafe {
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	if m.MaxConns > 0 {
		config.MaxConns, m.MaxConns = int32(m.MaxConns), 0
	}
	return openOn(t, newPool(t, config), &m.Options)
}

// fresh is like open, but with a new schema.
func (m mode) fresh(t testing.TB, url string) *DB {
	t.Helper()
	m.Schema, m.Migrate = databasetest.NewSchema(), true
	return m.open(t, url)
}

// newPool returns a pool that is closed with the test.
func newPool(t testing.TB, config *pgxpool.Config) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(t.Context()), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// openOn opens a database on a pool. It is closed with the test.
func openOn(t testing.TB, pool *pgxpool.Pool, opts *Options) *DB {
	t.Helper()
	db, err := New(t.Context(), pool, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return db
}

func storeOf(t testing.TB, db *DB, opts *store.Options) *store.Store {
	t.Helper()
	s, err := db.Store(opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSaver(t *testing.T) {
	for name, m := range suiteModes() {
		t.Run(name, func(t *testing.T) {
			db := m.fresh(t, quick(t))
			checkpointtest.Run(t, func(t *testing.T) checkpoint.Saver {
				t.Cleanup(func() { deleteThreads(databasetest.Background(t), db) })
				return db
			})
		})
	}
}

func TestCache(t *testing.T) {
	for name, m := range allModes() {
		t.Run(name, func(t *testing.T) {
			url := quick(t)
			checkpointtest.RunCache(t, func(t *testing.T) checkpoint.Cache { return m.fresh(t, url).Cache() })
		})
	}
}

// deleteThreads leaves a schema to the next test: to make one takes longer than
// most tests do.
func deleteThreads(t testing.TB, db *DB) {
	t.Helper()
	var names []string
	for thread, err := range db.Threads(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, thread.Name)
	}
	for _, name := range names {
		if err := db.DeleteThread(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
}
