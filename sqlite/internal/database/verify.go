package database

import (
	"fmt"
	"maps"
	"slices"

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

// Intact reports whether a row has the expected checksum.
func Intact(have, want int64) bool { return have == want&saved.SumMask }

// Changed returns the error for a row that is not intact.
func Changed(format string, args ...any) error {
	return fmt.Errorf("%w: checksum mismatch: %s", ErrDamaged, fmt.Sprintf(format, args...))
}

// NameSum returns the checksum of a row that consists of a name and its number.
func NameSum(id int64, name []byte) int64 { return saved.Sum(10).Int(id).Bytes(name).Value() }

// AddName inserts a name into a table of numbered names and returns its ID.
func (c *Conn) AddName(table, column, name string) (int64, error) {
	// The checksum depends on the ID, so it is set afterward.
	id, err := c.Insert("INSERT INTO "+table+"("+column+",sum) VALUES(?,0)", []byte(name))
	if err != nil {
		return 0, err
	}
	_, err = c.Change("UPDATE "+table+" SET sum=? WHERE id=?", NameSum(id, []byte(name)), id)
	return id, err
}

// AddWitness records that something exists: see [Conn.Absent].
func (c *Conn) AddWitness(hash int64) error {
	_, err := c.Change("INSERT OR IGNORE INTO witness(hash) VALUES(?)", hash)
	return err
}

// RemoveWitness records that something no longer exists: see [Conn.Absent].
func (c *Conn) RemoveWitness(hash int64) error {
	_, err := c.Change("DELETE FROM witness WHERE hash=?", hash)
	return err
}

// Absent returns ErrDamaged if something that was not found should exist.
func (c *Conn) Absent(hash int64, format string, args ...any) error {
	var there int64
	ok, err := c.Row("SELECT hash FROM witness WHERE hash=?", []any{hash}, &there)
	if err != nil || !ok {
		return err
	}
	return fmt.Errorf("%w: missing %s", ErrDamaged, fmt.Sprintf(format, args...))
}

// NoneOf returns an error if one of the queries returns a row. The queries are keyed by a
// description of what they look for.
func (c *Conn) NoneOf(queries map[string]string) error {
	for _, what := range slices.Sorted(maps.Keys(queries)) {
		var id int64
		ok, err := c.Row(queries[what], nil, &id)
		if err == nil && ok {
			err = fmt.Errorf("%w: %s: %d", ErrDamaged, what, id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// distinct returns an error if two tables or indexes share a root page, because one would
// then be mistaken for the other.
func (c *Conn) distinct() error {
	var twice int
	_, err := c.Row("SELECT count(rootpage)-count(DISTINCT rootpage) FROM sqlite_schema WHERE rootpage>0", nil, &twice)
	if err == nil && twice != 0 {
		err = fmt.Errorf("%w: two tables share a root page", ErrDamaged)
	}
	return err
}

// Sound runs SQLite's integrity check.
func (c *Conn) Sound() error {
	var verdict string
	_, err := c.Row("PRAGMA integrity_check(1)", nil, &verdict)
	if err == nil && verdict != "ok" {
		err = fmt.Errorf("%w: %s", ErrDamaged, verdict)
	}
	return err
}
