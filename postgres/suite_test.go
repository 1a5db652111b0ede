package postgres

import (
	"fmt"
	"maps"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/checkpoint/checkpointtest"
	"github.com/treadle-go/treadle/internal/pgtest"
	"github.com/treadle-go/treadle/internal/race"
)

// open opens a database that is closed with the test.
func open(t testing.TB, url string, o *Options) *DB {
	t.Helper()
	db, err := Open(t.Context(), url, o)
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

var schemas atomic.Int64

// fresh opens a schema of its own, which is much faster than a database.
func fresh(t testing.TB, url string, o Options) *DB {
	t.Helper()
	o.Schema, o.Migrate = fmt.Sprint("treadle ", schemas.Add(1)), true
	return open(t, url, &o)
}

// quick is the url of a server that does not make its clients wait for the disk,
// for tests in which it does not crash.
func quick(t testing.TB) string { return set(t, pgtest.URL(t), "synchronous_commit", "off") }

// set adds a setting of the session to a url.
func set(t testing.TB, server, name, value string) string {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20") // a plus is a plus to libpq
	return u.String()
}

// modes are the ways to talk to the server.
var modes = map[string]Options{"prepared": {}, "pooler-safe": {PoolerSafe: true}}

// suiteModes are the modes that run whole suites. They differ in the wire protocol
// alone, so each runs them once: see package race.
func suiteModes() map[string]Options {
	all := maps.Clone(modes)
	maps.DeleteFunc(all, func(name string, _ Options) bool { return !race.Runs(name == "prepared") })
	return all
}

func TestSaver(t *testing.T) {
	for name, o := range suiteModes() {
		t.Run(name, func(t *testing.T) {
			db := fresh(t, quick(t), o)
			checkpointtest.Run(t, func(t *testing.T) checkpoint.Saver {
				t.Cleanup(func() { deleteThreads(background{t}, db) })
				return db
			})
		})
	}
}

func TestCache(t *testing.T) {
	for name, o := range modes {
		t.Run(name, func(t *testing.T) {
			url := quick(t)
			checkpointtest.RunCache(t, func(t *testing.T) checkpoint.Cache { return fresh(t, url, o).Cache() })
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
