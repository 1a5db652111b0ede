package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/pgtest"
	"github.com/treadle-go/treadle/postgres"
	"github.com/treadle-go/treadle/sqlite"
)

// place is where a trial keeps its threads. Each trial has a fresh one, so that
// none pays for the threads of those before.
type place struct {
	checkpoint.Saver
	path  string                                                  // of a file
	size  func(ctx context.Context, thread string) (int64, error) // what the thread takes; the last that is asked
	close func() error
}

type opener func(ctx context.Context) (*place, error)

// in opens a place for what is done there.
func in(ctx context.Context, open opener, do func(*place) (line, error)) (l line, err error) {
	p, err := open(ctx)
	if err != nil {
		return line{}, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	return do(p)
}

func inMemory(context.Context) (*place, error) {
	m := checkpoint.NewMemory()
	return &place{Saver: m, size: m.Size, close: func() error { return nil }}, nil
}

// inFile has the durability that is the default: WAL, synchronous=NORMAL.
func inFile(context.Context) (*place, error) {
	dir, err := os.MkdirTemp("", "treadle-bench")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "threads.db")
	db, err := sqlite.Open(path, nil)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	size := func(context.Context, string) (int64, error) {
		if err := db.Close(); err != nil { // which moves the log into the file
			return 0, err
		}
		info, err := os.Stat(path)
		if err != nil {
			return 0, err
		}
		return info.Size(), nil
	}
	return &place{Saver: db, path: path, size: size, close: func() error { return errors.Join(db.Close(), os.RemoveAll(dir)) }}, nil
}

func inPostgres(ctx context.Context) (*place, error) {
	return inPostgresWith(postgres.Options{})(ctx)
}

func inPostgresWith(o postgres.Options) opener {
	return func(ctx context.Context) (*place, error) {
		db, address, closing, err := postgresWith(ctx, o)
		if err != nil {
			return nil, err
		}
		empty, err := tableSize(ctx, address) // with the tables of the store, which a conversation does not use
		if err != nil {
			return nil, errors.Join(err, closing())
		}
		size := func(ctx context.Context, _ string) (int64, error) {
			full, err := tableSize(ctx, address)
			return full - empty, err
		}
		return &place{Saver: db, size: size, close: closing}, nil
	}
}

// postgresWith opens a database of its own on the server that the tests use: the
// one that TREADLE_TEST_POSTGRES names, or one made from what is installed.
func postgresWith(ctx context.Context, o postgres.Options) (db *postgres.DB, address string, closing func() error, err error) {
	server, err := pgtest.Server()
	if err != nil {
		return nil, "", nil, &notMeasuredError{"no Postgres", err}
	}
	address, drop, err := database(ctx, server)
	if err != nil {
		return nil, "", nil, &notMeasuredError{"no Postgres that can be used", err}
	}
	o.Migrate = true
	db, err = postgres.Open(ctx, address, &o)
	if err != nil {
		return nil, "", nil, errors.Join(err, drop())
	}
	return db, address, func() error { return errors.Join(db.Close(), drop()) }, nil
}

// database makes one and returns its address and how to be rid of it.
func database(ctx context.Context, server string) (address string, drop func() error, err error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", pgtest.Env, err)
	}
	name := "bench_" + strings.ToLower(rand.Text())
	if err := admin(ctx, server, "CREATE DATABASE "+name+" TEMPLATE template0"); err != nil {
		return "", nil, err
	}
	u.Path = "/" + name
	return u.String(), func() error {
		return admin(context.WithoutCancel(ctx), server, "DROP DATABASE "+name+" WITH (FORCE)")
	}, nil
}

func admin(ctx context.Context, server, statement string) error {
	return connected(ctx, server, func(c *pgx.Conn) error {
		_, err := c.Exec(ctx, statement)
		return err
	})
}

// tableSize is that of all tables and indexes of the schema.
func tableSize(ctx context.Context, address string) (n int64, err error) {
	err = connected(ctx, address, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, `SELECT sum(pg_total_relation_size(c.oid))::bigint
			FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
			WHERE n.nspname = 'treadle' AND c.relkind = 'r'`).Scan(&n)
	})
	return n, err
}

func connected(ctx context.Context, address string, do func(*pgx.Conn) error) (err error) {
	c, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close(ctx)) }()
	return do(c)
}

// notMeasuredError says what a job would need that is not there. The others go on.
type notMeasuredError struct {
	lacks string
	err   error
}

func (e *notMeasuredError) Error() string { return fmt.Sprintf("not measured: %s: %v", e.lacks, e.err) }
func (e *notMeasuredError) Unwrap() error { return e.err }
