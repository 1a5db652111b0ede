package sqlite

import (
	"context"
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
// A reader of another state of the file, here or in another process, keeps the log
// from being cut off. Then that is tried again after every write, and by Close.

// eraseWait is how long the readers of older states are waited for.
const eraseWait = 500 * time.Millisecond

// erase is write for what removes something, if removed says so afterwards.
func (db *DB) erase(ctx context.Context, do func(*conn) error, removed func() bool) error {
	err := db.write(ctx, do)
	if err == nil && removed() {
		db.cutLog(ctx)
	}
	return err
}

// cutLog writes the log back and cuts it off, or lets the next write do so. There
// is nobody to tell of an error: the deletion itself is done.
func (db *DB) cutLog(ctx context.Context) {
	if db.path == inMemory {
		return
	}
	var c *conn
	select {
	case c = <-db.writer:
	case <-ctx.Done():
		db.uncut.Store(true)
		return
	}
	defer func() { db.writer <- c }()
	db.uncut.Store(true)
	for start := time.Now(); ; {
		if db.tryCut(ctx, c) || ctx.Err() != nil || time.Since(start) > eraseWait {
			return
		}
	}
}

// tryCut waits lockTry for readers.
func (db *DB) tryCut(ctx context.Context, c *conn) bool {
	var busy, pages, moved int
	_, err := c.row("PRAGMA wal_checkpoint(TRUNCATE)", nil, &busy, &pages, &moved)
	if err != nil && code(err) != codeBusy {
		db.log.WarnContext(ctx, "sqlite: the log could not be cut off, so it still has what was deleted", "path", db.path, "error", err)
	}
	if err != nil || busy != 0 {
		return false
	}
	db.uncut.Store(false)
	return true
}
