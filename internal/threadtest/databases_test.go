package threadtest_test

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"testing"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/pgtest"
	"github.com/treadle-go/treadle/postgres"
	"github.com/treadle-go/treadle/sqlite"
)

func memory(*testing.T) checkpoint.Saver { return checkpoint.NewMemory() }

// onSQLite runs a suite on files of its own.
func onSQLite(t *testing.T, suite func(*testing.T, func(*testing.T) checkpoint.Saver)) {
	t.Helper()
	dir := t.TempDir()
	suite(t, (&databases{T: t, open: func(n int) (database, error) {
		return sqlite.Open(filepath.Join(dir, fmt.Sprint(n, ".db")), nil)
	}}).take)
}

// onPostgres runs a suite on schemas of its own. No test here has the server
// crash, so nobody waits for its disk.
func onPostgres(t *testing.T, suite func(*testing.T, func(*testing.T) checkpoint.Saver)) {
	t.Helper()
	url := pgtest.URL(t) + "?synchronous_commit=off"
	suite(t, (&databases{T: t, open: func(n int) (database, error) {
		return postgres.Open(t.Context(), url, &postgres.Options{Schema: fmt.Sprint("suite ", n), Migrate: true})
	}}).take)
}

// A database is what SQLite and Postgres give.
type database interface {
	checkpoint.Saver
	checkpoint.ThreadLister
	checkpoint.Cacher
	io.Closer
}

// databases are those of a suite. To make one takes longer than most tests do,
// so a test leaves the one it had, emptied, to the next.
type databases struct {
	*testing.T
	open func(n int) (database, error)
	made int
	idle []database
}

func (d *databases) take(t *testing.T) checkpoint.Saver {
	t.Helper()
	if len(d.idle) == 0 {
		d.add()
	}
	db := d.idle[0]
	d.idle = d.idle[1:]
	t.Cleanup(func() {
		if err := empty(context.WithoutCancel(t.Context()), db); err != nil {
			t.Errorf("empty the database for the next test: %v", err)
		}
		d.idle = append(d.idle, db)
	})
	return db
}

func (d *databases) add() {
	d.Helper()
	d.made++
	db, err := d.open(d.made)
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() {
		if err := db.Close(); err != nil {
			d.Error(err)
		}
	})
	d.idle = append(d.idle, db)
}

// empty leaves a database as if nobody had been there.
func empty(ctx context.Context, db database) error {
	var names []string
	for thread, err := range db.Threads(ctx) {
		if err != nil {
			return err
		}
		names = append(names, thread.Name)
	}
	for _, name := range names {
		if err := db.DeleteThread(ctx, name); err != nil {
			return err
		}
	}
	return db.Cache().Clear(ctx)
}
