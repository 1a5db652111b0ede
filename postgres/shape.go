package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/treadle-go/treadle/internal/saved"
)

// shapeOf finds or creates the shape with the given names. A shape is created before the
// put that needs it; an unused shape does no harm.
func (db *DB) shapeOf(ctx context.Context, names []string) (int64, error) {
	if len(names) == 0 {
		return 0, nil
	}
	key := saved.EncodeNames(names)
	if id, ok := db.known.shapes.Get(key); ok {
		return id, nil
	}
	var id int64
	err := db.conn.Read(ctx, func(c *pgx.Conn) error { // idempotent
		return c.QueryRow(ctx, db.sql.shapeOf, []byte(key)).Scan(&id)
	})
	if err != nil {
		return 0, err
	}
	db.known.shapes.Set(key, id)
	db.known.names.Set(id, names)
	return id, nil
}

// namesOf returns the names of a shape. Shape 0 has no names.
func (db *DB) namesOf(ctx context.Context, shape int64) ([]string, error) {
	if shape == 0 {
		return nil, nil
	}
	if names, ok := db.known.names.Get(shape); ok {
		return names, nil
	}
	var raw []byte
	err := db.conn.Read(ctx, func(c *pgx.Conn) error { return c.QueryRow(ctx, db.sql.names, shape).Scan(&raw) })
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, err
	}
	names, readable := saved.DecodeNames(raw)
	if err != nil || !readable {
		return nil, fmt.Errorf("%w: missing or unreadable shape %d", ErrDamaged, shape)
	}
	db.known.names.Set(shape, names)
	db.known.shapes.Set(saved.EncodeNames(names), shape)
	return names, nil
}
