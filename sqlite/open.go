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

// Errors of a DB, in addition to those of package checkpoint.
var (
	// ErrClosed says that the DB was closed.
	ErrClosed = errors.New("sqlite: the database is closed")
	// ErrDamaged says that stored data is missing or was changed. The error names the
	// thread or the key.
	ErrDamaged = errors.New("sqlite: the file is damaged")
)

// Options configure [Open]. The zero value and nil are the defaults.
type Options struct {
	// PowerSafe makes each commit wait for the disk (synchronous=FULL), so that a
	// power failure loses no commit. Each commit then needs an fsync.
	PowerSafe bool
	// Check makes Open read the whole file and fail with ErrDamaged if data is missing
	// or was changed. Data is also checked whenever it is read; the package
	// documentation says which damage that does not find.
	Check bool
	// Logger receives warnings that cannot be returned to a caller, and the progress of
	// building an index; nil discards them.
	Logger *slog.Logger
}

// DB is an SQLite file. It is safe for concurrent use.
type DB struct {
	path string
	log  *slog.Logger

	// Whoever holds a connection has it for itself. In memory there is one
	// connection for both: the database is the connection.
	writer  chan *conn
	readers chan *conn

	closing   chan struct{}
	closeOnce sync.Once
	closeErr  error

	uncut     atomic.Bool // the log has what was erased
	hasLedger atomic.Bool // the tables of the ledger are there

	queue   queue
	back    writingBack
	crowded bool                        // the last transaction had several jobs; whoever holds the writer may use it
	known   known                       // what the holder of the writer remembers
	shapes  saved.Memo[int64, []string] // the names of those that readers have met
	backend *backend                    // of the stores
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
	// lockWait is how long one waits for another process that has the lock, unless
	// the context ends before.
	lockWait = 10 * time.Second
	// lockTry is how long one try for the lock takes. SQLite cannot be woken
	// while it waits, so contexts are looked at in between.
	lockTry = 50 * time.Millisecond
	// readerCount is how many reads go on at a time.
	readerCount = 4
)

// Open opens the file at path, or creates it in an existing directory. The path
// ":memory:" is a new database in memory, which ends with Close.
func Open(path string, o *Options) (*DB, error) {
	if o == nil {
		o = &Options{}
	}
	if m := scheme.FindStringSubmatch(path); m != nil {
		// The rest is left out of the error: the URL of another database can contain a password.
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
				// The file is not mapped into memory: SQLite maps it anew after every
				// commit of others, which costs a search that follows one a fifth
				// more than the copies of pages it saves.
				"PRAGMA cache_size=-16384",
			}}
		}
	}
	return nil
}

// setUp makes the file ready to be used. A file that is refused is not changed.
func (c *conn) setUp(isFile bool) error {
	// Settings are made with a look at the file, which another process may be
	// recovering after a crash.
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

// usable says what is wrong with a path where SQLite would only say that it
// cannot open it, or would open it and fail at the first write.
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
	// The file must not be opened and closed to find out: that would take away the
	// locks that this process may have on it.
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

// usableDir says whether files can be made in a directory.
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

// fileURI spells a path so that nothing in it is taken for an option.
func fileURI(abs string) string {
	p := filepath.ToSlash(abs)
	if !strings.HasPrefix(p, "/") {
		p = "/" + p
	}
	return (&url.URL{Scheme: "file", Path: p, RawQuery: "mode=rwc"}).String()
}

// The primary result codes of SQLite that are told apart.
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

// code is the primary result code of an error of SQLite, or 0.
func code(err error) int {
	if e, ok := errors.AsType[*modernc.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// explain adds to an error of SQLite at Open what it means.
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

// marked adds to a SQLite error what callers act on: [ErrDamaged] for a damaged file, and
// [checkpoint.ErrUnavailable] for a file that cannot be read or written right now. A full
// disk also matches [syscall.ENOSPC].
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

// Close waits for running calls and closes the file. Later calls, and those that wait
// for the file's lock, fail with ErrClosed.
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

// read runs do in a transaction that sees one state of the file.
func (db *DB) read(ctx context.Context, do func(*conn) error) error {
	return db.readOnce(ctx, inTransaction(do))
}

// inTransaction is do with all that it reads from one state of the file.
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

// readOnce is read for a single statement, which sees one state by itself.
func (db *DB) readOnce(ctx context.Context, do func(*conn) error) error {
	return db.readOn(ctx, nil, do)
}

// readWarm is read for a few rows that were probably written a moment ago. If nobody
// writes, it takes the writer's connection: that has these pages in memory, and the
// others must read them from the log after every commit.
func (db *DB) readWarm(ctx context.Context, do func(*conn) error) error {
	return db.readOn(ctx, db.writer, inTransaction(do))
}

// readOn runs do on a connection of first, if one is free, or of the readers.
func (db *DB) readOn(ctx context.Context, first chan *conn, do func(*conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select { // a closed database says so, whatever else is ready
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
	// A lock is in the way of the first statement or of none, so nothing is done
	// twice.
	return marked(c.patiently(ctx, func() error {
		if err := c.ready(); err != nil {
			return err
		}
		return do(c)
	}))
}

// conn is a connection and what is prepared on it, for one goroutine at a time.
// There are few of them, they live as long as the database, and each statement
// runs many times, so the pool of database/sql has nothing to add.
//
// Statements run without the caller's context: the driver gives up a connection
// that was interrupted. Callers give up while they wait for a connection and
// between statements.
type conn struct {
	connector driver.Connector
	setup     []string
	raw       driver.Conn // nil until it is first needed
	stmts     map[string]*stmt
	args      []driver.NamedValue // of the statement that runs
	dirty     bool                // something was written since it was last set to false
	summed    bool                // all rows of the file have a checksum
	writes    bool                // it is the writer's; the rest is for that
	version   int64               // see look
	data      uint32              // SQLite's number of the state that version is of
	ledger    keptRows
}

type stmt struct {
	driver.Stmt
	row []driver.Value
}

// ready connects if that has not happened.
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

// script runs statements that are needed once and have no arguments.
func (c *conn) script(text string) error {
	_, err := c.raw.(driver.ExecerContext).ExecContext(context.Background(), text, nil)
	return err
}

// walMode turns the file to WAL, which lasts. Two processes that make the file
// at the same time are in each other's way for a moment.
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

// patiently tries again while another process has the lock, until the context
// ends. A try takes up to lockTry, in which SQLite waits.
func (c *conn) patiently(ctx context.Context, try func() error) error {
	if err := try(); !isBusy(err) { // mostly
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
		// There are locks that SQLite does not wait for.
		if delay.For(ctx, max(0, lockTry/10-time.Since(begun))) != nil {
			return fmt.Errorf("sqlite: another process has the lock: %w: %w", context.Cause(ctx), err)
		}
	}
}

// isBusy reports whether somebody else has the lock.
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

// bind makes arguments as the driver wants them.
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

// exec runs a statement and returns how many rows it changed.
func (c *conn) exec(query string, args ...any) (int64, error) {
	res, err := c.run(query, args)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// change is exec of a statement that writes.
func (c *conn) change(query string, args ...any) (int64, error) {
	n, err := c.exec(query, args...)
	if n > 0 || err != nil {
		c.dirty = true
	}
	return n, err
}

// insert is change for a row whose id is wanted.
func (c *conn) insert(query string, args ...any) (int64, error) {
	c.dirty = true
	res, err := c.run(query, args)
	if err != nil {
		return 0, err
	}
	return res.LastInsertId()
}

// row scans the first row of a query and reports whether there is one.
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

// each calls do for every row of a query, and stops at an error; do must not run the
// same query. Bytes that are scanned are the caller's own.
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

// assign stores a value of the database where dest points; NULL is a zero.
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
