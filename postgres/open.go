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

// Errors returned by a DB, in addition to those of package checkpoint.
var (
	// ErrClosed is returned when the DB is closed.
	ErrClosed = errors.New("postgres: the database is closed")
	// ErrDamaged is returned when stored data is missing or unreadable.
	ErrDamaged = errors.New("postgres: the data is damaged")
	// ErrOutcomeUnknown is returned when the connection breaks, or the context ends,
	// before the server confirms a write. The server has written everything or nothing; a
	// Get shows which. It matches [checkpoint.ErrUnavailable].
	ErrOutcomeUnknown error = unavailableError{errors.New("postgres: write outcome unknown"), nil}
	// ErrSchema is returned when the schema is missing or has a version that this package
	// does not support.
	ErrSchema = errors.New("postgres: the schema does not fit")
)

// Options configures [Open]. A nil *Options means the defaults.
type Options struct {
	// Schema is the name of the schema that contains the tables and functions; empty
	// means "treadle".
	Schema string
	// Migrate makes Open call [DB.Migrate].
	Migrate bool
	// PoolerSafe avoids prepared statements, session locks, and session settings. Set it
	// behind a transaction pooler, such as PgBouncer in transaction mode.
	PoolerSafe bool
	// MaxConns is the maximum number of connections; 0 means the URL's pool_max_conns or,
	// if the URL does not set it, 8 or the number of CPUs, whichever is greater.
	MaxConns int
	// Logger receives warnings that cannot be returned to a caller; nil discards them.
	Logger *slog.Logger
}

// A DB is a schema in a Postgres database. It is safe for concurrent use.
type DB struct {
	schema string // unquoted
	quoted string // quoted for use in SQL
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
	// attending counts the goroutines that use connections outside the pool. No goroutine
	// is added after closed is set; ending guards that check.
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
	// cancelAfter is the time that a statement may keep running after its context has
	// ended before the server is asked to cancel it. Most statements finish within this
	// time, so their outcome is known.
	cancelAfter = 50 * time.Millisecond
	// giveUpAfter is the time to wait for the server's response after the cancel request.
	giveUpAfter = 5 * time.Second
	// tries is the maximum number of attempts when the connection breaks or another
	// writer interferes.
	tries = 5
	// patience is the time to wait for a server that has become unreachable. The delay
	// between attempts grows from firstWait to lastWait.
	patience  = 10 * time.Second
	firstWait = 20 * time.Millisecond
	lastWait  = 500 * time.Millisecond
	// pingAfter is the idle time after which a connection is pinged before use.
	pingAfter = time.Second
	// usualConns is the minimum default for the number of connections. With 4, calls on a
	// busy server wait for a connection most of the time, and 16 are no faster than 8.
	usualConns = 8
)

// Open connects to the database at url, which may have any form that libpq accepts. It
// returns ErrSchema if the schema is missing or has another version, unless
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
		// Each call sends the statement unnamed. Only its type description is cached, in
		// this process.
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	config.ConnConfig.BuildContextWatcherHandler = func(pc *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: pc, CancelRequestDelay: cancelAfter, DeadlineDelay: cancelAfter + giveUpAfter}
	}
	config.ShouldPing = func(_ context.Context, p pgxpool.ShouldPingParams) bool {
		// Unread input on an idle connection most likely means that the server has closed
		// the connection.
		return p.IdleDuration > pingAfter || spoken(p.Conn.PgConn().Conn())
	}
	if _, given := config.ConnConfig.RuntimeParams[idleInTransaction]; !given && !o.PoolerSafe {
		config.AfterConnect = limitTransactions
	}
	// The pool outlives ctx, which bounds only the opening.
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

// poolConfig returns the pool configuration for url. If conns is not 0, it sets the
// maximum number of connections.
func poolConfig(url string, conns int) (*pgxpool.Config, error) {
	if strings.Contains(url, "://") {
		if _, err := dburl.Parse(url); err != nil { // unlike pgx, never includes part of the password in its error
			return nil, err
		}
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	said, err := pgx.ParseConfig(url) // keeps the pool settings in RuntimeParams
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

// quoteSchema returns a schema name quoted for SQL.
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

// A fate is the known outcome of sending a statement.
type fate int

const (
	answered fate = iota // the server responded, or no connection was available
	unsent               // the connection broke before anything was executed
	lost                 // the connection broke, and the outcome is unknown
)

// with calls do with a connection from the pool.
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

// unable reports whether a SQLSTATE means that the server is temporarily unable to work:
// it lacks resources, is shutting down, starting, or a standby, or cannot use its disk.
func unable(state string) bool {
	switch state {
	case stateReadOnly, stateShutdown, stateCrash, stateStarting:
		return true
	}
	return strings.HasPrefix(state, classResources) || strings.HasPrefix(state, classSystem) || strings.HasPrefix(state, classConnection)
}

// unavailableError is an error that matches [checkpoint.ErrUnavailable] and, if errno is
// not nil, errno.
type unavailableError struct {
	error
	errno error
}

// Is reports whether e matches target.
func (e unavailableError) Is(target error) bool {
	return target == checkpoint.ErrUnavailable || e.errno != nil && target == e.errno
}

// Unwrap returns the cause.
func (e unavailableError) Unwrap() error { return e.error }

// acquire takes a connection from the pool. It waits for a restarting server, which is
// safe because nothing has been sent yet.
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

// restarting reports whether err means that the server is temporarily down.
func restarting(err error) bool {
	if _, ok := errors.AsType[*pgconn.ConnectError](err); !ok {
		return false
	}
	switch state(err) {
	case stateShutdown, stateCrash, stateStarting:
		return true
	}
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.ENOENT) || // no socket file
		errors.Is(err, io.ErrUnexpectedEOF) // the server crashed during the connection handshake
}

// read calls do and retries it if the connection breaks. The function do must be
// read-only or idempotent.
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

// write calls do, which writes with a single statement or transaction. It retries only if
// nothing was written for certain.
func (db *DB) write(ctx context.Context, do func(*pgx.Conn) error) error {
	_, err := db.send(ctx, false, do)
	return err
}

// repeat is like write, but for idempotent writes. If the response to an attempt before
// the last one was lost, earlier is the reason. The last response, even a rejection, may
// then be due to the write having already happened.
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

// inTx calls do in a transaction, for work that takes more than one statement.
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

// undoneError reports a transaction that ended before its commit was sent, so it had no
// effect.
type undoneError struct{ error }

func (e undoneError) Unwrap() error { return e.error }

// SQLSTATEs that receive special treatment.
const (
	stateStale         = "TR001" // raised by our own functions
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

// state returns the SQLSTATE of a server error, or "".
func state(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}
