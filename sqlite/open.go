package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	modernc "modernc.org/sqlite"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/budget"
	"github.com/treadle-go/treadle/internal/delay"
	"github.com/treadle-go/treadle/internal/saved"
)

// Errors returned by a DB, in addition to those of package checkpoint.
var (
	// ErrClosed is returned when the DB is closed.
	ErrClosed = errors.New("sqlite: the database is closed")
	// ErrDamaged is returned when stored data is missing or was changed. The error names
	// the thread or key.
	ErrDamaged = errors.New("sqlite: the file is damaged")
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
	// building an index; nil discards them.
	Logger *slog.Logger
}

// A DB is an SQLite file. It is safe for concurrent use.
type DB struct {
	path string
	log  *slog.Logger

	// A goroutine that takes a connection from these channels uses it exclusively. For an
	// in-memory database, both are the same channel with one connection: the connection
	// is the database.
	writer  chan *conn
	readers chan *conn

	closing   chan struct{}
	closeOnce sync.Once
	closeErr  error

	uncut     atomic.Bool // the log contains erased data
	hasLedger atomic.Bool // the ledger's tables exist

	queue   queue
	back    writingBack
	crowded bool                        // the last transaction had several jobs; used by the holder of the writer
	known   known                       // cache of the holder of the writer
	shapes  saved.Memo[int64, []string] // shape names cached by readers
	backend *backend                    // backend of the stores
	rows    *budget.Cache[ledgerKey, *ledgerRow]
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

const (
	inMemory = ":memory:"
	// lockWait is the maximum time to wait for another process's lock, unless the context
	// ends earlier.
	lockWait = 10 * time.Second
	// lockTry is the duration of one attempt to take the lock. SQLite cannot be
	// interrupted while it waits, so contexts are checked between attempts.
	lockTry = 50 * time.Millisecond
	// readerCount is the maximum number of concurrent reads.
	readerCount = 4
)

// Open opens the file at path, or creates it in an existing directory. The path
// ":memory:" opens a new in-memory database, which is discarded by Close.
func Open(path string, o *Options) (*DB, error) {
	if o == nil {
		o = &Options{}
	}
	if m := scheme.FindStringSubmatch(path); m != nil {
		// The error omits the rest of the URL, because it may contain a password.
		return nil, fmt.Errorf("sqlite: open: unsupported scheme %q: want a file name", m[0])
	}
	db := &DB{path: path, log: o.Logger, closing: make(chan struct{}), back: writingBack{busy: make(chan struct{}, 1), pause: backPause}}
	if db.log == nil {
		db.log = slog.New(slog.DiscardHandler)
	}
	db.backend = newBackend(db)
	own := budget.New(ownMemory)
	db.known.heads, db.rows = budget.NewCache[lineName, *head](own, memoryKind), budget.NewCache[ledgerKey, *ledgerRow](own, memoryKind)
	if err := db.open(o); err != nil {
		return nil, fmt.Errorf("sqlite: open %s: %w", path, errors.Join(err, db.Close()))
	}
	return db, nil
}

// scheme matches the start of a URL.
var scheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://`)

func (db *DB) open(o *Options) error {
	dsn := inMemory
	if db.path != inMemory {
		if err := usable(db.path); err != nil {
			return err
		}
		abs, err := filepath.Abs(db.path)
		if err != nil {
			return err
		}
		dsn = fileURI(abs)
	}
	connector, err := modernc.NewConnector(dsn)
	if err != nil {
		return err
	}
	sync := "NORMAL"
	if o.PowerSafe {
		sync = "FULL"
	}
	w := &conn{connector: connector, writes: true, version: 1, setup: []string{
		fmt.Sprintf("PRAGMA busy_timeout=%d", lockTry.Milliseconds()),
		"PRAGMA synchronous=" + sync,
		"PRAGMA cache_size=-65536",
		"PRAGMA temp_store=MEMORY",
		"PRAGMA secure_delete=ON", // see erase.go
		fmt.Sprintf("PRAGMA wal_autocheckpoint=%d", logMost),
	}}
	w.ledger.rows = db.rows
	db.writer = make(chan *conn, 1)
	db.writer <- w
	if err := w.setUp(db.path != inMemory); err != nil {
		return explain(err)
	}
	ok, err := w.row("SELECT summed FROM meta", nil, &w.summed)
	if err == nil && !ok {
		err = fmt.Errorf("%w: the record of which rows have a checksum is missing", ErrDamaged)
	}
	if err == nil {
		err = w.distinct()
	}
	if err == nil && o.Check {
		err = w.check()
	}
	if err != nil {
		return explain(err)
	}
	if db.path == inMemory {
		db.readers = db.writer
	} else {
		db.readers = make(chan *conn, readerCount)
		for range readerCount {
			db.readers <- &conn{connector: connector, summed: w.summed, setup: []string{
				fmt.Sprintf("PRAGMA busy_timeout=%d", lockTry.Milliseconds()),
				"PRAGMA query_only=1",
				// The file is not memory-mapped: SQLite maps it again after every commit
				// by another connection, which slows down the next search by a fifth,
				// more than the avoided page copies save.
				"PRAGMA cache_size=-16384",
			}}
		}
	}
	return nil
}

// setUp prepares the file for use. A rejected file is not changed.
func (c *conn) setUp(isFile bool) error {
	// Applying the settings reads the file, which another process may be recovering after
	// a crash.
	if err := c.patiently(context.Background(), c.ready); err != nil {
		return err
	}
	current, err := c.isCurrent()
	if err != nil {
		return err
	}
	if isFile {
		if err := c.walMode(); err != nil {
			return err
		}
	}
	if current {
		return nil
	}
	return c.migrate()
}

// usable reports problems with a path for which SQLite would only report that it cannot
// open the file, or would open it and fail at the first write.
func usable(path string) error {
	if path == "" {
		return errors.New("the path is empty")
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return usableDir(filepath.Dir(path))
	case err != nil:
		return err
	case info.IsDir():
		return errors.New("it is a directory")
	case !info.Mode().IsRegular():
		return fmt.Errorf("it is not a regular file (%s)", info.Mode().Type())
	case info.Mode().Perm()&0o222 == 0:
		return errors.New("the file is read-only")
	}
	// The file must not be opened and closed for this check: closing it would release any
	// locks that this process holds on it.
	if err := writable(path); err != nil {
		return fmt.Errorf("the file cannot be written: %w", err)
	}
	for _, beside := range []string{"-wal", "-shm"} {
		switch err := writable(path + beside); {
		case errors.Is(err, fs.ErrNotExist):
			if err := usableDir(filepath.Dir(path)); err != nil {
				return err
			}
		case err != nil:
			return fmt.Errorf("the file %s beside it cannot be written: %w", filepath.Base(path)+beside, err)
		}
	}
	return nil
}

// usableDir returns an error if files cannot be created in a directory.
func usableDir(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return fmt.Errorf("its directory: %w", err)
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory", dir)
	}
	if err := writable(dir); err != nil {
		return fmt.Errorf("its directory %s cannot be written, and SQLite makes files there: %w", dir, err)
	}
	return nil
}

// fileURI converts a path to a URI in which no part of the path is taken for an option.
func fileURI(abs string) string {
	p := filepath.ToSlash(abs)
	if !strings.HasPrefix(p, "/") {
		p = "/" + p
	}
	return (&url.URL{Scheme: "file", Path: p, RawQuery: "mode=rwc"}).String()
}

// SQLite primary result codes that receive special treatment.
const (
	codeBusy     = 5
	codeLocked   = 6
	codeReadOnly = 8
	codeIO       = 10
	codeCorrupt  = 11
	codeFull     = 13
	codeCantOpen = 14
	codeNotADB   = 26
)

// code returns the primary result code of an SQLite error, or 0.
func code(err error) int {
	if e, ok := errors.AsType[*modernc.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// explain adds an explanation to an SQLite error returned by Open.
func explain(err error) error {
	switch code(err) {
	case codeNotADB:
		return fmt.Errorf("it is not a SQLite database: %w", err)
	case codeCorrupt:
		return marked(err)
	case codeFull:
		return fmt.Errorf("the disk is full: %w", err)
	case codeIO:
		return fmt.Errorf("the disk is full, or it cannot be read or written: %w", err)
	case codeReadOnly:
		return fmt.Errorf("the file is read-only: %w", err)
	case codeCantOpen:
		return fmt.Errorf("the file cannot be opened or made: %w", err)
	}
	return err
}

// marked makes an SQLite error match the errors that callers act on: [ErrDamaged] for a
// damaged file, and [checkpoint.ErrUnavailable] for a file that currently cannot be read
// or written. A full disk also matches [syscall.ENOSPC].
func marked(err error) error {
	switch code(err) {
	case codeCorrupt, codeNotADB:
		if !errors.Is(err, ErrDamaged) {
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
	case codeFull:
		return unavailableError{fmt.Errorf("sqlite: disk full: %w", err), syscall.ENOSPC}
	case codeIO, codeCantOpen, codeBusy, codeLocked:
		return unavailableError{err, nil}
	}
	return err
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

// Close waits for running calls and closes the file. Later calls, and calls that wait for
// the file's lock, fail with ErrClosed.
func (db *DB) Close() error {
	db.closeOnce.Do(func() {
		close(db.closing)
		var errs []error
		take := func(from chan *conn, n int) {
			for range n {
				errs = append(errs, (<-from).close())
			}
		}
		if db.readers != nil && db.readers != db.writer {
			take(db.readers, cap(db.readers))
		}
		if db.writer != nil {
			take(db.writer, 1)
		}
		db.closeErr = errors.Join(errs...)
	})
	return db.closeErr
}

// read calls do in a transaction that sees one snapshot of the file.
func (db *DB) read(ctx context.Context, do func(*conn) error) error {
	return db.readOnce(ctx, inTransaction(do))
}

// inTransaction wraps do in a transaction, so all its reads see one snapshot of the file.
func inTransaction(do func(*conn) error) func(*conn) error {
	return func(c *conn) (err error) {
		if _, err := c.exec("BEGIN"); err != nil {
			return err
		}
		defer func() {
			if _, e := c.exec("ROLLBACK"); err == nil {
				err = e
			}
		}()
		return do(c)
	}
}

// readOnce is like read, but for a single statement, which sees one snapshot by itself.
func (db *DB) readOnce(ctx context.Context, do func(*conn) error) error {
	return db.readOn(ctx, nil, do)
}

// readWarm is like read, but for a few rows that were probably written recently. If the
// writer's connection is free, readWarm uses it, because it has these pages in memory,
// whereas the other connections must read them from the log after every commit.
func (db *DB) readWarm(ctx context.Context, do func(*conn) error) error {
	return db.readOn(ctx, db.writer, inTransaction(do))
}

// readOn calls do with a connection from first, if one is free, or else from the readers.
func (db *DB) readOn(ctx context.Context, first chan *conn, do func(*conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select { // report a closed database first, whatever else is ready
	case <-db.closing:
		return ErrClosed
	default:
	}
	var c *conn
	from := first
	select {
	case c = <-first:
	default:
		from = db.readers
		select {
		case c = <-db.readers:
		case <-ctx.Done():
			return ctx.Err()
		case <-db.closing:
			return ErrClosed
		}
	}
	defer func() { from <- c }()
	// A lock can block only the first statement, so nothing is executed twice.
	return marked(c.patiently(ctx, func() error {
		if err := c.ready(); err != nil {
			return err
		}
		return do(c)
	}))
}

// A conn is a connection with its prepared statements. Only one goroutine may use it at a
// time. There are few connections, they live as long as the database, and each statement
// runs many times, so the pool of database/sql would add nothing.
//
// Statements run without the caller's context, because the driver abandons an interrupted
// connection. Callers check their contexts while they wait for a connection and between
// statements.
type conn struct {
	connector driver.Connector
	setup     []string
	raw       driver.Conn // nil until first needed
	stmts     map[string]*stmt
	args      []driver.NamedValue // arguments of the running statement
	dirty     bool                // something was written since this was last set to false
	summed    bool                // all rows of the file have a checksum
	writes    bool                // this is the writer's connection; the fields below are for it only
	version   int64               // see look
	data      uint32              // SQLite's data version of the state that version refers to
	ledger    keptRows
}

type stmt struct {
	driver.Stmt
	row []driver.Value
}

// ready opens the connection if it is not open.
func (c *conn) ready() (err error) {
	if c.raw != nil {
		return nil
	}
	if c.raw, err = c.connector.Connect(context.Background()); err != nil {
		return err
	}
	c.stmts = map[string]*stmt{}
	for _, q := range c.setup {
		if err := c.script(q); err != nil {
			return errors.Join(err, c.close())
		}
	}
	return nil
}

func (c *conn) close() error {
	if c.raw == nil {
		return nil
	}
	var errs []error
	for _, s := range c.stmts {
		errs = append(errs, s.Close())
	}
	errs = append(errs, c.raw.Close())
	c.raw, c.stmts = nil, nil
	return errors.Join(errs...)
}

// script runs statements that have no arguments and run only once.
func (c *conn) script(text string) error {
	_, err := c.raw.(driver.ExecerContext).ExecContext(context.Background(), text, nil)
	return err
}

// walMode switches the file to WAL mode, which is persistent. Two processes that create
// the file at the same time briefly block each other.
func (c *conn) walMode() error {
	return c.patiently(context.Background(), func() error {
		var mode string
		if _, err := c.row("PRAGMA journal_mode=WAL", nil, &mode); err != nil {
			return err
		}
		if !strings.EqualFold(mode, "wal") {
			return fmt.Errorf("the file system does not support WAL, which needs shared memory; the journal mode is %q", mode)
		}
		return nil
	})
}

// patiently retries try while another process holds the lock, until the context ends.
// SQLite waits for up to lockTry in each attempt.
func (c *conn) patiently(ctx context.Context, try func() error) error {
	if err := try(); !isBusy(err) { // the usual case
		return err
	}
	for start := time.Now(); ; {
		begun := time.Now()
		err := try()
		if !isBusy(err) {
			return err
		}
		if time.Since(start) > lockWait {
			return fmt.Errorf("sqlite: another process has kept the lock for %s: %w", lockWait, err)
		}
		// SQLite does not wait for some locks.
		if delay.For(ctx, max(0, lockTry/10-time.Since(begun))) != nil {
			return fmt.Errorf("sqlite: another process has the lock: %w: %w", context.Cause(ctx), err)
		}
	}
}

// isBusy reports whether err means that another connection holds the lock.
func isBusy(err error) bool {
	k := code(err)
	return k == codeBusy || k == codeLocked
}

func (c *conn) prepare(query string) (*stmt, error) {
	if s := c.stmts[query]; s != nil {
		return s, nil
	}
	raw, err := c.raw.(driver.ConnPrepareContext).PrepareContext(context.Background(), query)
	if err != nil {
		return nil, fmt.Errorf("%w (%s)", err, query)
	}
	s := &stmt{Stmt: raw}
	c.stmts[query] = s
	return s, nil
}

// bind converts arguments to the driver's form.
func (c *conn) bind(args []any) []driver.NamedValue {
	c.args = c.args[:0]
	for i, a := range args {
		if n, ok := a.(int); ok {
			a = int64(n)
		}
		c.args = append(c.args, driver.NamedValue{Ordinal: i + 1, Value: a})
	}
	return c.args
}

func (c *conn) run(query string, args []any) (driver.Result, error) {
	s, err := c.prepare(query)
	if err != nil {
		return nil, err
	}
	return s.Stmt.(driver.StmtExecContext).ExecContext(context.Background(), c.bind(args))
}

// exec runs a statement and returns the number of changed rows.
func (c *conn) exec(query string, args ...any) (int64, error) {
	res, err := c.run(query, args)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// change is like exec, but for statements that write.
func (c *conn) change(query string, args ...any) (int64, error) {
	n, err := c.exec(query, args...)
	if n > 0 || err != nil {
		c.dirty = true
	}
	return n, err
}

// insert is like change, but returns the ID of the inserted row.
func (c *conn) insert(query string, args ...any) (int64, error) {
	c.dirty = true
	res, err := c.run(query, args)
	if err != nil {
		return 0, err
	}
	return res.LastInsertId()
}

// row scans the first row of a query and reports whether it exists.
func (c *conn) row(query string, args []any, dest ...any) (found bool, err error) {
	err = c.each(query, args, func(scan func(...any) error) error {
		found = true
		if err := scan(dest...); err != nil {
			return err
		}
		return io.EOF
	})
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return found && err == nil, err
}

// each calls do for every row of a query and stops at the first error; do must not run
// the same query. The caller owns the scanned bytes.
func (c *conn) each(query string, args []any, do func(scan func(...any) error) error) (err error) {
	s, err := c.prepare(query)
	if err != nil {
		return err
	}
	rows, err := s.Stmt.(driver.StmtQueryContext).QueryContext(context.Background(), c.bind(args))
	if err != nil {
		return err
	}
	defer func() {
		if e := rows.Close(); err == nil {
			err = e
		}
	}()
	if s.row == nil {
		s.row = make([]driver.Value, len(rows.Columns()))
	}
	scan := func(dest ...any) error {
		for i, d := range dest {
			if err := assign(d, s.row[i]); err != nil {
				return fmt.Errorf("%w: column %d of %s: %w", ErrDamaged, i, query, err)
			}
		}
		return nil
	}
	for {
		switch err := rows.Next(s.row); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := do(scan); err != nil {
			return err
		}
	}
}

// assign stores a database value in the variable that dest points to. NULL becomes the
// zero value.
func assign(dest any, v driver.Value) error {
	number, isNumber := v.(int64)
	raw, isBytes := v.([]byte)
	text, isText := v.(string)
	ok := v == nil
	switch d := dest.(type) {
	case *int64:
		*d, ok = number, ok || isNumber
	case *uint64:
		*d, ok = uint64(number), ok || isNumber
	case *int:
		*d, ok = int(number), ok || isNumber
	case *bool:
		*d, ok = number != 0, ok || isNumber
	case *[]byte:
		*d, ok = raw, ok || isBytes
	case *checkpoint.ID:
		ok = ok || isBytes && len(raw) == len(d)
		copy(d[:], raw)
	case *sum:
		*d, ok = sum{number, isNumber}, ok || isNumber
	case *checkpoint.WriteKind:
		*d, ok = checkpoint.WriteKind(raw), ok || isBytes
	case *string:
		*d, ok = text+string(raw), ok || isBytes || isText
	default:
		return fmt.Errorf("no way to store into %T", dest)
	}
	if !ok {
		return fmt.Errorf("it has %T for %T", v, dest)
	}
	return nil
}
