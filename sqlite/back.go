package sqlite

import (
	"context"
	"time"
)

// Commits go to the write-ahead log, whose pages have to be written back to the file now
// and then. SQLite does so in a commit, which then takes as long as the disk needs for a
// thousand pages all over the file, a tenth of a second or more. Here a goroutine does it
// beside the commits, with a connection of the readers, so Close waits for it. A commit
// does it only if the log becomes long nevertheless, because writers are faster.
const (
	// backAfter is after how many commits the log is written back.
	backAfter = 64
	// backPause is how long after the last time that is at the earliest: each time waits
	// for the disk twice.
	backPause = 500 * time.Millisecond
	// logMost is how many pages the log has when a commit writes it back.
	logMost = 4096
)

// writingBack is what is known of that. Who has the writer's connection uses it, except for
// busy.
type writingBack struct {
	busy    chan struct{} // full while somebody writes the log back
	pause   time.Duration
	commits int // since the last time
	last    time.Time
}

// writeBack starts to write the log back if it is time to. It is called after a commit.
func (db *DB) writeBack(ctx context.Context) {
	b := &db.back
	if b.commits++; b.commits < backAfter || db.path == inMemory {
		return
	}
	now := time.Now()
	if now.Sub(b.last) < b.pause {
		return
	}
	select {
	case b.busy <- struct{}{}:
	default:
		return
	}
	select {
	case c := <-db.readers:
		b.commits, b.last = 0, now
		go func() {
			defer func() {
				<-b.busy
				db.readers <- c
			}()
			db.copyLog(context.WithoutCancel(ctx), c)
		}()
	default: // all are reading, and readers come first
		<-b.busy
	}
}

// copyLog writes back what no reader of an older state still needs in the log.
func (db *DB) copyLog(ctx context.Context, c *conn) {
	err := c.ready()
	if err == nil {
		var busy, pages, moved int
		_, err = c.row("PRAGMA wal_checkpoint(PASSIVE)", nil, &busy, &pages, &moved)
	}
	if err != nil && code(err) != codeBusy {
		db.log.WarnContext(ctx, "sqlite: the log could not be written back to the file", "path", db.path, "error", err)
	}
}
