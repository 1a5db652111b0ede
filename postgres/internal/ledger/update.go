package ledger

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
	"github.com/treadle-go/treadle/postgres/internal/database"
)

// An update is a call of Update, which may take several transactions.
//
// Transactions are READ COMMITTED: the first statement waits for the lock, and a stricter
// isolation level would see the state from before that wait. All changes of a thread and
// its runs hold the thread's lock, so those rows cannot change during the transaction.
// Other rows, such as crons and workers, can be changed concurrently. A transaction reads
// such a row once. If the row's version has changed by the time of the put, the put fails
// and the transaction is retried.
//
// If the connection breaks, the transaction is also retried. If its commit had been sent,
// it may have been committed: the next transaction asks Postgres for the outcome once it
// holds the lock, which the first must have released by then.
type update struct {
	b    *backend
	lock int64
	ids  []any // IDs of the rows to load
	fn   func(ledger.Tx) error
	// sent is the transaction whose commit was not confirmed, or nil.
	sent *transaction
}

// Update implements [ledger.Backend].
func (b *backend) Update(ctx context.Context, lock guuid.UUID, fn func(ledger.Tx) error) error {
	return b.Preload(ctx, lock, nil, fn)
}

// Preload implements [ledger.Preloader].
func (b *backend) Preload(ctx context.Context, lock guuid.UUID, ids []guuid.UUID, fn func(ledger.Tx) error) error {
	u := &update{b: b, lock: b.lockKey(lock), fn: fn}
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

// staleTries is the maximum number of attempts when other transactions change the same
// rows. In each attempt, at least one of the competing transactions makes progress.
const staleTries = 50

// run runs transactions until one commits or fails permanently.
func (u *update) run(ctx context.Context) error {
	db := u.b.db
	broken, stale := 0, 0
	for {
		of, err := db.With(ctx, func(c *pgx.Conn) error { return u.once(ctx, c) })
		again := false
		switch code := database.State(err); {
		case code == database.StateInvalid && u.sent != nil:
			// The server never assigned this transaction ID, so it lost the transaction
			// in a crash.
			u.sent = nil
			again = true
		case code == database.StateStale || code == database.StateSerialization || code == database.StateDeadlock:
			stale++
			again = stale < staleTries
		case of != database.Answered:
			broken++
			again = broken < database.Tries
		}
		if err == nil || !again || ctx.Err() != nil {
			if err != nil && u.sent != nil {
				err = fmt.Errorf("%w: %w", database.ErrOutcomeUnknown, err)
			}
			return err
		}
		if of != database.Answered {
			db.Log.WarnContext(ctx, "postgres: connection broken, retrying ledger transaction", "schema", db.Schema, "error", err)
		}
	}
}

// once runs one transaction.
func (u *update) once(ctx context.Context, c *pgx.Conn) error {
	tx := &transaction{ctx: ctx, c: c, b: u.b}
	committed, err := u.begin(tx)
	if err == nil && !committed {
		err = u.fn(tx)
	}
	if err == nil && !committed {
		err = tx.learn()
	}
	if err != nil {
		database.RollBack(ctx, c)
		return database.Undone(err)
	}
	if committed || len(tx.changed) == 0 {
		// The response does not matter: if it is lost, the lock is released too.
		_, _ = c.Exec(ctx, "COMMIT")
		return nil
	}
	u.sent = tx
	err = tx.commit()
	if err == nil || !c.IsClosed() || pgconn.SafeToRetry(err) {
		u.sent = nil // the outcome is known
	}
	if err != nil {
		database.RollBack(ctx, c)
	}
	return err
}

// begin starts a transaction in one round trip: it waits for the lock, reads the time,
// and reads the rows that will most likely be needed. The result committed reports
// whether an earlier transaction of the same call has committed.
func (u *update) begin(tx *transaction) (committed bool, err error) {
	var earlier, status string
	var rows, changed []*storedRow
	if u.sent != nil {
		earlier = u.sent.id
	}
	var batch pgx.Batch // can be sent only once
	batch.Queue("BEGIN ISOLATION LEVEL READ COMMITTED")
	batch.Queue("SELECT "+database.LimitIdle+", pg_advisory_xact_lock($1)", u.lock)
	batch.Queue("SELECT clock_timestamp(), pg_current_xact_id()::text, coalesce(pg_xact_status(nullif($1::text, '')::xid8), '')", earlier).QueryRow(func(row pgx.Row) error {
		return row.Scan(&tx.now, &tx.id, &status)
	})
	if len(u.ids) > 0 {
		batch.Queue(u.b.byIDs(len(u.ids)), u.ids...).Query(func(r pgx.Rows) (err error) {
			rows, err = collectRows(r, false)
			return err
		})
	}
	if u.sent != nil {
		batch.Queue(u.b.sql.getAll, keyArgs(u.sent.keys())...).Query(func(r pgx.Rows) (err error) {
			changed, err = collectRows(r, false)
			return err
		})
	}
	if err := tx.c.SendBatch(tx.ctx, &batch).Close(); err != nil {
		return false, err
	}
	tx.now = tx.now.UTC().Truncate(time.Microsecond)
	tx.known = make(map[rowKey]*storedRow, len(rows)+4)
	for _, r := range rows {
		tx.known[r.key()] = r
	}
	tx.loaded = u.ids
	if u.sent == nil {
		return false, nil
	}
	committed, known := u.sent.outcome(status, changed)
	if !known {
		// run returns this as errUnknown. The caller must read back the rows it
		// depends on.
		return false, fmt.Errorf("ledger transaction %s: status %q, but its rows have changed", earlier, status)
	}
	u.sent = nil
	return committed, nil
}

// outcome determines the outcome of a transaction whose commit was not confirmed, from
// the server's status for its ID and the current rows that it would have changed. Both
// were read by a later transaction that holds the lock.
//
// After a crash, the server may have lost the transaction and reused its ID. The
// transaction therefore counts as committed only if the rows confirm it.
func (tx *transaction) outcome(status string, rows []*storedRow) (committed, known bool) {
	switch status {
	case "committed":
	case "aborted", "in progress": // if it were in progress, it would hold the lock, so the ID was reused
		return false, true
	default:
		return false, false
	}
	now := make(map[rowKey]*storedRow, len(rows))
	for _, r := range rows {
		now[r.key()] = r
	}
	id, err := strconv.ParseUint(tx.id, 10, 64)
	if err != nil {
		return false, false
	}
	done := true // all rows are as the transaction would have left them
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

var errNotCommitted = errors.New("postgres: ledger transaction rolled back by the server")
