package sqlite

import (
	"fmt"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/sqlite/internal/database"
)

// runRow reads a run; number 0 means no run.
func runRow(c *database.Conn, line, number int64) (r run, err error) {
	if number == 0 {
		return r, nil
	}
	var name []byte
	var sum int64
	ok, err := c.Row("SELECT name, metadata, sum FROM run WHERE line=? AND run=?", []any{line, number}, &name, &r.metadata, &sum)
	if err != nil {
		return r, err
	}
	r.number, r.name = number, unpackName(name)
	if !ok || r.name == "" {
		return r, fmt.Errorf("%w: missing run %d of line %d", ErrDamaged, number, line)
	}
	if !database.Intact(sum, runSum(line, number, name, r.metadata)) {
		return r, database.Changed("run %d of line %d", number, line)
	}
	return r, nil
}

// packName returns the stored form of a run's name. Most names are UUIDs in canonical
// form, which take 36 bytes as text but 16 in binary.
func packName(name string) []byte {
	if id, err := checkpoint.ParseID(name); err == nil && id.String() == name && !id.IsZero() {
		return append([]byte{1}, id[:]...)
	}
	return append([]byte{0}, name...)
}

// unpackName returns the name of a run, or "" if the stored form is invalid.
func unpackName(b []byte) string {
	switch {
	case len(b) == 1+len(checkpoint.ID{}) && b[0] == 1:
		return checkpoint.ID(b[1:]).String()
	case len(b) > 1 && b[0] == 0:
		return string(b[1:])
	}
	return ""
}
