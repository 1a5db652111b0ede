package database

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
)

// Many threads write, but SQLite allows only one writer, so waiting writes share a
// transaction: the goroutine that gets the writer's connection runs all queued jobs in
// one transaction, including its own.
//
//	write ──> queue ──┬─ another goroutine's transaction has run it ──> result
//	                  └─ the writer is free: BEGIN, run the queue, COMMIT
//
// A rejected job (a lost compare-and-set) has written nothing, so the others need no
// savepoint. If a job fails after it has written, the transaction is rolled back, and
// each of its jobs runs again in a separate transaction. No background goroutine is
// involved, so none has to be stopped (the one in back.go is short-lived). If the last
// transaction had several jobs and the queue is empty, the writer yields to other
// goroutines before it commits: their jobs then share the commit, which costs more than a
// job, and they prepare their jobs while the writer runs the first ones.

// maxBatch limits the number of jobs in a transaction, and thus how long the first of
// them waits.
const maxBatch = 128

// A job is a write operation. Its function do may run twice, the second time after all
// effects of the first were rolled back.
type job struct {
	ctx   context.Context
	do    func(*Conn) error
	keeps bool // see WriteKeeping
	done  chan struct{}
	err   error // valid once done is closed
}

type queue struct {
	mu   sync.Mutex
	jobs []*job
}

func (q *queue) add(j *job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.jobs = append(q.jobs, j)
}

// maxYields limits how often await yields.
const maxYields = 4

// await yields to runnable goroutines, so that they can queue their own writes, and
// returns the next job, or nil if none arrives.
func (q *queue) await() *job {
	for range maxYields {
		runtime.Gosched()
		if j := q.next(); j != nil {
			return j
		}
	}
	return nil
}

// next removes and returns the oldest job, or nil if the queue is empty.
func (q *queue) next() *job {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.jobs) == 0 {
		return nil
	}
	j := q.jobs[0]
	q.jobs = slices.Delete(q.jobs, 0, 1)
	return j
}

// Queued returns the number of jobs that wait for a transaction.
func (db *DB) Queued() int {
	db.queue.mu.Lock()
	defer db.queue.mu.Unlock()
	return len(db.queue.jobs)
}

// withdraw removes j from the queue. It returns false if j has already been taken.
func (q *queue) withdraw(j *job) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.jobs, j)
	if i < 0 {
		return false
	}
	q.jobs = slices.Delete(q.jobs, i, i+1)
	return true
}

// Write calls do in a transaction and returns when the transaction has been committed or
// rolled back. If the context ends before do has started, Write returns the context's
// error and do does not run; afterward, Write always returns the result.
func (db *DB) Write(ctx context.Context, do func(*Conn) error) error {
	return db.enqueue(&job{ctx: ctx, do: do, done: make(chan struct{})})
}

// WriteKeeping is like Write, but for jobs that change no line or keep the cached head of
// a line up to date. After any other write, heads are read again.
func (db *DB) WriteKeeping(ctx context.Context, do func(*Conn) error) error {
	return db.enqueue(&job{ctx: ctx, do: do, keeps: true, done: make(chan struct{})})
}

func (db *DB) enqueue(j *job) error {
	ctx := j.ctx
	if err := ctx.Err(); err != nil {
		return err
	}
	select { // report a closed database first, whatever else is ready
	case <-db.Closing:
		return ErrClosed
	default:
	}
	db.queue.add(j)
	giveUp := func(err error) error {
		if db.queue.withdraw(j) {
			return err
		}
		<-j.done
		return j.err
	}
	for {
		var c *Conn
		select { // a single-case select is faster and usually sufficient
		case c = <-db.Writer:
		default:
			select {
			case <-j.done:
				return j.err
			case <-ctx.Done():
				return giveUp(ctx.Err())
			case <-db.Closing:
				return giveUp(ErrClosed)
			case c = <-db.Writer:
			}
		}
		err := db.lead(ctx, c, j)
		if err == nil && db.uncut.Load() {
			_ = db.tryCut(ctx, c) // on failure, the next write tries again
		}
		db.Writer <- c
		if err != nil {
			return giveUp(err)
		}
		select {
		case <-j.done:
			return j.err
		default: // the transaction was full
		}
	}
}

// lead runs one transaction over the queued jobs, unless the caller's job j is already
// done. It returns an error if it could not begin a transaction.
func (db *DB) lead(ctx context.Context, c *Conn, j *job) error {
	select {
	case <-j.done:
		return nil
	default:
	}
	if err := c.Begin(ctx); err != nil {
		return err
	}
	var batch []*job
	spoilt := false
	for len(batch) < maxBatch && !spoilt {
		j := db.queue.next()
		if j == nil && db.crowded {
			j = db.queue.await()
		}
		if j == nil {
			break
		}
		batch = append(batch, j)
		spoilt = db.run(c, j)
	}
	var err error
	if spoilt {
		err = db.undo(c)
		if len(batch) > 1 && err == nil {
			db.Log.WarnContext(ctx, "sqlite: rolled back shared transaction; retrying its writes one by one", "path", db.Path, "writes", len(batch), "error", batch[len(batch)-1].err)
			for _, j := range batch {
				db.alone(c, j)
			}
		}
	} else {
		err = db.commit(c)
	}
	db.crowded = len(batch) > 1
	for _, j := range batch {
		if err != nil {
			j.err = err
		}
		close(j.done)
	}
	if err == nil && !spoilt {
		db.writeBack(ctx, c, len(batch)) // may wait for the disk
	}
	return nil
}

// run executes one job and reports whether it spoiled the transaction.
func (db *DB) run(c *Conn, j *job) (spoilt bool) {
	if j.err = j.ctx.Err(); j.err != nil {
		return false
	}
	j.err = db.doJob(c, j)
	return j.err != nil && c.Dirty
}

func (db *DB) doJob(c *Conn, j *job) error {
	c.Dirty = false
	if !j.keeps {
		db.Edits++
	}
	return marked(j.do(c))
}

// alone runs a job in a separate transaction. All its earlier effects were rolled back,
// so it may still give up if its context ends while it waits for the lock.
func (db *DB) alone(c *Conn, j *job) {
	if j.err = c.Begin(j.ctx); j.err != nil {
		return
	}
	j.err = db.doJob(c, j)
	if j.err == nil {
		j.err = db.commit(c)
	} else if err := db.undo(c); err != nil {
		j.err = fmt.Errorf("%w (and %w)", j.err, err)
	}
}

// commit commits the transaction, or rolls it back if that fails.
func (db *DB) commit(c *Conn) error {
	_, err := c.Exec("COMMIT")
	if err == nil {
		c.data, _ = c.dataVersion() // 0 on error, so the next Look sees a difference
		return nil
	}
	err = marked(fmt.Errorf("sqlite: commit: %w", err))
	if undo := db.undo(c); undo != nil {
		err = fmt.Errorf("%w (and %w)", err, undo)
	}
	return err
}

// undo rolls back the transaction and clears caches that may no longer be valid.
func (db *DB) undo(c *Conn) error {
	db.forget()
	return c.Rollback()
}

// Begin takes the file's write lock and calls Look.
func (c *Conn) Begin(ctx context.Context) error {
	err := c.patiently(ctx, func() error {
		_, err := c.Exec("BEGIN IMMEDIATE")
		return err
	})
	if err == nil {
		c.Look()
	}
	return marked(err)
}

// Rollback ends the transaction. SQLite ends it by itself after some errors, such as a
// full disk; it is then not an error that no transaction is open.
func (c *Conn) Rollback() error {
	_, err := c.Exec("ROLLBACK")
	if err != nil && code(err) != codeError {
		return fmt.Errorf("sqlite: roll back: %w", err)
	}
	return nil
}

// codeError is the result code of a ROLLBACK without a transaction.
const codeError = 1
