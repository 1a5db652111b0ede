package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	guuid "github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

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
// sent may have been committed: the next one asks Postgres for it when it has the lock,
// which the first must have given up by then.
type ledgerUpdate struct {
	b    *ledgerBackend
	lock int64
	ids  []any // that are loaded
	fn   func(ledger.Tx) error
	// sent is the transaction whose commit was not answered; nil if there is none.
	sent *ledgerTx
}

// Update implements [ledger.Backend].
func (b *ledgerBackend) Update(ctx context.Context, lock guuid.UUID, fn func(ledger.Tx) error) error {
	return b.Preload(ctx, lock, nil, fn)
}

// Preload implements [ledger.Preloader].
func (b *ledgerBackend) Preload(ctx context.Context, lock guuid.UUID, ids []guuid.UUID, fn func(ledger.Tx) error) error {
	u := &ledgerUpdate{b: b, lock: b.lockKey(lock), fn: fn}
	for _, id := range append([]guuid.UUID{lock}, ids...) {
		if id := any([16]byte(id)); id != [16]byte{} && !slices.Contains(u.ids, id) {
			u.ids = append(u.ids, id)
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
		case code == stateInvalid && u.sent != nil:
			// Its id was never given out, so a server that crashed has lost the transaction.
			u.sent = nil
			again = true
		case code == stateStale || code == stateSerialization || code == stateDeadlock:
			stale++
			again = stale < staleTries
		case of != answered:
			broken++
			again = broken < tries
		}
		if err == nil || !again || ctx.Err() != nil {
			if err != nil && u.sent != nil {
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
	u.sent = tx
	err = tx.commit()
	if err == nil || !c.IsClosed() || pgconn.SafeToRetry(err) {
		u.sent = nil // the outcome is known
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
	var earlier, status string
	var rows, changed []*ledgerRow
	if u.sent != nil {
		earlier = u.sent.id
	}
	var batch pgx.Batch // it may be sent once
	batch.Queue("BEGIN ISOLATION LEVEL READ COMMITTED")
	batch.Queue("SELECT pg_advisory_xact_lock($1)", u.lock)
	batch.Queue("SELECT clock_timestamp(), pg_current_xact_id()::text, coalesce(pg_xact_status(nullif($1::text, '')::xid8), '')", earlier).QueryRow(func(row pgx.Row) error {
		return row.Scan(&tx.now, &tx.id, &status)
	})
	if len(u.ids) > 0 {
		batch.Queue(u.b.byIDs(len(u.ids)), u.ids...).Query(func(r pgx.Rows) (err error) {
			rows, err = collectLedgerRows(r, false)
			return err
		})
	}
	if u.sent != nil {
		batch.Queue(u.b.sql.getAll, keyArgs(u.sent.keys())...).Query(func(r pgx.Rows) (err error) {
			changed, err = collectLedgerRows(r, false)
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
	if u.sent == nil {
		return false, nil
	}
	committed, known := u.sent.outcome(status, changed)
	if !known {
		// run returns it as ErrOutcomeUnknown. The caller reads back what it needs to know.
		return false, fmt.Errorf("ledger transaction %s is %q, and its rows have changed since", earlier, status)
	}
	u.sent = nil
	return committed, nil
}

// outcome is what became of a transaction whose commit was not answered: what the
// server says of its id, and the rows that it was to change. Another transaction has
// asked for both, which holds the lock.
//
// A server that has crashed may have lost the transaction and given its id to another. So
// it counts as committed only if the rows show it.
func (tx *ledgerTx) outcome(status string, rows []*ledgerRow) (committed, known bool) {
	switch status {
	case "committed":
	case "aborted", "in progress": // one in progress would hold the lock, so it is another
		return false, true
	default:
		return false, false
	}
	now := make(map[ledgerKey]*ledgerRow, len(rows))
	for _, r := range rows {
		now[r.key()] = r
	}
	id, err := strconv.ParseUint(tx.id, 10, 64)
	if err != nil {
		return false, false
	}
	done := true // all rows are as it was to leave them
	for k, of := range tx.changed {
		r, was := now[k], tx.known[k]
		switch {
		case r != nil && was != nil && r.version == was.version:
			return false, true
		case r != nil && of.row != nil && r.version == uint32(id):
			return true, true
		case r != nil || of.row != nil:
			done = false
		}
	}
	return done, done
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
