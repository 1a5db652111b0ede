// Package backends opens every kind of database that this module has a saver for. Tests
// and benchmarks that run on all of them range over [All], so supporting another kind
// takes one more element. Only tests and benchmarks import this package.
package backends

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver that pgtest uses
	_ "modernc.org/sqlite"             // the driver, for Size

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/delay"
	"github.com/treadle-go/treadle/internal/test/need"
	"github.com/treadle-go/treadle/internal/test/pgtest"
	"github.com/treadle-go/treadle/postgres"
	"github.com/treadle-go/treadle/sqlite"
	"github.com/treadle-go/treadle/store"
)

// All lists the kinds of databases.
var All = []*Backend{SQLite, Postgres}

// ByName returns the backend in All with the given name. It panics if the name is
// unknown.
func ByName(name string) *Backend {
	for _, b := range All {
		if b.Name == name {
			return b
		}
	}
	panic("backends: unknown backend " + name)
}

// A Database is an open database of any kind.
type Database interface {
	checkpoint.Saver
	checkpoint.Cacher
	checkpoint.Copier
	checkpoint.Fencer
	checkpoint.Pruner
	checkpoint.RunDeleter
	checkpoint.Sizer
	checkpoint.ThreadLister
	Store(*store.Options) (*store.Store, error)
	io.Closer
}

// A Backend is one kind of database. An address holds any number of databases: it is a
// directory with a file for each, or a database on a server with a schema for each.
// Opening another database at an address is faster than creating an address.
type Backend struct {
	Name string
	// Needs is the program that the database needs, as named by package need; empty means
	// none.
	Needs string
	// SizeFactor limits the size of a stored conversation, as a multiple of the size of
	// its messages as JSON.
	SizeFactor int64

	// Make creates an address without databases. remove deletes the address and its
	// databases.
	Make func(ctx context.Context) (address string, remove func() error, err error)
	// Open opens database n of an address, creating it if necessary.
	Open func(ctx context.Context, address string, n int) (Database, error)
	// Unsynced returns an address of the same databases whose commits do not wait for the
	// disk, for tests without server or machine crashes.
	Unsynced func(address string) string
	// Size returns the size of database 0 on disk, in bytes.
	Size func(ctx context.Context, address string) (int64, error)
	// Check returns an error if database 0 is damaged.
	Check func(ctx context.Context, address string) error
	// AwaitEnd waits until the server has ended the sessions of a killed process, which was
	// started with the environment variable PGAPPNAME set to name. Until then, the last
	// statement of the process may still take effect. Nil means that nothing outlives a
	// process.
	AwaitEnd func(ctx context.Context, address, name string) error
}

// Address creates an address that is deleted after the test.
func (b *Backend) Address(tb testing.TB) string {
	tb.Helper()
	need.Program(tb, b.Needs)
	address, remove, err := b.Make(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := remove(); err != nil {
			tb.Errorf("remove the test's databases: %v", err)
		}
	})
	return address
}

// Opened opens database 0 of an address and closes it after the test.
func (b *Backend) Opened(tb testing.TB, address string) Database {
	tb.Helper()
	db, err := b.Open(tb.Context(), address, 0)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := db.Close(); err != nil {
			tb.Errorf("close the database: %v", err)
		}
	})
	return db
}

// SQLite stores databases as files in a directory.
var SQLite = &Backend{
	Name:       "sqlite",
	SizeFactor: 2,
	Make: func(context.Context) (string, func() error, error) {
		dir, err := os.MkdirTemp("", "treadle")
		return dir, func() error { return os.RemoveAll(dir) }, err
	},
	Open: func(_ context.Context, address string, n int) (Database, error) {
		return sqlite.Open(sqliteFile(address, n), nil)
	},
	Unsynced: func(address string) string { return address }, // by default, SQLite waits for the disk only at checkpoints
	Size: func(ctx context.Context, address string) (int64, error) {
		path := sqliteFile(address, 0)
		if err := moveLog(ctx, path); err != nil {
			return 0, err
		}
		info, err := os.Stat(path)
		if err != nil {
			return 0, err
		}
		return info.Size(), nil
	},
	Check: func(_ context.Context, address string) error {
		db, err := sqlite.Open(sqliteFile(address, 0), &sqlite.Options{Check: true})
		if err != nil {
			return err
		}
		return db.Close()
	},
}

func sqliteFile(dir string, n int) string { return filepath.Join(dir, fmt.Sprint(n, ".db")) }

// moveLog checkpoints the write-ahead log of an SQLite file. Another connection may
// briefly be doing the same.
func moveLog(ctx context.Context, path string) (err error) {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for end := time.Now().Add(time.Minute); ; {
		var busy, pages, moved int
		if err := db.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &pages, &moved); err != nil {
			return err
		}
		if busy == 0 {
			return nil
		}
		if delay.For(ctx, 10*time.Millisecond) != nil || time.Now().After(end) {
			return fmt.Errorf("%s: %d of %d pages of the log were moved: the file is in use", path, moved, pages)
		}
	}
}

// Postgres stores databases as schemas on the server that pgtest starts or uses.
var Postgres = postgresWith("postgres", postgres.Options{})

// Pooled is Postgres without prepared statements, as used with a connection pooler. It is
// not in All, because package postgres tests the differences.
var Pooled = postgresWith("pooled", postgres.Options{PoolerSafe: true})

func postgresWith(name string, o postgres.Options) *Backend {
	return &Backend{
		Name:       name,
		Needs:      need.Postgres,
		SizeFactor: 3,
		Make:       pgtest.NewDatabase,
		Open: func(ctx context.Context, address string, n int) (Database, error) {
			o := o
			o.Schema, o.Migrate = postgresSchema(n), true
			return postgres.Open(ctx, address, &o)
		},
		Unsynced: func(address string) string {
			if strings.Contains(address, "?") {
				return address + "&synchronous_commit=off"
			}
			return address + "?synchronous_commit=off"
		},
		Size: func(ctx context.Context, address string) (n int64, err error) {
			c, err := pgx.Connect(ctx, address)
			if err != nil {
				return 0, err
			}
			defer func() { err = errors.Join(err, c.Close(ctx)) }()
			err = c.QueryRow(ctx, `SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
				JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r'`, postgresSchema(0)).Scan(&n)
			return n, err
		},
		Check: func(context.Context, string) error { return nil }, // rows have no checksums
		AwaitEnd: func(ctx context.Context, address, name string) (err error) {
			c, err := pgx.Connect(ctx, address)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, c.Close(ctx)) }()
			for {
				var left int
				if err := c.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE application_name = $1`, name).Scan(&left); err != nil || left == 0 {
					return err
				}
				if err := delay.For(ctx, 5*time.Millisecond); err != nil {
					return err
				}
			}
		},
	}
}

func postgresSchema(n int) string { return fmt.Sprint("treadle ", n) }
