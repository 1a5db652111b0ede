package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	guuid "github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/treadle-go/treadle/ledger"
)

// ledgerUpdate is a call of Update, which may take several transactions.
//
// A transaction is READ COMMITTED. Its first statement waits for the lock, and a
// stricter isolation would see the database as it was before that. All changes of a
// thread and its runs hold the lock of the thread, so those rows stay as they are
// until the end. Rows that others may change meanwhile, such as crons and workers, are
// read once in a transaction, and a put fails and everything is done again if such a
// row is not the version that was read.
//
// If the connection breaks, all is done again as well. A transaction whose commit was
// sent may have been committed: the next one asks Postgres for its fate when it
// has the lock, which the first must have given up by then.
type ledgerUpdate struct {
	b    *ledgerBackend
	lock int64
	ids  []pgtype.UUID
	fn   func(ledger.Tx) error
	// sent is the id of the transaction whose commit was not answered; empty if there is
	// none.
	sent string
}

// Update implements [ledger.Backend].
func (b *ledgerBackend) Update(ctx context.Context, lock guuid.UUID, fn func(ledger.Tx) error) error {
	return b.Preload(ctx, lock, nil, fn)
}

// Preload implements [ledger.Preloader].
func (b *ledgerBackend) Preload(ctx context.Context, lock guuid.UUID, ids []guuid.UUID, fn func(ledger.Tx) error) error {
	u := &ledgerUpdate{b: b, lock: b.lockKey(lock), fn: fn, ids: make([]pgtype.UUID, 0, len(ids)+1)}
	for _, id := range append([]guuid.UUID{lock}, ids...) {
		if id != guuid.Nil {
			u.ids = append(u.ids, orNullID(id))
		}
	}
	unlock, err := b.locks.lock(ctx, u.lock)
	if err != nil {
		return err
	}
	defer unlock()
	return u.run(ctx)
}

// staleTries bounds how often a transaction is done again because others have changed
// its rows. Each time at least one of them has got on.
const staleTries = 50

// run runs transactions until one is committed or fails for good.
func (u *ledgerUpdate) run(ctx context.Context) error {
	db := u.b.db
	broken, stale := 0, 0
	for {
		of, err := db.with(ctx, func(c *pgx.Conn) error { return u.once(ctx, c) })
		again := false
		switch code := state(err); {
		case code == stateStale || code == stateSerialization || code == stateDeadlock:
			stale++
			again = stale < staleTries
		case of != answered:
			broken++
			again = broken < tries
		}
		if err == nil || !again || ctx.Err() != nil {
			if err != nil && u.sent != "" {
				err = fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
			}
			return err
		}
		if of != answered {
			db.log.WarnContext(ctx, "postgres: the connection broke, a transaction of the ledger is done again", "schema", db.schema, "error", err)
		}
	}
}

// once runs one transaction.
func (u *ledgerUpdate) once(ctx context.Context, c *pgx.Conn) error {
	tx := &ledgerTx{ctx: ctx, c: c, b: u.b}
	committed, err := u.begin(tx)
	if err == nil && !committed {
		err = u.fn(tx)
	}
	if err == nil && !committed {
		err = tx.learn()
	}
	if err != nil {
		rollBack(ctx, c)
		return undoneError{err}
	}
	if committed || len(tx.changed) == 0 {
		// Nothing depends on the answer: if it is lost, the lock is free as well.
		_, _ = c.Exec(ctx, "COMMIT")
		return nil
	}
	u.sent = tx.id
	err = tx.commit()
	if err == nil || !c.IsClosed() || pgconn.SafeToRetry(err) {
		u.sent = "" // the outcome is known
	}
	if err != nil {
		rollBack(ctx, c)
	}
	return err
}

// begin begins a transaction, in one round trip: it waits for the lock, asks for the
// time and reads the rows that will most likely be wanted. committed is true if an
// earlier transaction of the same call has been committed.
func (u *ledgerUpdate) begin(tx *ledgerTx) (committed bool, err error) {
	var fate string
	var rows []*ledgerRow
	var batch pgx.Batch // it may be sent once
	batch.Queue("BEGIN ISOLATION LEVEL READ COMMITTED")
	batch.Queue("SELECT pg_advisory_xact_lock($1)", u.lock)
	batch.Queue("SELECT clock_timestamp(), pg_current_xact_id()::text, coalesce(pg_xact_status(nullif($1::text, '')::xid8), '')", u.sent).QueryRow(func(row pgx.Row) error {
		return row.Scan(&tx.now, &tx.id, &fate)
	})
	if len(u.ids) > 0 {
		batch.Queue(u.b.sql.byIDs, u.ids).Query(func(r pgx.Rows) (err error) {
			rows, err = collectLedgerRows(r, false)
			return err
		})
	}
	if err := tx.c.SendBatch(tx.ctx, &batch).Close(); err != nil {
		return false, err
	}
	tx.now = tx.now.UTC().Truncate(time.Microsecond)
	tx.known = make(map[ledgerKey]*ledgerRow, len(rows)+4)
	for _, r := range rows {
		tx.known[r.key()] = r
	}
	tx.loaded = u.ids
	switch {
	case u.sent == "":
		return false, nil
	case fate == "committed":
		u.sent = ""
		return true, nil
	case fate == "aborted":
		u.sent = ""
		return false, nil
	}
	return false, fmt.Errorf("postgres: transaction %s of the ledger is %q", u.sent, fate)
}

// rollBack ends a transaction that has failed, if it was begun.
func rollBack(ctx context.Context, c *pgx.Conn) {
	if c.IsClosed() || c.PgConn().TxStatus() == 'I' {
		return
	}
	// The context may have ended, and the lock has to be freed.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveUpAfter)
	defer cancel()
	_, _ = c.Exec(ctx, "ROLLBACK") // the pool closes a connection that is still in a transaction
}

var errNotCommitted = errors.New("postgres: the server has rolled back a transaction of the ledger")
