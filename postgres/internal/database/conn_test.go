package database

import (
	"context"
	"errors"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/test/pgtest"
)

// The limit ends with the transaction, and a limit of the session takes precedence.
func TestTransactionsLimitIdleTime(t *testing.T) {
	address, err := url.Parse(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	schema := open(t, address.String(), &Options{Migrate: true}).Schema
	settings := address.Query()
	for session, want := range map[string]string{"0": "10s", "300ms": "300ms", "1min": "1min"} {
		for mode, opts := range map[string]Options{"prepared": {}, "pooler-safe": {PoolerSafe: true}} {
			t.Run(session+" "+mode, func(t *testing.T) {
				opts.Schema, opts.MaxConns = schema, 1
				settings.Set(idleInTransaction, session)
				address.RawQuery = settings.Encode()
				db := open(t, address.String(), &opts)
				limit := func(q Querier) (limit string) {
					if err := q.QueryRow(t.Context(), "SHOW "+idleInTransaction).Scan(&limit); err != nil {
						t.Fatal(err)
					}
					return limit
				}
				got := map[string]string{}
				check := func(what string, err error) {
					if got[what] != want || err != nil {
						t.Errorf("limit of a %s transaction: %q, %v, want %q", what, got[what], err, want)
					}
					if l := limit(db.Pool); l != session {
						t.Errorf("limit after a %s transaction: %q, want %q", what, l, session)
					}
				}
				check("write", db.Write(t.Context(), func(c *pgx.Conn) error {
					return InTx(t.Context(), c, func(tx pgx.Tx) error { got["write"] = limit(tx); return nil })
				}))
				check("read", db.Read(t.Context(), func(c *pgx.Conn) error {
					return Snapshot(t.Context(), c, func(q Querier) error { got["read"] = limit(q); return nil })
				}))
			})
		}
	}
}

// The server may handle the cancel request of a statement after it has finished that
// statement, and cancel the next one.
func TestCanceledStatementIsResent(t *testing.T) {
	db := open(t, pgtest.URL(t), &Options{Migrate: true})
	for name, run := range map[string]func(context.Context, func(*pgx.Conn) error) error{"read": db.Read, "write": db.Write} {
		t.Run(name, func(t *testing.T) {
			tries := 0
			err := run(t.Context(), func(c *pgx.Conn) error {
				if tries++; tries > 1 {
					return nil
				}
				return cancelQuery(t, db, c)
			})
			if err != nil || tries != 2 {
				t.Errorf("error %v after %d attempts, want success after 2", err, tries)
			}
		})
	}
	err := db.Write(t.Context(), func(c *pgx.Conn) error { return cancelQuery(t, db, c) })
	if !errors.Is(err, checkpoint.ErrUnavailable) {
		t.Errorf("statement that is always canceled: %v, want %v", err, checkpoint.ErrUnavailable)
	}
}

// cancelQuery runs a query on a connection, cancels it from another one, and returns its error.
func cancelQuery(t *testing.T, db *DB, c *pgx.Conn) error {
	t.Helper()
	pid := c.PgConn().PID()
	ended := make(chan error)
	go func() {
		_, err := c.Exec(t.Context(), "SELECT pg_sleep(60)")
		ended <- err
	}()
	for {
		var canceled bool
		err := db.Pool.QueryRow(t.Context(), "SELECT coalesce(bool_or(pg_cancel_backend(pid)), false) FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'PgSleep'", pid).Scan(&canceled)
		if err != nil {
			t.Error(err)
			return nil
		}
		if canceled {
			return <-ended
		}
	}
}
