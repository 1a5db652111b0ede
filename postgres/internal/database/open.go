package database

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/treadle-go/treadle/internal/dburl"
)

// Options has the fields of postgres.Options, which documents them.
type Options struct {
	Schema     string
	Migrate    bool
	PoolerSafe bool
	MaxConns   int
	Logger     *slog.Logger
}

// A DB is a schema in a Postgres database. It is safe for concurrent use.
type DB struct {
	Schema     string // unquoted
	Quoted     string // quoted for use in SQL
	PoolerSafe bool
	Log        *slog.Logger
	Pool       *pgxpool.Pool
	// scripts are the package's scripts, or others in tests of migrations.
	scripts []string
	// ownsPool is set if Open has created the pool.
	ownsPool bool
	opened   atomic.Bool // Open or New has succeeded
	// life ends when the DB is closed, by calling end.
	life context.Context
	end  context.CancelFunc
	// running counts the calls that hold a connection and the goroutines that use
	// connections outside the pool. None is added after life has ended; ending guards that
	// check.
	running sync.WaitGroup
	ending  sync.Mutex
}

const (
	defaultSchema = "treadle"
	// usualConns is the minimum default for the number of connections. With 4, calls on a
	// busy server wait for a connection most of the time, and 16 are no faster than 8.
	usualConns = 8
)

// Open connects to the database at url.
func Open(ctx context.Context, url string, opts *Options) (*DB, error) {
	if opts == nil {
		opts = &Options{}
	}
	config, err := poolConfig(url, opts)
	if err != nil {
		return nil, fmt.Errorf("postgres: open: %w", err)
	}
	// The pool outlives ctx, which bounds only the opening.
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), config)
	if err != nil {
		return nil, fmt.Errorf("postgres: open: %w", err)
	}
	db, err := openOnPool(ctx, pool, true, opts)
	if err != nil {
		pool.Close()
		return nil, opError{"open", err}
	}
	return db, nil
}

// New returns a DB that uses an existing pool.
func New(ctx context.Context, pool *pgxpool.Pool, opts *Options) (*DB, error) {
	if opts == nil {
		opts = &Options{}
	}
	if pool == nil {
		return nil, errors.New("postgres: new: nil pool")
	}
	if opts.MaxConns != 0 {
		return nil, errors.New("postgres: new: Options.MaxConns applies only to Open: set MaxConns in the pgxpool.Config of the pool")
	}
	if err := checkPool(pool.Config().ConnConfig, opts.PoolerSafe); err != nil {
		return nil, fmt.Errorf("postgres: new: %w", err)
	}
	db, err := openOnPool(ctx, pool, false, opts)
	if err != nil {
		return nil, opError{"new", err}
	}
	return db, nil
}

// openOnPool returns a DB after it has checked or migrated the schema.
func openOnPool(ctx context.Context, pool *pgxpool.Pool, ownsPool bool, opts *Options) (*DB, error) {
	db := &DB{Schema: opts.Schema, PoolerSafe: opts.PoolerSafe, Log: opts.Logger, Pool: pool, ownsPool: ownsPool, scripts: scripts}
	if db.Schema == "" {
		db.Schema = defaultSchema
	}
	if db.Log == nil {
		db.Log = slog.Default()
	}
	var err error
	if db.Quoted, err = quoteSchema(db.Schema); err != nil {
		return nil, err
	}
	db.life, db.end = context.WithCancel(context.Background())
	if err := db.checkOrMigrate(ctx, opts.Migrate); err != nil {
		db.end()
		return nil, err
	}
	db.opened.Store(true)
	return db, nil
}

func (db *DB) checkOrMigrate(ctx context.Context, migrate bool) error {
	if migrate {
		return db.Migrate(ctx)
	}
	version, err := db.version(ctx)
	if err != nil {
		return err
	}
	return db.checkVersion(version)
}

// poolConfig returns the pool configuration for url.
func poolConfig(url string, opts *Options) (*pgxpool.Config, error) {
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
	case opts.MaxConns > 0:
		config.MaxConns = int32(min(opts.MaxConns, 1<<20))
	case !ok:
		config.MaxConns = max(config.MaxConns, usualConns)
	}
	conn := config.ConnConfig
	conn.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
	if opts.PoolerSafe {
		// Each call sends the statement unnamed. Only its type description is cached, in
		// this process.
		conn.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	conn.BuildContextWatcherHandler = func(pc *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: pc, CancelRequestDelay: cancelAfter, DeadlineDelay: cancelAfter + giveUpAfter}
	}
	return config, checkPool(conn, opts.PoolerSafe)
}

// checkPool returns an error if a DB cannot use connections with this configuration. A
// connection's mode cannot be changed, and a batch cannot override it.
func checkPool(config *pgx.ConnConfig, poolerSafe bool) error {
	const setMode = "set DefaultQueryExecMode in the pool's ConnConfig to "
	switch mode := config.DefaultQueryExecMode; {
	case poolerSafe && mode != pgx.QueryExecModeCacheDescribe:
		return fmt.Errorf("query exec mode %q with Options.PoolerSafe: %spgx.QueryExecModeCacheDescribe", mode, setMode)
	case mode != pgx.QueryExecModeCacheStatement && mode != pgx.QueryExecModeCacheDescribe && mode != pgx.QueryExecModeDescribeExec:
		return fmt.Errorf("unsupported query exec mode %q: %spgx.QueryExecModeCacheStatement or, behind a transaction pooler, pgx.QueryExecModeCacheDescribe", mode, setMode)
	case mode == pgx.QueryExecModeCacheStatement && config.StatementCacheCapacity <= 0:
		return errors.New("statement cache disabled: set StatementCacheCapacity in the pool's ConnConfig, or statement_cache_capacity in the URL, to at least 1")
	case config.DescriptionCacheCapacity <= 0: // some statements use it in every mode
		return errors.New("description cache disabled: set DescriptionCacheCapacity in the pool's ConnConfig, or description_cache_capacity in the URL, to at least 1")
	}
	return nil
}

// quoteSchema returns a schema name quoted for SQL.
func quoteSchema(name string) (string, error) {
	switch {
	case len(name) > 63:
		return "", fmt.Errorf("invalid schema name %q: longer than 63 bytes", name)
	case strings.HasPrefix(name, "pg_"):
		return "", fmt.Errorf("invalid schema name %q: prefix pg_ is reserved for Postgres", name)
	case !utf8.ValidString(name) || strings.ContainsAny(name, "\x00$"):
		return "", fmt.Errorf("invalid schema name %q: not UTF-8, or contains NUL or $", name)
	}
	return pgx.Identifier{name}.Sanitize(), nil
}

// Close waits for calls that hold a connection and for the goroutines of Start, and closes
// the pool if Open has created it. Other calls, including later ones, fail with
// ErrClosed.
func (db *DB) Close() {
	db.ending.Lock()
	db.end()
	db.ending.Unlock()
	db.running.Wait()
	if db.ownsPool {
		db.Pool.Close()
	}
}

// Closed reports whether Close was called.
func (db *DB) Closed() bool { return db.life.Err() != nil }

// Done returns a channel that Close closes.
func (db *DB) Done() <-chan struct{} { return db.life.Done() }

// enter counts a call in running. It reports false if the DB is closed.
func (db *DB) enter() bool {
	db.ending.Lock()
	defer db.ending.Unlock()
	if db.Closed() {
		return false
	}
	db.running.Add(1)
	return true
}

// Start starts goroutines that Close waits for; they must end when Done is closed. It
// reports false if the DB is closed.
func (db *DB) Start(all ...func()) bool {
	db.ending.Lock()
	defer db.ending.Unlock()
	if db.Closed() {
		return false
	}
	for _, do := range all {
		db.running.Go(do)
	}
	return true
}
