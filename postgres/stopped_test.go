package postgres

import (
	"context"
	"errors"
	"sync"
	"testing"

	guuid "github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/pgtest"
	"github.com/treadle-go/treadle/ledger"
)

// A stopped process does not send anything, but its connections stay open.
func TestLocksOfStoppedProcessAreReleased(t *testing.T) {
	url := pgtest.URL(t)
	other := fresh(t, url, Options{})
	stopped := open(t, set(t, url, idleInTransaction, "300ms"), &Options{Schema: other.schema})
	lock, times := guuid.New(), 0
	holds, passed := make(chan struct{}), make(chan struct{})
	var hold sync.Once
	ended := make(chan error)
	go func() {
		ended <- stopped.Ledger().Update(t.Context(), lock, func(tx ledger.Tx) error {
			times++
			hold.Do(func() { close(holds) })
			<-passed
			_, err := tx.Get(ledger.Threads, guuid.New())
			return err
		})
	}()
	<-holds
	if err := other.Ledger().Update(t.Context(), lock, func(ledger.Tx) error { return nil }); err != nil {
		t.Error(err)
	}
	close(passed)
	if err := <-ended; err != nil || times != 2 {
		t.Errorf("transaction of the stopped process: %v after %d attempts, want 2", err, times)
	}
}

func TestConnectionsLimitIdleTransactions(t *testing.T) {
	db := fresh(t, pgtest.URL(t), Options{})
	var limit string
	if err := db.pool.QueryRow(t.Context(), "SHOW "+idleInTransaction).Scan(&limit); err != nil || limit != "10s" {
		t.Errorf("%s is %q, %v, want 10s", idleInTransaction, limit, err)
	}
}

// The server may handle the cancel request of a statement after it has finished that
// statement, and cancel the next one.
func TestCanceledStatementIsSentAgain(t *testing.T) {
	db := fresh(t, pgtest.URL(t), Options{})
	for name, run := range map[string]func(context.Context, func(*pgx.Conn) error) error{"read": db.read, "write": db.write} {
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
	err := db.write(t.Context(), func(c *pgx.Conn) error { return cancelQuery(t, db, c) })
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
		err := db.pool.QueryRow(t.Context(), "SELECT coalesce(bool_or(pg_cancel_backend(pid)), false) FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'PgSleep'", pid).Scan(&canceled)
		if err != nil {
			t.Error(err)
			return nil
		}
		if canceled {
			return <-ended
		}
	}
}
