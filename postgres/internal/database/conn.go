package database

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// cancelAfter is the time that a statement may keep running after its context has
	// ended before the server is asked to cancel it. Most statements finish within this
	// time, so their outcome is known.
	cancelAfter = 50 * time.Millisecond
	// giveUpAfter is the time to wait for the server's response after the cancel request.
	giveUpAfter = 5 * time.Second
	// Tries is the maximum number of attempts when the connection breaks or another
	// writer interferes.
	Tries = 5
	// patience is the time to wait for a server that has become unreachable.
	patience = 10 * time.Second
	// FirstWait is the first delay between attempts to connect.
	FirstWait = 20 * time.Millisecond
	// LastWait is the longest delay between attempts to connect.
	LastWait = 500 * time.Millisecond
)

// A Fate is the known outcome of sending a statement.
type Fate int

// The fates of a statement.
const (
	Answered Fate = iota // the server responded, or no connection was available
	Unsent               // the connection broke before anything was executed
	Lost                 // the connection broke, and the outcome is unknown
)

// With calls do with a connection from the pool.
func (db *DB) With(ctx context.Context, do func(*pgx.Conn) error) (Fate, error) {
	c, err := db.acquire(ctx)
	if err != nil {
		if db.Closed() {
			return Answered, ErrClosed
		}
		return Answered, unavailableError{fmt.Errorf("postgres: no connection: %w", err), nil}
	}
	if !db.enter() {
		c.Release()
		return Answered, ErrClosed
	}
	defer db.running.Done()
	defer c.Release()
	err = do(c.Conn())
	if err == nil {
		return Answered, nil
	}
	of := Answered
	if c.Conn().IsClosed() {
		of = Lost
		if _, undone := errors.AsType[undoneError](err); undone || pgconn.SafeToRetry(err) {
			of = Unsent
		}
	}
	switch {
	case ctx.Err() != nil:
		err = fmt.Errorf("postgres: %w: %w", ctx.Err(), err)
	case State(err) == stateCanceled:
		// The server received the cancel request of an earlier statement of the connection
		// late, or an administrator canceled the statement. Nothing was written.
		of, err = Unsent, unavailableError{fmt.Errorf("postgres: %w", err), nil}
	case c.Conn().IsClosed():
		err = unavailableError{fmt.Errorf("postgres: connection broken: %w", err), nil}
	case State(err) == stateDiskFull:
		err = unavailableError{fmt.Errorf("postgres: disk full: %w", err), syscall.ENOSPC}
	case unable(State(err)):
		err = unavailableError{fmt.Errorf("postgres: %w", err), nil}
	case State(err) != "":
		err = fmt.Errorf("postgres: %w", err)
	}
	return of, err
}

// acquire takes a connection from the pool. It waits for a restarting server, which is
// safe because nothing has been sent yet.
func (db *DB) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	if !db.ownsPool { // closing the DB does not close the pool, so it must end the wait
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(db.life, cancel)()
	}
	until := time.Now().Add(patience)
	for wait := FirstWait; ; wait = min(2*wait, LastWait) {
		c, err := db.acquireAlive(ctx)
		if err == nil || !db.opened.Load() || !restarting(err) || time.Now().Add(wait).After(until) {
			return c, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-db.life.Done():
			return nil, err
		case <-time.After(wait):
		}
	}
}

// acquireAlive takes a connection from the pool that the server has not closed. The pool
// pings connections only after they were idle for a second. Unread input on an idle
// connection most likely means that the server has closed it.
func (db *DB) acquireAlive(ctx context.Context) (*pgxpool.Conn, error) {
	for {
		c, err := db.Pool.Acquire(ctx)
		if err != nil || !spoken(c.Conn().PgConn().Conn()) || c.Ping(ctx) == nil {
			return c, err
		}
		CloseNow(c.Conn())
		c.Release()
	}
}

// Connect opens a connection outside the pool, configured like the connections of the
// pool. It is for waiting: if a context ends, there is no statement to cancel.
func (db *DB) Connect(ctx context.Context) (*pgx.Conn, error) {
	pool := db.Pool.Config()
	config := pool.ConnConfig
	config.BuildContextWatcherHandler = func(pc *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.DeadlineContextWatcherHandler{Conn: pc.Conn()}
	}
	config.OnNotification = nil // it would receive the notifications in place of WaitForNotification
	if pool.BeforeConnect != nil {
		if err := pool.BeforeConnect(ctx, config); err != nil {
			return nil, err
		}
	}
	c, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	if pool.AfterConnect != nil {
		if err := pool.AfterConnect(ctx, c); err != nil {
			CloseNow(c)
			return nil, err
		}
	}
	return c, nil
}

// CloseNow closes a connection with a short timeout.
func CloseNow(c *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Close(ctx) // the connection is no longer needed
}

// restarting reports whether err means that the server is temporarily down.
func restarting(err error) bool {
	if _, ok := errors.AsType[*pgconn.ConnectError](err); !ok {
		return false
	}
	switch State(err) {
	case stateShutdown, stateCrash, stateStarting:
		return true
	}
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.ENOENT) || // no socket file
		errors.Is(err, io.ErrUnexpectedEOF) // the server crashed during the connection handshake
}

// Read calls do and retries it if the connection breaks. The function do must be
// read-only or idempotent.
func (db *DB) Read(ctx context.Context, do func(*pgx.Conn) error) error {
	for try := 1; ; try++ {
		of, err := db.With(ctx, do)
		again := of != Answered || State(err) == StateSerialization || State(err) == StateDeadlock
		if err == nil || !again || ctx.Err() != nil || try == Tries {
			return err
		}
		db.Log.WarnContext(ctx, "postgres: resending statement", "schema", db.Schema, "error", err)
	}
}

// Write calls do, which writes with a single statement or transaction. It retries only if
// nothing was written for certain.
func (db *DB) Write(ctx context.Context, do func(*pgx.Conn) error) error {
	_, err := db.Send(ctx, false, do)
	return err
}

// Repeat is like write, but for idempotent writes. If the response to an attempt before
// the last one was lost, earlier is the reason. The last response, even a rejection, may
// then be due to the write having already happened.
func (db *DB) Repeat(ctx context.Context, do func(*pgx.Conn) error) (earlier, err error) {
	return db.Send(ctx, true, do)
}

// Send calls do with a connection from the pool. It retries if nothing was executed and, if
// repeatable is set, also if the outcome is unknown; earlier is then the reason, as in Repeat.
func (db *DB) Send(ctx context.Context, repeatable bool, do func(*pgx.Conn) error) (earlier, err error) {
	for try := 1; ; try++ {
		of, err := db.With(ctx, do)
		again := of == Unsent || of == Lost && repeatable
		switch State(err) {
		case StateStale, StateSerialization, StateDeadlock:
			again = true
		}
		if err == nil || !again || ctx.Err() != nil || try == Tries {
			if err != nil && (of == Lost || earlier != nil) {
				err = fmt.Errorf("%w: %w", ErrOutcomeUnknown, errors.Join(earlier, err))
			}
			return earlier, err
		}
		if of == Lost {
			earlier = err
		}
		if of != Answered {
			db.Log.WarnContext(ctx, "postgres: connection broken, resending statement", "schema", db.Schema, "error", err)
		}
	}
}

// idleInTransaction is the server setting that ends a transaction whose client is silent.
const idleInTransaction = "idle_in_transaction_session_timeout"

// LimitIdle is an SQL expression that limits the idle time of the current transaction,
// unless the session has a limit already. The server then ends the transaction of a
// process that has stopped, for example by SIGSTOP or because its machine sleeps. Its
// connection is alive, so its locks would otherwise block the other processes for as long
// as it is stopped. The limit ends with the transaction, so it works behind a transaction
// pooler and leaves the connections of a shared pool unchanged.
const LimitIdle = "set_config('" + idleInTransaction + "', coalesce(nullif(current_setting('" + idleInTransaction + "'), '0'), '10s'), true)"

// Statements that begin a transaction, each in one round trip.
const (
	beginWrite = "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT " + LimitIdle
	beginRead  = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT " + LimitIdle
)

// InTx calls do in a transaction, for work that takes more than one statement.
func InTx(ctx context.Context, c *pgx.Conn, do func(pgx.Tx) error) error {
	committing := false
	err := pgx.BeginTxFunc(ctx, c, pgx.TxOptions{BeginQuery: beginWrite}, func(tx pgx.Tx) error {
		err := do(tx)
		committing = err == nil
		return err
	})
	if err != nil && !committing {
		return Undone(err)
	}
	return err
}

// Snapshot calls do in a read-only transaction that sees one snapshot.
func Snapshot(ctx context.Context, c *pgx.Conn, do func(Querier) error) error {
	return pgx.BeginTxFunc(ctx, c, pgx.TxOptions{BeginQuery: beginRead}, func(tx pgx.Tx) error { return do(tx) })
}

// RollBack ends a failed transaction, if one is open.
func RollBack(ctx context.Context, c *pgx.Conn) {
	if c.IsClosed() || c.PgConn().TxStatus() == 'I' {
		return
	}
	// The context may have ended, but the transaction's locks must be released.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveUpAfter)
	defer cancel()
	_, _ = c.Exec(ctx, "ROLLBACK") // the pool closes a connection that is still in a transaction
}

// A Querier is a connection or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Each calls do for each row, after scanning it into dest.
func Each(ctx context.Context, q Querier, query string, args, dest []any, do func() error) error {
	rows, err := q.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, dest, do)
	return err
}

// In inserts the schema's name into a statement, in place of {schema}.
func (db *DB) In(query string) string { return strings.ReplaceAll(query, "{schema}", db.Quoted) }

// Bytea returns s as a value of type bytea. The result is not nil, because nil would be
// NULL.
func Bytea(s string) []byte { return append([]byte{}, s...) }
