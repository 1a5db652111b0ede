package database

import (
	"context"
	"sync/atomic"
	"time"
)

// Commits are appended to the write-ahead log, whose pages must be written back to the
// file from time to time. By default, SQLite does so during a commit, which then waits
// for a thousand random page writes, a tenth of a second or more. Here, a goroutine
// writes the log back concurrently with commits. It uses a reader's connection, so Close
// waits for it.
//
// The log starts over only after all of it has been written back, which never happens
// while writers append to it. If the log is long, the goroutine therefore repeats the
// write-back for newly added pages until few are left. The next commit then writes back
// those.
const (
	// backAfter is the number of commits after which the log is written back.
	backAfter = 64
	// backPause is the minimum time between two write-backs, each of which waits for the
	// disk twice, unless at least backJobs jobs have run.
	backPause = 500 * time.Millisecond
	backJobs  = 2048
	// logLong is the length in pages at which the log must start over. As long as more
	// than backRest pages are added during a write-back, it is repeated, up to backTimes
	// in total.
	logLong   = 4096
	backRest  = 256
	backTimes = 5
	// logMost is the length in pages at which commits always write the log back.
	logMost = 4 * logLong
)

// writingBack is the state of write-backs. Only the holder of the writer's connection
// uses it, except for busy and rest.
type writingBack struct {
	busy    chan struct{} // full while a write-back runs
	rest    atomic.Bool   // the next commit must write back the rest
	pause   time.Duration
	commits int // since the last write-back
	jobs    int // since the last write-back
	last    time.Time
}

// writeBack starts a write-back if one is due. It is called after a commit of some jobs,
// with the writer's connection.
func (db *DB) writeBack(ctx context.Context, w *Conn, jobs int) {
	b := &db.back
	b.commits++
	b.jobs += jobs
	finish := b.rest.Load()
	if !finish && b.commits < backAfter || db.Path == InMemory {
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
	case c := <-db.Readers:
		b.commits, b.jobs, b.last = 0, 0, now
		go func() {
			defer func() {
				<-b.busy
				db.Readers <- c
			}()
			db.copyMost(context.WithoutCancel(ctx), c)
		}()
	default: // all are in use, and reads have priority
		<-b.busy
	}
}

// copyMost writes back the log except for pages added in the meantime. If the log is
// long, it lets the next commit write back the rest.
func (db *DB) copyMost(ctx context.Context, c *Conn) {
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

// copyLog writes back the pages that no reader of an older state still needs in the log.
// It returns the number of pages in the log and the number of those written back, or
// zeros after an error.
func (db *DB) copyLog(ctx context.Context, c *Conn) (pages, moved int) {
	err := c.Ready()
	if err == nil {
		var busy int
		_, err = c.Row("PRAGMA wal_checkpoint(PASSIVE)", nil, &busy, &pages, &moved)
	}
	if err != nil {
		if code(err) != codeBusy {
			db.Log.WarnContext(ctx, "sqlite: failed to write back the log", "path", db.Path, "error", err)
		}
		return 0, 0
	}
	return pages, moved
}
