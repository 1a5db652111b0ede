package database

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	modernc "modernc.org/sqlite"
)

// A DB is an SQLite file. It is safe for concurrent use.
type DB struct {
	Path string
	Log  *slog.Logger

	// A goroutine that takes a connection from these channels uses it exclusively. For an
	// in-memory database, both are the same channel with one connection: the connection
	// is the database.
	Writer  chan *Conn
	Readers chan *Conn

	Closing   chan struct{} // closed by Close
	closeOnce sync.Once
	closeErr  error

	// Edits counts the writes other than those of WriteKeeping. Only the holder of the
	// writer's connection may use it.
	Edits int64

	forget  func()
	uncut   atomic.Bool // the log contains erased data
	queue   queue
	back    writingBack
	crowded bool // the last transaction had several jobs; used by the holder of the writer
}

// Options configures [Open].
type Options struct {
	PowerSafe bool // see sqlite.Options
	Logger    *slog.Logger
	// Check verifies the whole file; nil skips this.
	Check func(*Conn) error
	// Forget clears the caches of the holder of the writer's connection. It is called after
	// a rollback; nil does nothing.
	Forget func()
}

const (
	// InMemory is the path of an in-memory database.
	InMemory = ":memory:"
	// lockWait is the maximum time to wait for another process's lock, unless the context
	// ends earlier.
	lockWait = 10 * time.Second
	// lockTry is the duration of one attempt to take the lock. SQLite cannot be
	// interrupted while it waits, so contexts are checked between attempts.
	lockTry = 50 * time.Millisecond
	// readerCount is the maximum number of concurrent reads.
	readerCount = 4

	// writerPages and readerPages limit the pages that a connection caches, in KiB. SQLite
	// visits all pages in the writer's cache at each commit whose transaction has split or
	// merged pages, as most do: for a moment, such a page has a number behind the end of the
	// file, and SQLite then searches the cache for pages to drop. A larger cache makes a
	// commit cost more than it saves in reads, which the system's cache answers.
	writerPages = 8 << 10
	readerPages = 16 << 10
)

// Open opens the file at path, or creates it in an existing directory.
func Open(path string, opts *Options) (*DB, error) {
	if m := scheme.FindStringSubmatch(path); m != nil {
		// The error omits the rest of the URL, because it may contain a password.
		return nil, fmt.Errorf("sqlite: open: unsupported scheme %q: want a file name", m[0])
	}
	db := &DB{Path: path, Log: opts.Logger, forget: opts.Forget, Closing: make(chan struct{}), back: writingBack{busy: make(chan struct{}, 1), pause: backPause}}
	if db.Log == nil {
		db.Log = slog.Default()
	}
	if db.forget == nil {
		db.forget = func() {}
	}
	if err := db.open(opts); err != nil {
		return nil, fmt.Errorf("sqlite: open %s: %w", path, errors.Join(err, db.Close()))
	}
	return db, nil
}

// scheme matches the start of a URL.
var scheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://`)

func (db *DB) open(opts *Options) error {
	dsn := InMemory
	if db.Path != InMemory {
		if err := usable(db.Path); err != nil {
			return err
		}
		abs, err := filepath.Abs(db.Path)
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
	if opts.PowerSafe {
		sync = "FULL"
	}
	w := &Conn{connector: connector, Writes: true, Version: 1, setup: []string{
		fmt.Sprintf("PRAGMA busy_timeout=%d", lockTry.Milliseconds()),
		"PRAGMA synchronous=" + sync,
		fmt.Sprintf("PRAGMA cache_size=-%d", writerPages),
		"PRAGMA temp_store=MEMORY",
		"PRAGMA secure_delete=ON", // see erase.go
		fmt.Sprintf("PRAGMA wal_autocheckpoint=%d", logMost),
	}}
	db.Writer = make(chan *Conn, 1)
	db.Writer <- w
	if err := w.setUp(db.Path != InMemory); err != nil {
		return explain(err)
	}
	err = w.distinct()
	if err == nil && opts.Check != nil {
		err = opts.Check(w)
	}
	if err != nil {
		return explain(err)
	}
	if db.Path == InMemory {
		db.Readers = db.Writer
	} else {
		db.Readers = make(chan *Conn, readerCount)
		for range readerCount {
			db.Readers <- &Conn{connector: connector, setup: []string{
				fmt.Sprintf("PRAGMA busy_timeout=%d", lockTry.Milliseconds()),
				"PRAGMA query_only=1",
				// The file is not memory-mapped: SQLite maps it again after every commit
				// by another connection, which slows down the next search by a fifth,
				// more than the avoided page copies save.
				fmt.Sprintf("PRAGMA cache_size=-%d", readerPages),
			}}
		}
	}
	return nil
}

// setUp prepares the file for use. A rejected file is not changed.
func (c *Conn) setUp(isFile bool) error {
	// Applying the settings reads the file, which another process may be recovering after
	// a crash.
	if err := c.patiently(context.Background(), c.Ready); err != nil {
		return err
	}
	current, err := c.isCurrent(migrations)
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
	return c.migrate(migrations)
}

// usable reports problems with a path for which SQLite would only report that it cannot
// open the file, or would open it and fail at the first write.
func usable(path string) error {
	if path == "" {
		return errors.New("empty path")
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return usableDir(filepath.Dir(path))
	case err != nil:
		return err
	case info.IsDir():
		return errors.New("path is a directory")
	case !info.Mode().IsRegular():
		return fmt.Errorf("not a regular file (%s)", info.Mode().Type())
	case info.Mode().Perm()&0o222 == 0:
		return errors.New("read-only file")
	}
	// The file must not be opened and closed for this check: closing it would release any
	// locks that this process holds on it.
	if err := writable(path); err != nil {
		return fmt.Errorf("file not writable: %w", err)
	}
	for _, beside := range []string{"-wal", "-shm"} {
		switch err := writable(path + beside); {
		case errors.Is(err, fs.ErrNotExist):
			if err := usableDir(filepath.Dir(path)); err != nil {
				return err
			}
		case err != nil:
			return fmt.Errorf("file %s not writable: %w", filepath.Base(path)+beside, err)
		}
	}
	return nil
}

// usableDir returns an error if files cannot be created in a directory.
func usableDir(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return fmt.Errorf("directory: %w", err)
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory", dir)
	}
	if err := writable(dir); err != nil {
		return fmt.Errorf("directory %s not writable, but SQLite creates files there: %w", dir, err)
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

// Close waits for running calls and closes the file. Later calls, and calls that wait for
// the file's lock, fail with ErrClosed.
func (db *DB) Close() error {
	db.closeOnce.Do(func() {
		close(db.Closing)
		var errs []error
		take := func(from chan *Conn, n int) {
			for range n {
				errs = append(errs, (<-from).close())
			}
		}
		if db.Readers != nil && db.Readers != db.Writer {
			take(db.Readers, cap(db.Readers))
		}
		if db.Writer != nil {
			take(db.Writer, 1)
		}
		db.closeErr = errors.Join(errs...)
	})
	return db.closeErr
}

// Read calls do in a transaction that sees one snapshot of the file.
func (db *DB) Read(ctx context.Context, do func(*Conn) error) error {
	return db.ReadOnce(ctx, inTransaction(do))
}

// inTransaction wraps do in a transaction, so all its reads see one snapshot of the file.
func inTransaction(do func(*Conn) error) func(*Conn) error {
	return func(c *Conn) (err error) {
		if _, err := c.Exec("BEGIN"); err != nil {
			return err
		}
		defer func() {
			_, e := c.Exec("ROLLBACK")
			if err == nil {
				err = e
			}
		}()
		return do(c)
	}
}

// ReadOnce is like Read, but for a single statement, which sees one snapshot by itself.
func (db *DB) ReadOnce(ctx context.Context, do func(*Conn) error) error {
	return db.readOn(ctx, nil, do)
}

// ReadWarm is like Read, but for a few rows that were probably written recently. If the
// writer's connection is free, ReadWarm uses it, because it has these pages in memory,
// whereas the other connections must read them from the log after every commit.
func (db *DB) ReadWarm(ctx context.Context, do func(*Conn) error) error {
	return db.readOn(ctx, db.Writer, inTransaction(do))
}

// ReadWarmOnce is like ReadWarm, but for a single statement.
func (db *DB) ReadWarmOnce(ctx context.Context, do func(*Conn) error) error {
	return db.readOn(ctx, db.Writer, do)
}

// readOn calls do with a connection from first, if one is free, or else from the readers.
func (db *DB) readOn(ctx context.Context, first chan *Conn, do func(*Conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select { // report a closed database first, whatever else is ready
	case <-db.Closing:
		return ErrClosed
	default:
	}
	var c *Conn
	from := first
	select {
	case c = <-first:
	default:
		from = db.Readers
		select {
		case c = <-db.Readers:
		case <-ctx.Done():
			return ctx.Err()
		case <-db.Closing:
			return ErrClosed
		}
	}
	defer func() { from <- c }()
	// A lock can block only the first statement, so nothing is executed twice.
	return marked(c.patiently(ctx, func() error {
		if err := c.Ready(); err != nil {
			return err
		}
		return do(c)
	}))
}
