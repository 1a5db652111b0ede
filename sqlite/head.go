package sqlite

import (
	"errors"
	"fmt"
	"io"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/saved"
	"github.com/treadle-go/treadle/sqlite/internal/database"
)

// A head is the state of a line.
type head struct {
	thread int64 // 0: no such thread
	epoch  uint64
	line   int64 // 0: no such line
	id     checkpoint.ID
	at     int64 // the ordinal of id
	last   int64
	next   int64
	rev    uint64
	open   bool
	count  int64 // number of checkpoints, if it was read

	// Data of checkpoint id. If m is nil, none of it has been read.
	m      *manifest    // without control and metadata
	names  []string     // the channels
	base   []saved.Slot // base of m
	run    run
	echoes bool   // whether the control is worth an echo
	record []byte // nil if too long to cache

	// The state of the file in which the line has this head. While the file is in that
	// state, written is the number of the last pending write. If kept is also set,
	// pending and record are everything that reading the checkpoint would return.
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

// Maximum sizes of cached records: of records that an echo may shorten, and of other
// records.
const (
	maxRecord      = 16 << 10
	keptRecordMost = 4 << 10
)

// keyOf returns the key of a checkpoint.
func keyOf(line, ordinal int64) int64 { return line<<32 | ordinal }

// Limits of a key's parts.
const (
	maxLine    = 1<<31 - 1
	maxOrdinal = 1<<32 - 1
)

// loadHead reads a head from the file. (A single statement for both rows would be slower
// for missing threads, and every new thread is looked up first.)
func loadHead(c *database.Conn, name lineName) (*head, error) {
	thread, epoch, err := threadRow(c, name.thread)
	if err != nil {
		return &head{next: 1}, err
	}
	return loadLine(c, thread, epoch, name.path)
}

// loadLine is like loadHead, but for a thread whose row has been read.
func loadLine(c *database.Conn, thread int64, epoch uint64, path string) (*head, error) {
	if thread == 0 {
		return &head{next: 1}, nil // run number 0 means none
	}
	l := &wholeLine{head: head{thread: thread, epoch: epoch}}
	ok, err := c.Row("SELECT "+lineColumns+" FROM line l WHERE l.thread=? AND l.path=?", []any{thread, []byte(path)}, l.dest()...)
	if err != nil {
		return &l.head, err
	}
	if !ok {
		l.next = 1
		return &l.head, c.Absent(lineHash(thread, path), "namespace %q", path)
	}
	return &l.head, l.verify()
}

// threadRow reads the row of a thread. The ID is 0 if the thread does not exist.
func threadRow(c *database.Conn, name string) (id int64, epoch uint64, err error) {
	err = withThread(c, name, func(i int64, e uint64) error {
		id, epoch = i, e
		return nil
	})
	return id, epoch, err
}

// withThread reads the row of a thread and calls do with it; the ID is 0 if the thread
// does not exist. The statement stays open until do returns. Even without a transaction,
// everything that do reads then comes from the same snapshot, because SQLite keeps its
// snapshot while a statement is open. This way, a few rows are read without BEGIN and
// ROLLBACK. The same statement looks for the witness of a missing row (see database.Conn.Absent),
// because every new thread is looked up first.
func withThread(c *database.Conn, name string, do func(id int64, epoch uint64) error) error {
	found := false
	var result error
	err := c.Each("SELECT id, fence, sum FROM thread WHERE name=? UNION ALL SELECT 0, 0, 0 FROM witness WHERE hash=?", []any{[]byte(name), threadHash(name)}, func(scan func(...any) error) error {
		found = true
		var id int64
		var epoch uint64
		var sum int64
		if err := scan(&id, &epoch, &sum); err != nil {
			return err
		}
		switch {
		case id == 0:
			result = fmt.Errorf("%w: missing thread row", ErrDamaged)
		case !database.Intact(sum, threadSum(id, name, epoch)):
			result = database.Changed("thread row")
		default:
			result = do(id, epoch)
		}
		return io.EOF // only one row counts
	})
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return err
	case !found:
		return do(0, 0)
	}
	return result
}

// setEpoch sets the epoch of a thread. All lines of the thread share the epoch, so cached
// heads, which contain it, become invalid.
func (db *DB) setEpoch(c *database.Conn, thread string, before, epoch uint64) error {
	db.conn.Edits++
	_, err := c.Change("UPDATE thread SET fence=?, sum=(sum+?)&0x7fffffff WHERE name=?", int64(epoch), epochSum(epoch)-epochSum(before), []byte(thread))
	return err
}

// A reserved is a range of numbers that only this process uses. Numbers are reserved in
// the file many at a time, so that most new threads do not change the page with the last
// number. Numbers left when the process ends are never used.
type reserved struct{ next, end int64 }

// reservedMost is the number of numbers to reserve at a time. There can be 2³¹ lines in
// all.
const reservedMost = 32

// take returns the number for a new thread or line. The given column of meta contains the
// last reserved number.
func (r *reserved) take(c *database.Conn, column string) (int64, error) {
	if r.next == r.end {
		var last int64
		ok, err := c.Row("SELECT "+column+" FROM meta", nil, &last)
		if err == nil && !ok {
			err = fmt.Errorf("%w: missing last ID of %s", ErrDamaged, column)
		}
		if err != nil {
			return 0, err
		}
		if _, err := c.Change("UPDATE meta SET "+column+"=?", last+reservedMost); err != nil {
			return 0, err
		}
		r.next, r.end = last+1, last+1+reservedMost
	}
	r.next++
	return r.next - 1, nil
}

// makeLine assigns a number to the line of h and creates its thread if necessary. The
// line's row is inserted with its first head: see moveHead.
func (db *DB) makeLine(c *database.Conn, name lineName, h *head) (err error) {
	if h.line, err = db.newLine(c); err != nil {
		return err
	}
	if h.thread != 0 {
		return c.AddWitness(lineHash(h.thread, name.path))
	}
	if h.thread, err = db.makeThread(c, name.thread, 0); err != nil {
		return err
	}
	_, err = c.Change("INSERT OR IGNORE INTO witness(hash) VALUES(?),(?)", threadHash(name.thread), lineHash(h.thread, name.path))
	return err
}

// newLine returns the number for a new line.
func (db *DB) newLine(c *database.Conn) (int64, error) {
	line, err := db.known.lines.take(c, "lines")
	if err == nil && line > maxLine {
		err = fmt.Errorf("sqlite: file full: all %d namespace IDs used", int64(maxLine))
	}
	return line, err
}

// makeThread creates a thread. The caller adds its witness.
func (db *DB) makeThread(c *database.Conn, name string, epoch uint64) (int64, error) {
	id, err := db.known.threads.take(c, "threads")
	if err == nil {
		_, err = c.Change("INSERT INTO thread(id,name,fence,sum) VALUES(?,?,?,?)", id, []byte(name), int64(epoch), threadSum(id, name, epoch)&saved.SumMask)
	}
	return id, err
}
