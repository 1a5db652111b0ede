package sqlite

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
)

// Many threads write and SQLite has one writer, so what waits is written
// together: whoever gets the writer's connection runs everything in the queue
// in one transaction, its own job among the rest.
//
//	write ──> queue ──┬─ someone else's transaction has run it ──> result
//	                  └─ the writer is free: BEGIN, run the queue, COMMIT
//
// A job that is refused (a lost compare-and-set) has written nothing, so the
// others need no savepoint. One that fails after it has written spoils the
// transaction; it is rolled back and its jobs run again, each in its own.
// There is no goroutine behind this, so there is none to stop (the one of back.go is there
// for a moment only). After a transaction with several jobs the next one lets other goroutines
// run before it begins, as long as more jobs come: they then share its commit, which costs more
// than a job does.

// maxBatch bounds a transaction, and how long the first in it waits.
const maxBatch = 128

// job is something to write. do may run twice, the second time after all that
// the first did was rolled back.
type job struct {
	ctx   context.Context
	do    func(*conn) error
	keeps bool // see writeKeeping
	done  chan struct{}
	err   error // once done is closed
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

// Limits of gather.
const (
	gatherMost = 64 // yields
	gatherIdle = 4  // yields in a row in which no job comes
)

// gather lets goroutines that can run get as far as their own writes, as long as more of them
// do.
func (q *queue) gather() {
	for n, i, idle := 0, 0, 0; i < gatherMost && idle < gatherIdle; i++ {
		runtime.Gosched()
		q.mu.Lock()
		now := len(q.jobs)
		q.mu.Unlock()
		if now == n {
			idle++
		} else {
			n, idle = now, 0
		}
	}
}

// next takes the oldest job whose caller still waits, or nil.
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

// withdraw takes j back and reports whether nobody has begun with it.
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

// write runs do in a transaction and returns when that is committed or rolled
// back. A caller whose context ends before do has begun gets the context's
// error, and do does not run; later it gets the result, whatever it is.
func (db *DB) write(ctx context.Context, do func(*conn) error) error {
	return db.enqueue(&job{ctx: ctx, do: do, done: make(chan struct{})})
}

// writeKeeping is write for what changes no line, or changes what is known of its head
// with it. After any other write, heads are read again.
func (db *DB) writeKeeping(ctx context.Context, do func(*conn) error) error {
	return db.enqueue(&job{ctx: ctx, do: do, keeps: true, done: make(chan struct{})})
}

func (db *DB) enqueue(j *job) error {
	ctx := j.ctx
	if err := ctx.Err(); err != nil {
		return err
	}
	select { // a closed database says so, whatever else is ready
	case <-db.closing:
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
		var c *conn
		select { // of one channel, which is faster and mostly enough
		case c = <-db.writer:
		default:
			select {
			case <-j.done:
				return j.err
			case <-ctx.Done():
				return giveUp(ctx.Err())
			case <-db.closing:
				return giveUp(ErrClosed)
			case c = <-db.writer:
			}
		}
		err := db.lead(ctx, c, j)
		if err == nil && db.uncut.Load() {
			_ = db.tryCut(ctx, c) // or the next write
		}
		db.writer <- c
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

// lead runs one transaction over what waits in the queue, unless j, the
// caller's, is done already. Its error is that there was no transaction.
func (db *DB) lead(ctx context.Context, c *conn, j *job) error {
	select {
	case <-j.done:
		return nil
	default:
	}
	if db.crowded {
		db.queue.gather()
	}
	if err := c.begin(ctx); err != nil {
		return err
	}
	var batch []*job
	spoilt := false
	for len(batch) < maxBatch && !spoilt {
		j := db.queue.next()
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
			db.log.WarnContext(ctx, "sqlite: a transaction was rolled back, its parts are tried one by one", "path", db.path, "parts", len(batch), "error", batch[len(batch)-1].err)
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
		db.writeBack(ctx, c, len(batch)) // which may wait for the disk
	}
	return nil
}

// run does one job and reports whether the transaction is spoilt.
func (db *DB) run(c *conn, j *job) (spoilt bool) {
	if j.err = j.ctx.Err(); j.err != nil {
		return false
	}
	j.err = db.doJob(c, j)
	return j.err != nil && c.dirty
}

func (db *DB) doJob(c *conn, j *job) error {
	c.dirty = false
	if !j.keeps {
		db.known.edits++
	}
	return marked(j.do(c))
}

// alone runs a job in its own transaction. All that it did before was rolled
// back, so it may still be that its caller does not wait for the lock.
func (db *DB) alone(c *conn, j *job) {
	if j.err = c.begin(j.ctx); j.err != nil {
		return
	}
	j.err = db.doJob(c, j)
	if j.err == nil {
		j.err = db.commit(c)
	} else if err := db.undo(c); err != nil {
		j.err = fmt.Errorf("%w (and %w)", j.err, err)
	}
}

// commit commits, or undoes everything.
func (db *DB) commit(c *conn) error {
	_, err := c.exec("COMMIT")
	if err == nil {
		c.data, _ = c.dataVersion() // 0 with an error, so the next look finds another
		return nil
	}
	err = marked(fmt.Errorf("sqlite: commit: %w", err))
	if undo := db.undo(c); undo != nil {
		err = fmt.Errorf("%w (and %w)", err, undo)
	}
	return err
}

// undo rolls back and forgets what may not be so.
func (db *DB) undo(c *conn) error {
	db.known.forget()
	c.ledger.forget()
	return c.rollback()
}

// begin takes the file's write lock, and looks.
func (c *conn) begin(ctx context.Context) error {
	err := c.patiently(ctx, func() error {
		_, err := c.exec("BEGIN IMMEDIATE")
		return err
	})
	if err == nil {
		c.look()
	}
	return marked(err)
}

// rollback ends the transaction. SQLite ends it by itself after some errors,
// such as a full disk; that there is none left then is as it should be.
func (c *conn) rollback() error {
	_, err := c.exec("ROLLBACK")
	if err != nil && code(err) != codeError {
		return fmt.Errorf("sqlite: roll back: %w", err)
	}
	return nil
}

// codeError is what a ROLLBACK without a transaction gives.
const codeError = 1
