package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/treadle-go/treadle/internal/saved"
)

// A chunk (saved.Chunk) is a row, and rows are never merged. Merging every 32 chunks, as
// package sqlite does, would cost more than it saves here: the old rows occupy space
// until a vacuum, and the write-ahead log would contain everything twice.

// errMissing means that a chunk was not found. Either the checkpoint was removed after
// its row was read, or the data is damaged.
var errMissing = errors.New("postgres: missing chunk")

// fetch reads the wanted chunks that are not in have, in one round trip.
func (db *DB) fetch(ctx context.Context, line int64, want map[int64]int64, have saved.Chains) error {
	var chain, lo, hi []int64
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if n := int64(len(have[k])); want[k] >= n {
			chain, lo, hi = append(chain, k), append(lo, n), append(hi, want[k])
		}
	}
	if len(chain) == 0 {
		return nil
	}
	err := db.conn.Read(ctx, func(c *pgx.Conn) error {
		rows, err := c.Query(ctx, db.sql.chunks, line, chain, lo, hi)
		if err != nil {
			return err
		}
		var k, seq int64
		var data []byte
		_, err = pgx.ForEachRow(rows, []any{&k, &seq, &data}, func() error {
			if seq != int64(len(have[k])) {
				return nil // a gap, or already read by an earlier attempt
			}
			one, ok := saved.ParseChunk(data)
			if !ok {
				return fmt.Errorf("%w: unreadable chunk %d of chain %d", ErrDamaged, seq, k)
			}
			have[k] = append(have[k], one)
			data = nil // retained by the chunk
			return nil
		})
		return err
	})
	if err != nil {
		return err
	}
	for i, k := range chain {
		if int64(len(have[k])) <= hi[i] {
			return errMissing
		}
	}
	return nil
}
