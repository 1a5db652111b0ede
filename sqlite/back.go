package sqlite

import (
	"context"
	"sync/atomic"
	"time"
)

// Commits go to the write-ahead log, whose pages are written back to the file now and then.
// By default SQLite does so in a commit, which then takes as long as the disk needs for a
// thousand pages all over the file, a tenth of a second or more. Here a goroutine does it
// alongside the commits, on a reader's connection, so Close waits for it.
//
// The log starts over only if all of it has been written back, and while writers add to it,
// that never happens. So if the log is long, the goroutine writes back again what has come in
// the meantime, until little is left, which the next commit writes back itself.
const (
	// backAfter is the number of commits after which the log is written back.
	backAfter = 64
	// backPause is the least time between two write-backs, each of which waits for the disk
	// twice, unless there have been backJobs jobs.
	backPause = 500 * time.Millisecond
	backJobs  = 2048
	// logLong is the length in pages from which the log has to start over. While more than
	// backRest pages come during a write-back, up to backTimes others follow.
	logLong   = 4096
	backRest  = 256
	backTimes = 5
	// logMost is the length in pages at which commits write the log back in any case.
	logMost = 4 * logLong
)

// writingBack is the state of write-backs. The holder of the writer's connection uses it,
// except for busy and rest.
type writingBack struct {
	busy    chan struct{} // full during a write-back
	rest    atomic.Bool   // the next commit writes back the rest
	pause   time.Duration
	commits int // since the last time
	jobs    int // since the last time
	last    time.Time
}

// writeBack starts a write-back if it is time. It is called after a commit of some jobs, with
// the writer's connection.
func (db *DB) writeBack(ctx context.Context, w *conn, jobs int) {
	b := &db.back
	b.commits++
	b.jobs += jobs
	finish := b.rest.Load()
	if !finish && b.commits < backAfter || db.path == inMemory {
		return
	}
	now := time.Now()
	if !finish && now.Sub(b.last) < b.pause && b.jobs < backJobs {
		return
	}
	select {
	case b.busy <- struct{}{}:
	default:
		return
	}
	if finish {
		b.rest.Store(false)
		db.copyLog(ctx, w)
		<-b.busy
		return
	}
	select {
	case c := <-db.readers:
		b.commits, b.jobs, b.last = 0, 0, now
		go func() {
			defer func() {
				<-b.busy
				db.readers <- c
			}()
			db.copyMost(context.WithoutCancel(ctx), c)
		}()
	default: // all are reading, and readers come first
		<-b.busy
	}
}

// copyMost writes the log back, all but what comes in the meantime, and lets the next commit
// write back the rest if the log is long.
func (db *DB) copyMost(ctx context.Context, c *conn) {
	before := 0
	for range backTimes {
		pages, moved := db.copyLog(ctx, c)
		if pages < logLong {
			return
		}
		if moved-before < backRest {
			break
		}
		before = moved
	}
	db.back.rest.Store(true)
}

// copyLog writes back what no reader of an older state still needs in the log. It returns how
// many pages the log has and how many of them are written back, zero after an error.
func (db *DB) copyLog(ctx context.Context, c *conn) (pages, moved int) {
	err := c.ready()
	if err == nil {
		var busy int
		_, err = c.row("PRAGMA wal_checkpoint(PASSIVE)", nil, &busy, &pages, &moved)
	}
	if err != nil {
		if code(err) != codeBusy {
			db.log.WarnContext(ctx, "sqlite: failed to write the log back to the file", "path", db.path, "error", err)
		}
		return 0, 0
	}
	return pages, moved
}
