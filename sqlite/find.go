package sqlite

import (
	"bytes"
	"fmt"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/sqlite/internal/database"
)

// A stored is a checkpoint's row.
type stored struct {
	key int64
	id  checkpoint.ID
	run int64
	m   *manifest
}

// storedColumns lists the columns that scanStored reads.
const storedColumns = "key, id, run, record, sum"

// scanStored reads and verifies the row of a checkpoint.
func scanStored(scan func(...any) error) (*stored, error) {
	r := &stored{}
	var record []byte
	var sum int64
	if err := scan(&r.key, &r.id, &r.run, &record, &sum); err != nil {
		return nil, err
	}
	var err error
	if r.m, err = parseManifest(record, r.id); err == nil && !database.Intact(sum, checkpointSum(r.key, r.id, r.run, record)) {
		err = database.Changed("checkpoint %s", r.id)
	}
	return r, err
}

// find returns a checkpoint's row, or nil if the checkpoint does not exist.
func find(c *database.Conn, h *head, id checkpoint.ID) (*stored, error) {
	if id == h.id && h.line != 0 {
		r, err := readStored(c, keyOf(h.line, h.at))
		if err == nil && (r == nil || r.id != id) {
			err = missingHead(id)
		}
		return r, err
	}
	key, err := locate(c, h, id)
	if err != nil || key == 0 {
		return nil, err
	}
	return readStored(c, key)
}

// readStored returns the row of a key, or nil if it does not exist.
func readStored(c *database.Conn, key int64) (r *stored, err error) {
	err = c.Each("SELECT "+storedColumns+" FROM checkpoint WHERE key=?", []any{key}, func(scan func(...any) error) (err error) {
		r, err = scanStored(scan)
		return err
	})
	return r, err
}

// locate returns the key of a checkpoint, or 0 if it does not exist. Before it returns 0,
// it verifies the whole line: if the requested checkpoint is missing or its ID is
// unreadable, the line is not what it should be.
func locate(c *database.Conn, h *head, id checkpoint.ID) (int64, error) {
	if h.line == 0 || id.IsZero() || bytes.Compare(id[:], h.id[:]) > 0 {
		return 0, nil
	}
	key, err := search(c, h, id)
	if err != nil {
		return 0, err
	}
	var there []byte
	ok, err := c.Row("SELECT id FROM checkpoint WHERE key=?", []any{key}, &there)
	switch {
	case err != nil:
		return 0, err
	case ok && bytes.Equal(there, id[:]):
		return key, nil
	case id == h.id:
		return 0, missingHead(id)
	}
	return 0, audit(c, h)
}

// search returns the key of the first checkpoint of a line whose ID is not less than id,
// or 0. It starts near the head, where most searches end.
func search(c *database.Conn, h *head, id checkpoint.ID) (found int64, err error) {
	if h.line == 0 || bytes.Compare(id[:], h.id[:]) > 0 {
		return 0, nil
	}
	// IDs up to lo are less than id. IDs from hi on are not, and found is the first of
	// those.
	lo, hi := keyOf(h.line, 0), keyOf(h.line, h.at)
	found = hi
	if id == h.id {
		return found, nil
	}
	for step := int64(1); lo+1 < hi; {
		mid := lo + (hi-lo)/2
		if step > 0 && hi-step > mid {
			mid, step = hi-step, step*4
		}
		var key int64
		var at []byte
		ok, err := c.Row("SELECT key, id FROM checkpoint WHERE key>=? AND key<? ORDER BY key LIMIT 1", []any{mid, hi}, &key, &at)
		switch {
		case err != nil:
			return 0, err
		case !ok:
			hi = mid
		case bytes.Compare(at, id[:]) < 0:
			lo, step = key, 0
		default:
			hi, found = mid, key
		}
	}
	return found, nil
}

// audit reads all checkpoints of a line and checks that the line is complete.
func audit(c *database.Conn, h *head) error {
	var n, last int64
	var before checkpoint.ID
	err := c.Each("SELECT "+storedColumns+" FROM checkpoint WHERE key>? AND key<=? ORDER BY key", []any{keyOf(h.line, 0), keyOf(h.line, maxOrdinal)}, func(scan func(...any) error) error {
		r, err := scanStored(scan)
		if err != nil {
			return err
		}
		if bytes.Compare(r.id[:], before[:]) <= 0 {
			return fmt.Errorf("%w: checkpoint %s saved after %s", ErrDamaged, r.id, before)
		}
		n, last, before = n+1, r.key, r.id
		return nil
	})
	if err == nil && (n != h.count || last != keyOf(h.line, h.at)) {
		err = missingCheckpoints(n, h)
	}
	return err
}

// checkTally returns an error unless a gap in a line was made on purpose. A line from which
// nothing was ever removed has no gaps; for other lines, tally counts the remaining
// checkpoints. The parameter found is the number of checkpoints that the caller has read
// with keys in [from, to).
func checkTally(c *database.Conn, h *head, from, to int64, found int) error {
	var n, last, between int64
	_, err := c.Row("SELECT count(*), max(key), coalesce(sum(key>=? AND key<?),0) FROM checkpoint WHERE key>? AND key<=?",
		[]any{from, to, keyOf(h.line, 0), keyOf(h.line, maxOrdinal)}, &n, &last, &between)
	if err != nil {
		return err
	}
	if n != h.count || last != keyOf(h.line, h.at) || n == h.last {
		return missingCheckpoints(n, h)
	}
	if between != int64(found) {
		return fmt.Errorf("%w: found %d of %d checkpoints", ErrDamaged, found, between)
	}
	return nil
}

func missingHead(id checkpoint.ID) error {
	return fmt.Errorf("%w: missing head %s", ErrDamaged, id)
}

func missingCheckpoints(n int64, h *head) error {
	return fmt.Errorf("%w: %d checkpoints up to %s, want %d", ErrDamaged, n, h.id, h.count)
}
