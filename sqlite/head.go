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

	// The rest of what a read of the checkpoint gives, if nothing has changed since.
	as      sight
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
func (db *DB) setEpoch(c *conn, thread int64, before, epoch uint64) error {
	db.known.edits++
	_, err := c.change("UPDATE thread SET fence=?, sum=(sum+?)&0x7fffffff WHERE id=?", int64(epoch), epochSum(epoch)-epochSum(before), thread)
	return err
}

// nextNumbers are what the next new thread and line get. SQLite would choose the same; known
// beforehand, they are in the checksums of rows that are written once.
type nextNumbers struct {
	as           sight
	thread, line int64
}

// makeLine gives the line of h its number, and makes its thread if need be. The row of the
// line is put with its first head: see moveHead.
func (db *DB) makeLine(c *conn, name lineName, h *head) error {
	next := &db.known.next
	if err := c.look(); err != nil {
		return err
	}
	if now := db.sight(c); next.as != now {
		const last = "coalesce((SELECT seq FROM sqlite_sequence WHERE name=?),0)+1"
		if _, err := c.row("SELECT "+last+", "+last, []any{"thread", "line"}, &next.thread, &next.line); err != nil {
			return err
		}
		next.as = now
	}
	h.line = next.line
	if h.line > maxLine {
		return fmt.Errorf("sqlite: the file has had %d lines, which is as many as it can have", int64(maxLine))
	}
	next.line++
	if h.thread != 0 {
		return c.addWitness(lineHash(h.thread, name.path))
	}
	h.thread = next.thread
	next.thread++
	if _, err := c.change("INSERT INTO thread(id,name,fence,sum) VALUES(?,?,0,?)", h.thread, []byte(name.thread), threadSum(h.thread, name.thread, 0)&saved.SumMask); err != nil {
		return err
	}
	_, err := c.change("INSERT OR IGNORE INTO witness(hash) VALUES(?),(?)", threadHash(name.thread), lineHash(h.thread, name.path))
	return err
}

func (c *conn) makeThread(name string, epoch uint64) (int64, error) {
	id, err := c.insert("INSERT INTO thread(name,fence) VALUES(?,?)", []byte(name), int64(epoch))
	if err != nil {
		return 0, err
	}
	if _, err = c.change("UPDATE thread SET sum=? WHERE id=?", threadSum(id, name, epoch)&saved.SumMask, id); err != nil {
		return 0, err
	}
	return id, c.addWitness(threadHash(name))
}
