package sqlite

import (
	"fmt"

	"github.com/treadle-go/treadle/internal/saved"
)

// shapeOf finds or creates the shape with the given names.
func (db *DB) shapeOf(c *conn, names []string, fresh bool) (int64, error) {
	key := saved.EncodeNames(names)
	if id, ok := db.known.shapes.Get(key); ok {
		return id, nil
	}
	if !fresh {
		return 0, errStale
	}
	var id int64
	var sum sum
	ok, err := c.row("SELECT id, sum FROM shape WHERE names=?", []any{[]byte(key)}, &id, &sum)
	if err != nil {
		return 0, err
	}
	if ok {
		if !c.intact(sum, nameSum(id, []byte(key))) {
			return 0, changed("shape %d", id)
		}
	}
	if !ok {
		if id, err = c.insert("INSERT INTO shape(names) VALUES(?)", []byte(key)); err != nil {
			return 0, err
		}
		if _, err := c.change("UPDATE shape SET sum=? WHERE id=?", nameSum(id, []byte(key))&saved.SumMask, id); err != nil {
			return 0, err
		}
	}
	db.known.shapes.Set(key, id)
	return id, nil
}

// namesOf returns the names of a shape. Shape 0 has no names.
func (c *conn) namesOf(shape int64) ([]string, error) {
	if shape == 0 {
		return nil, nil
	}
	var raw []byte
	var sum sum
	ok, err := c.row("SELECT names, sum FROM shape WHERE id=?", []any{shape}, &raw, &sum)
	if err != nil {
		return nil, err
	}
	names, readable := saved.DecodeNames(raw)
	if !ok || !readable {
		return nil, fmt.Errorf("%w: shape %d is missing or unreadable", ErrDamaged, shape)
	}
	if !c.intact(sum, nameSum(shape, raw)) {
		return names, changed("shape %d", shape)
	}
	return names, nil
}

// shapeNames is like namesOf, but for readers, which cache the names.
func (db *DB) shapeNames(c *conn, id int64) ([]string, error) {
	if names, ok := db.shapes.Get(id); ok {
		return names, nil
	}
	names, err := c.namesOf(id)
	if err == nil {
		db.shapes.Set(id, names)
	}
	return names, err
}
