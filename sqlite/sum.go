package sqlite

import (
	"errors"
	"fmt"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/saved"
)

// All data is verified when it is read. Each row has a checksum of its content and
// location, so changed bytes and moved rows are detected. Missing rows are detected
// through other rows:
//
//	thread, line      their names are in witness
//	checkpoint        a line records their number and numbers them
//	chunk, run, shape records refer to them
//	item              its key is in store_key, and its number in store_under
//
// A missing pending write cannot be detected, because it looks as if the process had
// ended before the write was saved. Neither can a missing past record of an item, because
// such records may be removed at any time. The same holds for data that only helps to
// find items: lists, words, and vectors. Options.Check compares all of these.

// A sum is the value of a checksum column. Rows from before file version 3 have none.
type sum struct {
	value int64
	there bool
}

// intact reports whether a row has the expected checksum. A row without a checksum is
// intact if the file has such rows.
func (c *conn) intact(have sum, want int64) bool {
	if !have.there {
		return !c.summed
	}
	return have.value == want&saved.SumMask
}

// changed returns the error for a row that is not intact.
func changed(format string, args ...any) error {
	return fmt.Errorf("%w: %s is not what was stored", ErrDamaged, fmt.Sprintf(format, args...))
}

// sum returns the checksum of the fields that puts change.
func (h *head) sum() int64 {
	return saved.Sum(2).ID(h.id).Int(h.at).Int(h.last).Int(h.next).Int(int64(h.rev)).Bool(h.open).Value()
}

// lineSum returns the checksum of a line's identity, and countSum of its counters. They
// are added to the checksum of its head.
func lineSum(line, thread int64, path string) int64 {
	return saved.Place(line) + 3*saved.Place(thread) + saved.Hash(3, path)&saved.SumMask
}

func countSum(checkpoints, size int64) int64 { return 0x3C6EF372*checkpoints + 0x1B873593*size }

func threadSum(id int64, name string, epoch uint64) int64 {
	return saved.Place(id) + saved.Hash(4, name)&saved.SumMask + epochSum(epoch)
}

func epochSum(epoch uint64) int64 { return saved.Sum(5).Int(int64(epoch)).Value() }

func checkpointSum(key int64, id checkpoint.ID, run int64, record []byte) int64 {
	return (saved.Place(key>>32) + saved.Sum(6).Int(key&maxOrdinal).ID(id).Int(run).Bytes(record).Value()) & saved.SumMask
}

func chunkSum(line, chain, seq, n int64, data []byte) int64 {
	return (saved.Place(line) + saved.Sum(7).Int(chain).Int(seq).Int(n).Bytes(data).Value()) & saved.SumMask
}

func pendingSum(key int64, task string, kind, data []byte) int64 {
	s := saved.Sum(8).Int(key & maxOrdinal).Int(saved.Hash(0, task)).Int(saved.Hash(0, string(kind))).Bytes(data)
	return (saved.Place(key>>32) + s.Value()) & saved.SumMask
}

func runSum(line, number int64, name, metadata []byte) int64 {
	return (saved.Place(line) + saved.Sum(9).Int(number).Bytes(name).Bytes(metadata).Value()) & saved.SumMask
}

// nameSum returns the checksum of a row that consists of a name and its number.
func nameSum(id int64, name []byte) int64 { return saved.Sum(10).Int(id).Bytes(name).Value() }

func threadHash(name string) int64 { return saved.Hash(11, name) }

func lineHash(thread int64, path string) int64 { return saved.Hash(thread<<8|12, path) }

func spaceHash(name string) int64 { return saved.Hash(13, name) }

func stampHash(text string) int64 { return saved.Hash(14, text) }

func keyHash(key string) int64 { return saved.Hash(15, key) }

// bodySum returns the checksum of an item's value and metadata, and sealSum of the rest
// of its record.
func bodySum(seq int64, meta, value []byte) int64 {
	return saved.Sum(16).Int(seq).Bytes(meta).Bytes(value).Value()
}

func sealSum(seq, space int64, key []byte, kind int, created, updated, ttl, stamp int64, paths []byte) int64 {
	return saved.Sum(17).Int(seq).Int(space).Bytes(key).Int(int64(kind)).Int(created).Int(updated).Int(ttl).Int(stamp).Bytes(paths).Value()
}

func vectorSum(seq, stamp int64, data []byte) int64 {
	return saved.Sum(18).Int(seq).Int(stamp).Bytes(data).Value()
}

func termsSum(seq int64, words int, data []byte) uint32 {
	return uint32(saved.Sum(19).Int(seq).Int(int64(words)).Bytes(data).Value())
}

func stateSum(folded, compacted int64) int64 { return saved.Sum(20).Int(folded).Int(compacted).Value() }

func cacheSum(space, key, value []byte, expires int64) int64 {
	return saved.Sum(21).Bytes(space).Bytes(key).Bytes(value).Int(expires).Value()
}

// lifeSum returns the checksum of a lifetime. SQL can compute it too (lifeIsDamaged).
// NULL counts as 0.
func lifeSum(seq, expires, ended int64) int64 {
	part := func(n int64) int64 { return n&saved.SumMask*48271 + n>>31&saved.SumMask*16807 }
	return (part(seq) + 3*part(expires) + 5*part(ended) + 7) & saved.SumMask
}

// lifeIsDamaged is the condition for a damaged row of store_life l.
const lifeIsDamaged = `(l.sum IS NULL AND (SELECT summed FROM meta) OR l.sum IS NOT NULL AND l.sum<>((l.seq&0x7fffffff)*48271+(l.seq>>31&0x7fffffff)*16807

	+3*((coalesce(l.expires,0)&0x7fffffff)*48271+(coalesce(l.expires,0)>>31&0x7fffffff)*16807)
	+5*((coalesce(l.ended,0)&0x7fffffff)*48271+(coalesce(l.ended,0)>>31&0x7fffffff)*16807)+7)&0x7fffffff)`

// addWitness records that something exists, and removeWitness that it no longer does: see
// absent.
func (c *conn) addWitness(hash int64) error {
	_, err := c.change("INSERT OR IGNORE INTO witness(hash) VALUES(?)", hash)
	return err
}

func (c *conn) removeWitness(hash int64) error {
	_, err := c.change("DELETE FROM witness WHERE hash=?", hash)
	return err
}

// absent returns ErrDamaged if something that was not found should exist.
func (c *conn) absent(hash int64, format string, args ...any) error {
	var there int64
	ok, err := c.row("SELECT hash FROM witness WHERE hash=?", []any{hash}, &there)
	if err != nil || !ok {
		return err
	}
	return fmt.Errorf("%w: %s is missing", ErrDamaged, fmt.Sprintf(format, args...))
}

// updateLineSum updates the checksum of a line after its counters were recomputed or its
// head moved back. The previous state must have been verified.
func (c *conn) updateLineSum(line int64) error {
	l, err := c.wholeLine(line)
	if err != nil {
		return err
	}
	_, err = c.change("UPDATE line SET sum=? WHERE id=?", l.want()&saved.SumMask, line)
	return err
}

// verifyLine reads and verifies a line by its number.
func (c *conn) verifyLine(line int64) (*head, error) {
	l, err := c.wholeLine(line)
	if err != nil {
		return nil, err
	}
	return &l.head, l.verify(c)
}

// A wholeLine is the complete row of a line.
type wholeLine struct {
	head
	path string
	size int64
	sum  sum
}

// lineColumns lists the columns of a line l that dest takes.
const lineColumns = "l.id, l.path, l.head, l.at, l.last, l.next, l.rev, l.open, l.count, l.bytes, l.sum"

func (l *wholeLine) dest() []any {
	all := make([]any, 0, 16) // callers append
	return append(all, &l.line, &l.path, &l.id, &l.at, &l.last, &l.next, &l.rev, &l.open, &l.count, &l.size, &l.sum)
}

// want returns the expected checksum of the line.
func (l *wholeLine) want() int64 {
	return l.head.sum() + lineSum(l.line, l.thread, l.path) + countSum(l.count, l.size)
}

// verify returns an error if the line's checksum is wrong.
func (l *wholeLine) verify(c *conn) error {
	if !c.intact(l.sum, l.want()) {
		return changed("the line of namespace %q", l.path)
	}
	return nil
}

// wholeLine reads a line by its number.
func (c *conn) wholeLine(line int64) (*wholeLine, error) {
	l := &wholeLine{}
	ok, err := c.row("SELECT "+lineColumns+", l.thread FROM line l WHERE l.id=?", []any{line}, append(l.dest(), &l.thread)...)
	if err == nil && !ok {
		err = fmt.Errorf("%w: line %d is missing", ErrDamaged, line)
	}
	return l, err
}

// inThread adds the name of the thread to an error about damage.
func inThread(thread string, err error) error {
	if errors.Is(err, ErrDamaged) {
		return fmt.Errorf("thread %q: %w", thread, err)
	}
	return err
}
