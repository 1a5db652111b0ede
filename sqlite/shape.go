package sqlite

import (
	"fmt"

	"github.com/treadle-go/treadle/internal/saved"
	"github.com/treadle-go/treadle/sqlite/internal/database"
)

// shapeOf finds or creates the shape with the given names.
func (db *DB) shapeOf(c *database.Conn, names []string, fresh bool) (int64, error) {
	key := saved.EncodeNames(names)
	if id, ok := db.known.shapes.Get(key); ok {
		return id, nil
	}
	if !fresh {
		return 0, errStale
	}
	var id, sum int64
	ok, err := c.Row("SELECT id, sum FROM shape WHERE names=?", []any{[]byte(key)}, &id, &sum)
	switch {
	case err != nil:
		return 0, err
	case !ok:
		if id, err = c.AddName("shape", "names", key); err != nil {
			return 0, err
		}
	case !database.Intact(sum, database.NameSum(id, []byte(key))):
		return 0, database.Changed("shape %d", id)
	}
	db.known.shapes.Set(key, id)
	return id, nil
}

// namesOf returns the names of a shape. Shape 0 has no names.
func namesOf(c *database.Conn, shape int64) ([]string, error) {
	if shape == 0 {
		return nil, nil
	}
	var raw []byte
	var sum int64
	ok, err := c.Row("SELECT names, sum FROM shape WHERE id=?", []any{shape}, &raw, &sum)
	if err != nil {
		return nil, err
	}
	names, readable := saved.DecodeNames(raw)
	if !ok || !readable {
		return nil, fmt.Errorf("%w: missing or unreadable shape %d", ErrDamaged, shape)
	}
	if !database.Intact(sum, database.NameSum(shape, raw)) {
		return names, database.Changed("shape %d", shape)
	}
	return names, nil
}

// shapeNames is like namesOf, but for readers, which cache the names.
func (db *DB) shapeNames(c *database.Conn, id int64) ([]string, error) {
	if names, ok := db.shapes.Get(id); ok {
		return names, nil
	}
	names, err := namesOf(c, id)
	if err == nil {
		db.shapes.Set(id, names)
	}
	return names, err
}
