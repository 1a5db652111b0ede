package sqlite

import (
	"log/slog"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/budget"
	"github.com/treadle-go/treadle/internal/saved"
	"github.com/treadle-go/treadle/sqlite/internal/database"
	"github.com/treadle-go/treadle/sqlite/internal/items"
	rows "github.com/treadle-go/treadle/sqlite/internal/ledger"
)

// Errors returned by a DB, in addition to those of package checkpoint.
var (
	// ErrClosed is returned when the DB is closed.
	ErrClosed = database.ErrClosed
	// ErrDamaged is returned when stored data is missing or was changed. The error names
	// the thread or key.
	ErrDamaged = database.ErrDamaged
)

// Options configures [Open]. A nil *Options means the defaults.
type Options struct {
	// PowerSafe makes each commit wait for the disk (synchronous=FULL), so a power
	// failure loses no commit. Each commit then takes an fsync.
	PowerSafe bool
	// Check makes Open read the whole file and return ErrDamaged if data is missing or
	// was changed. Data is also checked whenever it is read; the package documentation
	// lists the damage that reading does not detect.
	Check bool
	// Logger receives warnings that cannot be returned to a caller, and the progress of
	// building an index; nil means [slog.Default].
	Logger *slog.Logger
}

// A DB is an SQLite file. It is safe for concurrent use.
type DB struct {
	conn   *database.DB
	known  known                       // cache of the holder of the writer's connection
	shapes saved.Memo[int64, []string] // shape names cached by readers
	items  *items.Backend
	ledger *rows.Backend
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
	_ checkpoint.Batcher      = (*DB)(nil)
)

// Open opens the file at path, or creates it in an existing directory. The path
// ":memory:" opens a new in-memory database, which is discarded by Close.
func Open(path string, opts *Options) (*DB, error) {
	if opts == nil {
		opts = &Options{}
	}
	db, own := &DB{}, budget.New(ownMemory)
	db.known.heads = budget.NewCache[lineName, *head](own, database.MemoryKind)
	o := &database.Options{PowerSafe: opts.PowerSafe, Logger: opts.Logger, Forget: db.forget}
	if opts.Check {
		o.Check = check
	}
	var err error
	if db.conn, err = database.Open(path, o); err != nil {
		return nil, err
	}
	db.items = items.New(db.conn)
	db.ledger = rows.New(db.conn, own, db.shareMemory)
	return db, nil
}

// Close waits for running calls and closes the file. Later calls, and calls that wait for
// the file's lock, fail with ErrClosed.
func (db *DB) Close() error { return db.conn.Close() }

// forget clears the caches of the holder of the writer's connection.
func (db *DB) forget() {
	db.known.forget()
	db.items.Forget()
	db.ledger.Forget()
}
