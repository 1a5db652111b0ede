// Package databasetest contains what the tests of package postgres and of the packages
// below it share.
package databasetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/treadle-go/treadle/internal/test/pgtest"
	"github.com/treadle-go/treadle/internal/test/race"
	"github.com/treadle-go/treadle/postgres/internal/database"
)

// Open opens a schema that is closed with the test.
func Open(t testing.TB, url string, opts *database.Options) *database.DB {
	t.Helper()
	db, err := database.Open(t.Context(), url, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

var schemas atomic.Int64

// NewSchema returns the name of a new schema. Creating a schema is much faster than
// creating a database.
func NewSchema() string { return fmt.Sprint("treadle ", schemas.Add(1)) }

// Fresh opens a new schema.
func Fresh(t testing.TB, url string, opts database.Options) *database.DB {
	t.Helper()
	opts.Schema, opts.Migrate = NewSchema(), true
	return Open(t, url, &opts)
}

// Modes returns the options that change how Open uses the server.
func Modes() map[string]database.Options {
	return map[string]database.Options{"prepared": {}, "pooler-safe": {PoolerSafe: true}}
}

// A Mode is a way to open a schema: with Open, or with New and a pool of the test.
type Mode struct {
	database.Options
	Shared bool
}

// SuiteModes returns the modes that run whole suites. They differ little in the code that
// they run, so the race detector checks one of them: see package race.
func SuiteModes() map[string]Mode {
	all := map[string]Mode{"shared pool": {Shared: true}}
	for name, opts := range Modes() {
		all[name] = Mode{Options: opts}
	}
	maps.DeleteFunc(all, func(name string, _ Mode) bool { return !race.Runs(name == "prepared") })
	return all
}

// Fresh opens a new schema.
func (m Mode) Fresh(t testing.TB, url string) *database.DB {
	t.Helper()
	if !m.Shared {
		return Fresh(t, url, m.Options)
	}
	pool, err := pgxpool.New(context.WithoutCancel(t.Context()), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	m.Schema, m.Migrate = NewSchema(), true
	db, err := database.New(t.Context(), pool, &m.Options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

// Quick returns the URL of a server whose commits do not wait for the disk, for tests in
// which the server does not crash.
func Quick(t testing.TB) string { return Set(t, pgtest.URL(t), "synchronous_commit", "off") }

// Set adds a session setting to a URL.
func Set(t testing.TB, server, name, value string) string {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20") // libpq does not decode a plus
	return u.String()
}

// Background returns t with a context that does not end before the test's cleanup.
func Background(t testing.TB) testing.TB { return background{t} }

type background struct{ testing.TB }

// Context implements [testing.TB].
func (b background) Context() context.Context { return context.WithoutCancel(b.TB.Context()) }

// Median returns the median of durations.
func Median(took []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(took))[(len(took)-1)/2]
}

// RunScript executes a script in a connection of its own, as an administrator would.
func RunScript(t *testing.T, url, script string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	if _, err := c.PgConn().Exec(t.Context(), script).ReadAll(); err != nil {
		t.Fatalf("%v\n%s", err, script)
	}
}

// WaitForLock waits until a statement that contains text waits for a lock.
func WaitForLock(t *testing.T, db *database.DB, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for n := 0; n == 0; {
		err := db.Pool.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND strpos(query, $1) > 0", text).Scan(&n)
		if err != nil {
			t.Fatalf("no statement waits for a lock: %v", err)
		}
	}
}

// CheckTables checks the consistency of the tables of checkpoints and items.
func CheckTables(t testing.TB, db *database.DB) {
	t.Helper()
	for what, query := range map[string]string{
		"line whose count or bytes are wrong": `SELECT id FROM {schema}.line l WHERE
			checkpoints<>(SELECT count(*) FROM {schema}.checkpoint WHERE line=l.id) OR
			bytes<>(SELECT coalesce(sum(length(record)+coalesce(length(control),length(echo),0)+coalesce(length(metadata),0)),0) FROM {schema}.checkpoint WHERE line=l.id)
				+(SELECT coalesce(sum(length(data)),0) FROM {schema}.chunk WHERE line=l.id)`,
		"line whose head is not its newest":    `SELECT id FROM {schema}.line l WHERE head IS DISTINCT FROM (SELECT c.id FROM {schema}.checkpoint c WHERE line=l.id ORDER BY c.id DESC LIMIT 1)`,
		"line without a thread":                `SELECT id FROM {schema}.line WHERE thread NOT IN (SELECT id FROM {schema}.thread)`,
		"checkpoint without a line":            `SELECT line FROM {schema}.checkpoint WHERE line NOT IN (SELECT id FROM {schema}.line)`,
		"chunk without a line":                 `SELECT line FROM {schema}.chunk WHERE line NOT IN (SELECT id FROM {schema}.line)`,
		"pending write without its checkpoint": `SELECT line FROM {schema}.pending p WHERE NOT EXISTS (SELECT FROM {schema}.checkpoint c WHERE c.line=p.line AND c.id=p.id)`,
		"checkpoint without its run": `SELECT c.line FROM {schema}.checkpoint c JOIN {schema}.line l ON l.id=c.line
			WHERE c.run IS NOT NULL AND NOT EXISTS (SELECT FROM {schema}.run r WHERE r.thread=l.thread AND r.id=c.run)`,
		"run without a thread":           `SELECT id FROM {schema}.run WHERE thread NOT IN (SELECT id FROM {schema}.thread)`,
		"chain that was never given out": `SELECT line FROM {schema}.chunk k WHERE chain>=(SELECT next FROM {schema}.line l WHERE l.id=k.line)`,
		"item whose record is not the current one": `SELECT i.seq FROM {schema}.store_item i WHERE NOT EXISTS (SELECT FROM {schema}.store_record r WHERE r.seq=i.seq AND r.name=i.name AND r.kind=1
			AND NOT EXISTS (SELECT FROM {schema}.store_record n WHERE n.name=r.name AND n.key=r.key AND n.seq>r.seq))`,
		"current record without its item": `SELECT r.seq FROM {schema}.store_record r WHERE r.kind=1 AND NOT EXISTS (SELECT FROM {schema}.store_item i WHERE i.seq=r.seq)
			AND NOT EXISTS (SELECT FROM {schema}.store_record n WHERE n.name=r.name AND n.key=r.key AND n.seq>r.seq)`,
		"life without a record":   `SELECT seq FROM {schema}.store_life WHERE seq NOT IN (SELECT seq FROM {schema}.store_record)`,
		"vector without a record": `SELECT seq FROM {schema}.store_vector WHERE seq NOT IN (SELECT seq FROM {schema}.store_record)`,
		"record that is over without its end, or the other way round": `SELECT r.seq FROM {schema}.store_record r LEFT JOIN {schema}.store_life l ON l.seq=r.seq
			WHERE (l.ended IS NULL)<>EXISTS (SELECT FROM {schema}.store_item i WHERE i.seq=r.seq)`,
		"vector of an item with the wrong name": `SELECT v.seq FROM {schema}.store_vector v LEFT JOIN {schema}.store_item i ON i.seq=v.seq WHERE v.name IS DISTINCT FROM i.name`,
		"number that was never given out":       `SELECT seq FROM {schema}.store_record WHERE seq>(SELECT seq FROM {schema}.store_state)`,
		"run that no checkpoint is of": `SELECT r.id FROM {schema}.run r
			WHERE NOT EXISTS (SELECT FROM {schema}.checkpoint c JOIN {schema}.line l ON l.id=c.line WHERE l.thread=r.thread AND c.run=r.id)`,
	} {
		var id int64
		err := db.Pool.QueryRow(t.Context(), db.In(query)).Scan(&id)
		if err == nil {
			t.Errorf("there is a %s: %d", what, id)
		} else if !errors.Is(err, pgx.ErrNoRows) {
			t.Fatalf("%s: %v", what, err)
		}
	}
}
