package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/budget"
	"github.com/treadle-go/treadle/internal/dburl"
)

// Errors of a DB, in addition to those of package checkpoint.
var (
	// ErrClosed says that the DB was closed.
	ErrClosed = errors.New("postgres: the database is closed")
	// ErrDamaged says that stored data is missing or unreadable.
	ErrDamaged = errors.New("postgres: the data is damaged")
	// ErrOutcomeUnknown is returned when the connection breaks, or the context ends,
	// before the server confirms a write. The server has written everything or nothing; a
	// Get shows which. It matches [checkpoint.ErrUnavailable].
	ErrOutcomeUnknown error = unavailableError{errors.New("postgres: write outcome unknown"), nil}
	// ErrSchema says that the schema is missing or has another version than this
	// package needs.
	ErrSchema = errors.New("postgres: the schema does not fit")
)

// Options configure [Open]. The zero value and nil are the defaults.
type Options struct {
	// Schema is the name of the schema with the tables and functions; empty means
	// "treadle".
	Schema string
	// Migrate makes Open call [DB.Migrate].
	Migrate bool
	// PoolerSafe avoids prepared statements. Set it behind a pooler that gives each
	// transaction another connection, such as PgBouncer in transaction mode.
	PoolerSafe bool
	// MaxConns is the maximum number of connections; 0 means the url's pool_max_conns,
	// or without one 8 or the number of CPUs, whichever is greater.
	MaxConns int
	// Logger receives warnings that cannot be returned to a caller; nil discards them.
	Logger *slog.Logger
}

// DB is a schema in a Postgres database. It is safe for concurrent use.
type DB struct {
	schema string // as it is
	quoted string // as it is written in SQL
	log    *slog.Logger
	pool   *pgxpool.Pool
	opened atomic.Bool // Open has succeeded
	closed atomic.Bool
	// closing is closed when closed is set.
	closing chan struct{}
	sql     statements
	known   known
	backend backend
	ledger  ledgerBackend
	// poolerSafe is [Options].PoolerSafe.
	poolerSafe bool
	// attending are goroutines with connections that are not of the pool. No other begins
	// once closed is set, for which ending is held.
	attending sync.WaitGroup
	ending    sync.Mutex
}

var (
	_ checkpoint.Saver        = (*DB)(nil)
	_ checkpoint.Cacher       = (*DB)(nil)
	_ checkpoint.Pruner       = (*DB)(nil)
	_ checkpoint.Copier       = (*DB)(nil)
	_ checkpoint.RunDeleter   = (*DB)(nil)
	_ checkpoint.Sizer        = (*DB)(nil)
	_ checkpoint.ThreadLister = (*DB)(nil)
	_ checkpoint.Fencer       = (*DB)(nil)
	_ checkpoint.Scrubber     = (*DB)(nil)
)

const (
	defaultSchema = "treadle"
	// cancelAfter is how long a statement may go on after its context has
	// ended before the server is told to stop it. Most are done by then, and
	// their outcome is known.
	cancelAfter = 50 * time.Millisecond
	// giveUpAfter is how long after that the server's answer is waited for.
	giveUpAfter = 5 * time.Second
	// tries bounds how often something is done again after the connection broke
	// or another writer came in between.
	tries = 5
	// patience is how long a server that was there and cannot be reached is
	// waited for, with pauses from firstWait to lastWait.
	patience  = 10 * time.Second
	firstWait = 20 * time.Millisecond
	lastWait  = 500 * time.Millisecond
	// pingAfter is how long a connection may have been idle without being asked
	// whether it still works.
	pingAfter = time.Second
	// usualConns is how many connections there are if nobody says it and there are fewer
	// CPUs. With 4 the calls of a busy server wait for a connection most of the time, and
	// 16 are no faster than 8.
	usualConns = 8
)

// Open connects to the database at url, in one of the forms that libpq accepts. If the
// schema is missing or has another version, the error is an ErrSchema, unless
// [Options].Migrate is set.
func Open(ctx context.Context, url string, o *Options) (*DB, error) {
	if o == nil {
		o = &Options{}
	}
	db := &DB{schema: o.Schema, log: o.Logger, closing: make(chan struct{}), poolerSafe: o.PoolerSafe}
	db.known.heads = budget.NewCache[lineName, *head](budget.New(ownMemory), memoryKind)
	db.backend.db = db
	if db.schema == "" {
		db.schema = defaultSchema
	}
	if db.log == nil {
		db.log = slog.New(slog.DiscardHandler)
	}
	var err error
	if db.quoted, err = quoteSchema(db.schema); err != nil {
		return nil, fmt.Errorf("postgres: open: %w", err)
	}
	db.sql = newStatements(db.quoted)
	db.ledger.init(db)
	config, err := poolConfig(url, o.MaxConns)
	if err != nil {
		return nil, fmt.Errorf("postgres: open: %w", err)
	}
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
	if o.PoolerSafe {
		// The statement is sent with each call and has no name. What is cached
		// are its types, on our side.
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	config.ConnConfig.BuildContextWatcherHandler = func(pc *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: pc, CancelRequestDelay: cancelAfter, DeadlineDelay: cancelAfter + giveUpAfter}
	}
	config.ShouldPing = func(_ context.Context, p pgxpool.ShouldPingParams) bool {
		// What a server says to a connection that is idle is most likely that it
		// has closed it.
		return p.IdleDuration > pingAfter || spoken(p.Conn.PgConn().Conn())
	}
	if _, given := config.ConnConfig.RuntimeParams[idleInTransaction]; !given && !o.PoolerSafe {
		config.AfterConnect = limitTransactions
	}
	// The pool outlives ctx, which is for opening.
	if db.pool, err = pgxpool.NewWithConfig(context.WithoutCancel(ctx), config); err != nil {
		return nil, fmt.Errorf("postgres: open: %w", err)
	}
	if err := db.open(ctx, o.Migrate); err != nil {
		db.pool.Close()
		return nil, fmt.Errorf("postgres: open: %w", err)
	}
	db.opened.Store(true)
	return db, nil
}

// idleInTransaction is the server setting that ends a transaction whose client is silent.
const idleInTransaction = "idle_in_transaction_session_timeout"

// limitTransactions lets the server end a transaction whose process has stopped, for
// example by SIGSTOP or because its machine sleeps. Its connection is alive, so its locks
// would otherwise block the other processes for as long as it is stopped. A startup parameter
// would do the same, but PgBouncer rejects it.
func limitTransactions(ctx context.Context, c *pgx.Conn) error {
	_, err := c.Exec(ctx, "SET "+idleInTransaction+" = '10s'")
	return err
}

// poolConfig is the pool for a url, with so many connections if it is not 0.
func poolConfig(url string, conns int) (*pgxpool.Config, error) {
	if strings.Contains(url, "://") {
		if _, err := dburl.Parse(url); err != nil { // whose error does not contain a part of the password
			return nil, err
		}
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	said, err := pgx.ParseConfig(url) // which leaves the settings of the pool where they are
	if err != nil {
		return nil, err
	}
	switch _, ok := said.RuntimeParams["pool_max_conns"]; {
	case conns > 0:
		config.MaxConns = int32(min(conns, 1<<20))
	case !ok:
		config.MaxConns = max(config.MaxConns, usualConns)
	}
	return config, nil
}

func (db *DB) open(ctx context.Context, migrate bool) error {
	if migrate {
		return db.Migrate(ctx)
	}
	version, err := db.version(ctx)
	if err != nil {
		return err
	}
	return db.checkVersion(version)
}

// quoteSchema writes the name of a schema as it stands in SQL.
func quoteSchema(name string) (string, error) {
	switch {
	case len(name) > 63:
		return "", fmt.Errorf("the schema's name %q is longer than the 63 bytes that Postgres keeps", name)
	case strings.HasPrefix(name, "pg_"):
		return "", fmt.Errorf("the schema's name %q is Postgres's own: it begins with pg_", name)
	case !utf8.ValidString(name) || strings.ContainsAny(name, "\x00$"):
		return "", fmt.Errorf("the schema's name %q has a character that it cannot have", name)
	}
	return pgx.Identifier{name}.Sanitize(), nil
}

// Close waits for running calls and closes all connections. Later calls fail with
// ErrClosed.
func (db *DB) Close() error {
	db.ending.Lock()
	if !db.closed.Swap(true) {
		close(db.closing)
	}
	db.ending.Unlock()
	db.attending.Wait()
	db.pool.Close()
	return nil
}

// A fate is what is known of a statement that was to be sent.
type fate int

const (
	answered fate = iota // the server has answered, or there was no connection
	unsent               // the connection broke, and nothing was done
	lost                 // the connection broke, and it may have been done or not
)

// with runs do with a connection.
func (db *DB) with(ctx context.Context, do func(*pgx.Conn) error) (fate, error) {
	c, err := db.acquire(ctx)
	if err != nil {
		if db.closed.Load() {
			return answered, ErrClosed
		}
		return answered, unavailableError{fmt.Errorf("postgres: no connection: %w", err), nil}
	}
	defer c.Release()
	err = do(c.Conn())
	if err == nil {
		return answered, nil
	}
	of := answered
	if c.Conn().IsClosed() {
		of = lost
		if _, undone := errors.AsType[undoneError](err); undone || pgconn.SafeToRetry(err) {
			of = unsent
		}
	}
	switch {
	case ctx.Err() != nil:
		err = fmt.Errorf("postgres: %w: %w", ctx.Err(), err)
	case state(err) == stateCanceled:
		// The server received the cancel request of an earlier statement of the connection
		// late, or an administrator canceled the statement. Nothing was written.
		of, err = unsent, unavailableError{fmt.Errorf("postgres: %w", err), nil}
	case c.Conn().IsClosed():
		err = unavailableError{fmt.Errorf("postgres: the connection broke: %w", err), nil}
	case state(err) == stateDiskFull:
		err = unavailableError{fmt.Errorf("postgres: disk full: %w", err), syscall.ENOSPC}
	case unable(state(err)):
		err = unavailableError{fmt.Errorf("postgres: %w", err), nil}
	case state(err) != "":
		err = fmt.Errorf("postgres: %w", err)
	}
	return of, err
}

// unable reports whether a SQLSTATE means that the server cannot do its work right now:
// it lacks resources, shuts down, starts, is a standby, or cannot use its disk.
func unable(state string) bool {
	switch state {
	case stateReadOnly, stateShutdown, stateCrash, stateStarting:
		return true
	}
	return strings.HasPrefix(state, classResources) || strings.HasPrefix(state, classSystem) || strings.HasPrefix(state, classConnection)
}

// unavailableError is an error that matches [checkpoint.ErrUnavailable] and, if it is not
// nil, errno.
type unavailableError struct {
	error
	errno error
}

// Is reports whether target is one of the errors that e matches.
func (e unavailableError) Is(target error) bool {
	return target == checkpoint.ErrUnavailable || e.errno != nil && target == e.errno
}

// Unwrap returns the cause.
func (e unavailableError) Unwrap() error { return e.error }

// acquire takes a connection from the pool. A server that restarts is waited
// for: nothing has been sent.
func (db *DB) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	until := time.Now().Add(patience)
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		c, err := db.pool.Acquire(ctx)
		if err == nil || !db.opened.Load() || !restarting(err) || time.Now().Add(wait).After(until) {
			return c, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-db.closing:
			return nil, err
		case <-time.After(wait):
		}
	}
}

// restarting reports whether an error is that of a server which is not there at
// the moment.
func restarting(err error) bool {
	if _, ok := errors.AsType[*pgconn.ConnectError](err); !ok {
		return false
	}
	switch state(err) {
	case stateShutdown, stateCrash, stateStarting:
		return true
	}
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.ENOENT) || // of a socket's file
		errors.Is(err, io.ErrUnexpectedEOF) // it crashed while the connection was made
}

// read runs do, which only reads or may be done twice, again if its connection
// breaks.
func (db *DB) read(ctx context.Context, do func(*pgx.Conn) error) error {
	for try := 1; ; try++ {
		of, err := db.with(ctx, do)
		again := of != answered || state(err) == stateSerialization || state(err) == stateDeadlock
		if err == nil || !again || ctx.Err() != nil || try == tries {
			return err
		}
		db.log.WarnContext(ctx, "postgres: a statement is sent again", "schema", db.schema, "error", err)
	}
}

// write runs do in which a single statement or one transaction writes. It is
// tried again only if it is certain that nothing was written.
func (db *DB) write(ctx context.Context, do func(*pgx.Conn) error) error {
	_, err := db.send(ctx, false, do)
	return err
}

// repeat is write for what may be written twice. earlier says why the answer to
// a try before the last one was lost: then the last answer, even if it is a
// refusal, may be that of what was written already.
func (db *DB) repeat(ctx context.Context, do func(*pgx.Conn) error) (earlier, err error) {
	return db.send(ctx, true, do)
}

func (db *DB) send(ctx context.Context, repeatable bool, do func(*pgx.Conn) error) (earlier, err error) {
	for try := 1; ; try++ {
		of, err := db.with(ctx, do)
		again := of == unsent || of == lost && repeatable
		switch state(err) {
		case stateStale, stateSerialization, stateDeadlock:
			again = true
		}
		if err == nil || !again || ctx.Err() != nil || try == tries {
			if err != nil && (of == lost || earlier != nil) {
				err = fmt.Errorf("%w: %w", ErrOutcomeUnknown, errors.Join(earlier, err))
			}
			return earlier, err
		}
		if of == lost {
			earlier = err
		}
		if of != answered {
			db.log.WarnContext(ctx, "postgres: the connection broke, a statement is sent again", "schema", db.schema, "error", err)
		}
	}
}

// inTx runs do in a transaction, for what takes more than one statement.
func inTx(ctx context.Context, c *pgx.Conn, do func(pgx.Tx) error) error {
	committing := false
	err := pgx.BeginTxFunc(ctx, c, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		err := do(tx)
		committing = err == nil
		return err
	})
	if err != nil && !committing {
		return undoneError{err}
	}
	return err
}

// undoneError: a transaction ended before its commit was sent, so it is as if it
// had never been.
type undoneError struct{ error }

func (e undoneError) Unwrap() error { return e.error }

// SQLSTATEs that are told apart.
const (
	stateStale         = "TR001" // our own: see the functions
	stateSerialization = "40001"
	stateDeadlock      = "40P01"
	stateInvalid       = "22023"
	stateNoTable       = "42P01"
	stateNoSchema      = "3F000"
	stateNoRight       = "42501"
	stateCanceled      = "57014"
	stateShutdown      = "57P01"
	stateCrash         = "57P02"
	stateStarting      = "57P03"
	stateDiskFull      = "53100"
	stateReadOnly      = "25006" // a standby, after a failover

	classResources  = "53"
	classSystem     = "58"
	classConnection = "08"
)

// state is the SQLSTATE of an error of the server, or "".
func state(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}
