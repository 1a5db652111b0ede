package sqlite

import (
	"cmp"
	"context"
	"errors"
	"time"
)

// Data that was deleted, pruned, rolled back, or forgotten is gone from the files when
// the call returns, even from unused parts of them:
//
//   - SQLite writes zeros over the data that a statement removes (secure_delete). All writers
//     always do so, so no copies remain in places that rows have been moved from either.
//   - The word index only marks forgotten items as deleted at first; forgetting them therefore
//     also merges its segments.
//   - The log contains earlier versions of pages. After data was erased, the log is written
//     back to the file and truncated.
//
// There is one exception: when SQLite spreads the rows of a page over several pages, it
// does not write zeros over the moved rows in the unused part of the page. Scrub does.
//
// A reader of an older state, in this process or another, prevents the log from being
// truncated. Truncation is then retried after every write and by Close.

// Times to wait for readers of older states: after erasing, which leaves the rest to the
// next write, and in Scrub.
const (
	eraseWait = 500 * time.Millisecond
	scrubWait = 5 * time.Second
)

// erase is like write, but for jobs that may remove data. After the job, removed reports
// whether it did.
func (db *DB) erase(ctx context.Context, do func(*conn) error, removed func() bool) error {
	return db.erased(ctx, db.write(ctx, do), removed)
}

// eraseKeeping is like erase, but for jobs of writeKeeping.
func (db *DB) eraseKeeping(ctx context.Context, do func(*conn) error, removed func() bool) error {
	return db.erased(ctx, db.writeKeeping(ctx, do), removed)
}

// erased truncates the log after a write that removed data. It returns the write's error.
func (db *DB) erased(ctx context.Context, err error, removed func() bool) error {
	if err == nil && removed() {
		patience := eraseWait
		if db.uncut.Load() {
			patience = 0 // the previous call has already waited for the same reader
		}
		_ = db.cutLog(ctx, patience) // the deletion itself has succeeded, and the next write truncates the log
	}
	return err
}

// errReaders explains why the log cannot be truncated.
var errReaders = errors.New("a transaction of this or another process still reads an older state, so the write-ahead log has to keep it: end that transaction and scrub again")

// cutLog writes the log back and truncates it. If it fails, the next write tries again.
func (db *DB) cutLog(ctx context.Context, patience time.Duration) error {
	var c *conn
	select {
	case c = <-db.writer:
	case <-ctx.Done():
		db.uncut.Store(true)
		return ctx.Err()
	case <-db.closing:
		return ErrClosed
	}
	defer func() { db.writer <- c }()
	if db.path == inMemory {
		return nil
	}
	db.uncut.Store(true)
	select {
	case db.back.busy <- struct{}{}: // excludes concurrent write-backs
		defer func() { <-db.back.busy }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for start := time.Now(); ; {
		err := db.tryCut(ctx, c)
		if err == nil || ctx.Err() != nil || time.Since(start) > patience {
			return cmp.Or(err, ctx.Err())
		}
	}
}

// tryCut tries to truncate the log, waiting for readers for up to lockTry.
func (db *DB) tryCut(ctx context.Context, c *conn) error {
	var busy, pages, moved int
	_, err := c.row("PRAGMA wal_checkpoint(TRUNCATE)", nil, &busy, &pages, &moved)
	switch {
	case err != nil && code(err) != codeBusy:
		db.log.WarnContext(ctx, "sqlite: the log could not be cut off, so it still has what was deleted", "path", db.path, "error", err)
		return err
	case err != nil || busy != 0:
		return errReaders
	}
	db.uncut.Store(false)
	return nil
}
