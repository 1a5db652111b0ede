package postgres

import (
	"context"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/budget"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/postgres/internal/database"
	"github.com/treadle-go/treadle/postgres/internal/items"
	rows "github.com/treadle-go/treadle/postgres/internal/ledger"
)

// Errors returned by a DB, in addition to those of package checkpoint.
var (
	// ErrClosed is returned when the DB is closed.
	ErrClosed = database.ErrClosed
	// ErrDamaged is returned when stored data is missing or unreadable.
	ErrDamaged = database.ErrDamaged
	// ErrOutcomeUnknown is returned when the connection breaks, or the context ends,
	// before the server confirms a write. The server has written everything or nothing; a
	// Get shows which. It matches [checkpoint.ErrUnavailable].
	ErrOutcomeUnknown = database.ErrOutcomeUnknown
	// ErrSchema is returned when the schema is missing, belongs to another program, or has
	// a version that this package does not support.
	ErrSchema = database.ErrSchema
)

// Options configures [Open] and [New]. A nil *Options means the defaults.
type Options struct {
	// Schema is the name of the schema that contains the tables and functions; empty
	// means "treadle".
	Schema string
	// Migrate makes Open and New call [DB.Migrate].
	Migrate bool
	// PoolerSafe avoids prepared statements and session locks. Set it behind a
	// transaction pooler, such as PgBouncer in transaction mode. With New, the pool must
	// use pgx.QueryExecModeCacheDescribe.
	PoolerSafe bool
	// MaxConns is the maximum number of connections of Open; 0 means the URL's
	// pool_max_conns or, if the URL does not set it, 8 or the number of CPUs, whichever is
	// greater. New rejects it, because the pool has its own limit.
	MaxConns int
	// Logger receives warnings that cannot be returned to a caller; nil means
	// slog.Default().
	Logger *slog.Logger
}

// A DB is a schema in a Postgres database. It is safe for concurrent use.
type DB struct {
	conn   *database.DB
	sql    statements
	known  known
	items  *items.Backend
	ledger ledger.Backend
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

// Open connects to the database at url, which may have any form that libpq accepts. It
// returns ErrSchema if the schema is missing or has another version, unless
// [Options].Migrate is set.
func Open(ctx context.Context, url string, opts *Options) (*DB, error) {
	b, err := database.Open(ctx, url, (*database.Options)(opts))
	if err != nil {
		return nil, err
	}
	return newDB(b), nil
}

// New returns a DB that uses an existing pool, which other code may use as well. Close the
// DB before the pool; closing the DB leaves the pool open. Like [Open], New returns
// ErrSchema if the schema is missing or has another version, unless [Options].Migrate is
// set.
//
// The pool's DefaultQueryExecMode must be pgx.QueryExecModeCacheStatement, which is the
// default of pgx, pgx.QueryExecModeCacheDescribe, or pgx.QueryExecModeDescribeExec. The
// connections can have any search_path, role, and transaction defaults that allow writing.
// The DB leaves no settings, locks, or open transactions in them. [DB.Bus] and
// [DB.Ledger] open a connection each outside the pool; BeforeConnect and AfterConnect of
// the pool apply to these connections, too.
//
// If a call's context ends, pgx closes the connection by default, and a write returns
// [ErrOutcomeUnknown]. Set BuildContextWatcherHandler in the pool's ConnConfig to a
// pgconn.CancelRequestContextWatcherHandler, as Open does, to give the statement a chance
// to finish and to keep the connection.
func New(ctx context.Context, pool *pgxpool.Pool, opts *Options) (*DB, error) {
	b, err := database.New(ctx, pool, (*database.Options)(opts))
	if err != nil {
		return nil, err
	}
	return newDB(b), nil
}

func newDB(b *database.DB) *DB {
	db := &DB{conn: b, sql: newStatements(b.In), items: items.New(b)}
	db.known.heads = budget.NewCache[lineName, *head](budget.New(ownMemory), memoryKind)
	db.ledger = rows.New(b, db.shareMemory)
	return db
}

// Close waits for calls that hold a connection, and closes all connections that the DB has
// opened. Other calls, including later ones, fail with ErrClosed. A pool passed to [New]
// stays open.
func (db *DB) Close() error {
	db.conn.Close()
	return nil
}

// Migrate creates the schema or updates it. The role must be allowed to create the schema
// or, if it exists, to create tables in it. Migrate does nothing if the schema is up to
// date. It returns ErrSchema if a later release has migrated the schema, or if the schema
// contains a table or function of the same name that is not Treadle's.
func (db *DB) Migrate(ctx context.Context) error { return db.conn.Migrate(ctx) }

// Migrations returns the SQL that creates a schema or updates it from any earlier
// version. The SQL is one transaction, which does nothing if the schema is up to date.
// [DB.Migrate] runs the same SQL; use Migrations if an administrator must run it. An
// empty name means the default schema. For an invalid name, the result is an SQL comment
// that reports the error.
func Migrations(schema string) string { return database.Migrations(schema) }
