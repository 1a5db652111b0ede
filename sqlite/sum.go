package sqlite

import (
	"errors"
	"fmt"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/saved"
	"github.com/treadle-go/treadle/sqlite/internal/database"
)

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

func threadHash(name string) int64 { return saved.Hash(11, name) }

func lineHash(thread int64, path string) int64 { return saved.Hash(thread<<8|12, path) }

func cacheSum(space, key, value []byte, expires int64) int64 {
	return saved.Sum(21).Bytes(space).Bytes(key).Bytes(value).Int(expires).Value()
}

// updateLineSum updates the checksum of a line after its counters were recomputed or its
// head moved back. The previous state must have been verified.
func updateLineSum(c *database.Conn, line int64) error {
	l, err := readWholeLine(c, line)
	if err != nil {
		return err
	}
	_, err = c.Change("UPDATE line SET sum=? WHERE id=?", l.want()&saved.SumMask, line)
	return err
}

// verifyLine reads and verifies a line by its number.
func verifyLine(c *database.Conn, line int64) (*head, error) {
	l, err := readWholeLine(c, line)
	if err != nil {
		return nil, err
	}
	return &l.head, l.verify()
}

// A wholeLine is the complete row of a line.
type wholeLine struct {
	head
	path string
	size int64
	sum  int64
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
func (l *wholeLine) verify() error {
	if !database.Intact(l.sum, l.want()) {
		return database.Changed("namespace %q", l.path)
	}
	return nil
}

// readWholeLine reads a line by its number.
func readWholeLine(c *database.Conn, line int64) (*wholeLine, error) {
	l := &wholeLine{}
	ok, err := c.Row("SELECT "+lineColumns+", l.thread FROM line l WHERE l.id=?", []any{line}, append(l.dest(), &l.thread)...)
	if err == nil && !ok {
		err = fmt.Errorf("%w: missing line %d", ErrDamaged, line)
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
