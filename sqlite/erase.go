package sqlite

import (
	"cmp"
	"context"
	"errors"
	"time"
)

// What was deleted, pruned, rolled back or forgotten is not in the files any more
// when the call returns, not even in parts of them that are free:
//
//   - SQLite writes zeros over what a statement removes (secure_delete), as
//     all writers do all the time, so that nothing is left where rows have been
//     moved from either.
//   - The index of words merges its segments when items are forgotten that it has;
//     before that it only notes that they are gone.
//   - The log has the pages as they were. When something was erased, it is written
//     back to the file and cut off.
//
// There is one exception: when SQLite spreads the rows of a page over several, it does
// not write zeros over those that have moved, in the free part of the page. Scrub does.
//
// A reader of another state of the file, here or in another process, keeps the log
// from being cut off. Then that is tried again after every write, and by Close.

// How long readers of older states are waited for: by what erases, which leaves the
// rest to the next write, and by Scrub.
const (
	eraseWait = 500 * time.Millisecond
	scrubWait = 5 * time.Second
)

// erase is like write, for jobs that remove something if removed reports so afterwards.
func (db *DB) erase(ctx context.Context, do func(*conn) error, removed func() bool) error {
	return db.erased(ctx, db.write(ctx, do), removed)
}

// eraseKeeping is like erase, for jobs of writeKeeping.
func (db *DB) eraseKeeping(ctx context.Context, do func(*conn) error, removed func() bool) error {
	return db.erased(ctx, db.writeKeeping(ctx, do), removed)
}

// erased cuts the log off after a write that has removed something. It returns the write's
// error.
func (db *DB) erased(ctx context.Context, err error, removed func() bool) error {
	if err == nil && removed() {
		patience := eraseWait
		if db.uncut.Load() {
			patience = 0 // the call before has waited for the same reader
		}
		_ = db.cutLog(ctx, patience) // the deletion itself is done, and the next write cuts the log
	}
	return err
}

// errReaders is why the log cannot be cut off.
var errReaders = errors.New("a transaction of this or another process still reads an older state, so the write-ahead log has to keep it: end that transaction and scrub again")

// cutLog writes the log back and cuts it off. If it fails, the next write tries again.
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
	case db.back.busy <- struct{}{}: // nobody else writes the log back meanwhile
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

// tryCut waits lockTry for readers.
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
