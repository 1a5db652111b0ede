package sqlite

import (
	"errors"
	"fmt"
	"io"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/saved"
)

// head is the state of a line.
type head struct {
	thread int64 // 0: there is no such thread
	epoch  uint64
	line   int64 // 0: there is no such line
	id     checkpoint.ID
	at     int64 // the ordinal of id
	last   int64
	next   int64
	rev    uint64
	open   bool
	count  int64 // of checkpoints; only if it was read

	// Of the checkpoint id. Without m, nothing of it has been read.
	m      *manifest    // without control and metadata
	names  []string     // the channels
	base   []saved.Slot // of m
	run    run
	echoes bool   // the control is worth an echo
	record []byte // nil if it is too long to be remembered

	// The state of the file in which the line has this head. If it still is in that state,
	// written is the number of the last pending write, and with kept, these and the record
	// are all that a read of the checkpoint gives.
	as      sight
	written int64
	kept    bool
	pending []pendingRow
}

type run struct {
	number   int64 // 0: none
	name     string
	metadata []byte
}

// The records that are remembered are not longer: those that an echo may shorten, and others.
const (
	maxRecord      = 16 << 10
	keptRecordMost = 4 << 10
)

// keyOf is the key of a checkpoint.
func keyOf(line, ordinal int64) int64 { return line<<32 | ordinal }

// The limits of a key.
const (
	maxLine    = 1<<31 - 1
	maxOrdinal = 1<<32 - 1
)

// loadHead reads what the file has. (One statement for both rows would cost more
// for a thread that does not exist, as every new one is looked for.)
func (c *conn) loadHead(name lineName) (*head, error) {
	thread, epoch, err := c.threadRow(name.thread)
	if err != nil {
		return &head{next: 1}, err
	}
	return c.loadLine(thread, epoch, name.path)
}

// loadLine is loadHead when the row of the thread was read.
func (c *conn) loadLine(thread int64, epoch uint64, path string) (*head, error) {
	if thread == 0 {
		return &head{next: 1}, nil // 0 is no run
	}
	l := &wholeLine{head: head{thread: thread, epoch: epoch}}
	ok, err := c.row("SELECT "+lineColumns+" FROM line l WHERE l.thread=? AND l.path=?", []any{thread, []byte(path)}, l.dest()...)
	if err != nil {
		return &l.head, err
	}
	if !ok {
		l.next = 1
		return &l.head, c.absent(lineHash(thread, path), "the line of namespace %q", path)
	}
	return &l.head, l.verify(c)
}

// threadRow reads the row of a thread. Its id is 0 if there is no such thread.
func (c *conn) threadRow(name string) (id int64, epoch uint64, err error) {
	err = c.withThread(name, func(i int64, e uint64) error {
		id, epoch = i, e
		return nil
	})
	return id, epoch, err
}

// withThread reads the row of a thread and calls do with it; its id is 0 if there is no
// such thread. The statement is open until do returns. Without a transaction, all that do
// reads is then from the state of the file that the row is from, because SQLite keeps to
// one while a statement is open. So a few rows are read without BEGIN and ROLLBACK. The
// same statement looks for the witness of a row that is missing (see absent), since every
// new thread is looked for.
func (c *conn) withThread(name string, do func(id int64, epoch uint64) error) error {
	found := false
	var result error
	err := c.each("SELECT id, fence, sum FROM thread WHERE name=? UNION ALL SELECT 0, 0, NULL FROM witness WHERE hash=?", []any{[]byte(name), threadHash(name)}, func(scan func(...any) error) error {
		found = true
		var id int64
		var epoch uint64
		var sum sum
		if err := scan(&id, &epoch, &sum); err != nil {
			return err
		}
		switch {
		case id == 0:
			result = fmt.Errorf("%w: its row is missing", ErrDamaged)
		case !c.intact(sum, threadSum(id, name, epoch)):
			result = changed("its row")
		default:
			result = do(id, epoch)
		}
		return io.EOF // there is one row that counts
	})
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return err
	case !found:
		return do(0, 0)
	}
	return result
}

// setEpoch sets the epoch of a thread, which all its lines have: what is known of their
// heads, which have it too, does not hold any more.
func (db *DB) setEpoch(c *conn, thread string, before, epoch uint64) error {
	db.known.edits++
	_, err := c.change("UPDATE thread SET fence=?, sum=(sum+?)&0x7fffffff WHERE name=?", int64(epoch), epochSum(epoch)-epochSum(before), []byte(thread))
	return err
}

// reserved are numbers that only this process uses. They are taken from the file many at a
// time, so that most new threads do not change the page that has the last one. What is left
// when the process ends is used by nobody.
type reserved struct{ next, end int64 }

// reservedMost is how many are taken from the file. Of lines there can be 2³¹ in all.
const reservedMost = 32

// take returns the number of a new thread or line. The column of meta has the last one.
func (r *reserved) take(c *conn, column string) (int64, error) {
	if r.next == r.end {
		var last int64
		ok, err := c.row("SELECT "+column+" FROM meta", nil, &last)
		if err == nil && !ok {
			err = fmt.Errorf("%w: the last number of %s is missing", ErrDamaged, column)
		}
		if err != nil {
			return 0, err
		}
		if _, err := c.change("UPDATE meta SET "+column+"=?", last+reservedMost); err != nil {
			return 0, err
		}
		r.next, r.end = last+1, last+1+reservedMost
	}
	r.next++
	return r.next - 1, nil
}

// makeLine gives the line of h its number, and makes its thread if need be. The row of the
// line is put with its first head: see moveHead.
func (db *DB) makeLine(c *conn, name lineName, h *head) (err error) {
	if h.line, err = db.newLine(c); err != nil {
		return err
	}
	if h.thread != 0 {
		return c.addWitness(lineHash(h.thread, name.path))
	}
	if h.thread, err = db.makeThread(c, name.thread, 0); err != nil {
		return err
	}
	_, err = c.change("INSERT OR IGNORE INTO witness(hash) VALUES(?),(?)", threadHash(name.thread), lineHash(h.thread, name.path))
	return err
}

// newLine is the number of a new line.
func (db *DB) newLine(c *conn) (int64, error) {
	line, err := db.known.lines.take(c, "lines")
	if err == nil && line > maxLine {
		err = fmt.Errorf("sqlite: the file has had %d lines, which is as many as it can have", int64(maxLine))
	}
	return line, err
}

// makeThread makes a thread. The caller adds its witness.
func (db *DB) makeThread(c *conn, name string, epoch uint64) (int64, error) {
	id, err := db.known.threads.take(c, "threads")
	if err == nil {
		_, err = c.change("INSERT INTO thread(id,name,fence,sum) VALUES(?,?,?,?)", id, []byte(name), int64(epoch), threadSum(id, name, epoch)&saved.SumMask)
	}
	return id, err
}
