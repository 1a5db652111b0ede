package database

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
	ScrubWait = 5 * time.Second
)

// Erase is like Write, but for jobs that may remove data. After the job, removed reports
// whether it did.
func (db *DB) Erase(ctx context.Context, do func(*Conn) error, removed func() bool) error {
	return db.erased(ctx, db.Write(ctx, do), removed)
}

// EraseKeeping is like Erase, but for jobs of WriteKeeping.
func (db *DB) EraseKeeping(ctx context.Context, do func(*Conn) error, removed func() bool) error {
	return db.erased(ctx, db.WriteKeeping(ctx, do), removed)
}

// erased truncates the log after a write that removed data. It returns the write's error.
func (db *DB) erased(ctx context.Context, err error, removed func() bool) error {
	if err == nil && removed() {
		patience := eraseWait
		if db.uncut.Load() {
			patience = 0 // the previous call has already waited for the same reader
		}
		_ = db.CutLog(ctx, patience) // the deletion itself has succeeded, and the next write truncates the log
	}
	return err
}

// errReaders explains why the log cannot be truncated.
var errReaders = errors.New("write-ahead log pinned by an open reader: close it and call Scrub again")

// CutLog writes the log back and truncates it. If it fails, the next write tries again.
func (db *DB) CutLog(ctx context.Context, patience time.Duration) error {
	var c *Conn
	select {
	case c = <-db.Writer:
	case <-ctx.Done():
		db.uncut.Store(true)
		return ctx.Err()
	case <-db.Closing:
		return ErrClosed
	}
	defer func() { db.Writer <- c }()
	if db.Path == InMemory {
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
func (db *DB) tryCut(ctx context.Context, c *Conn) error {
	var busy, pages, moved int
	_, err := c.Row("PRAGMA wal_checkpoint(TRUNCATE)", nil, &busy, &pages, &moved)
	switch {
	case err != nil && code(err) != codeBusy:
		db.Log.WarnContext(ctx, "sqlite: failed to truncate the log, which still contains deleted data", "path", db.Path, "error", err)
		return err
	case err != nil || busy != 0:
		return errReaders
	}
	db.uncut.Store(false)
	return nil
}
