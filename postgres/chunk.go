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

// A chunk (saved.Chunk) is a row, and stays one. To make one of every 32, as
// package sqlite does, costs more than it saves here: the old rows go on taking
// their place until a vacuum, and the log has everything twice.

// errMissing: a chunk was not there when it was looked for. Either the
// checkpoint was removed after its row was read, or the data is damaged.
var errMissing = errors.New("postgres: a chunk is missing")

// fetch reads what is wanted and not yet there, in one round trip.
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
	err := db.read(ctx, func(c *pgx.Conn) error {
		rows, err := c.Query(ctx, db.sql.chunks, line, chain, lo, hi)
		if err != nil {
			return err
		}
		var k, seq int64
		var data []byte
		_, err = pgx.ForEachRow(rows, []any{&k, &seq, &data}, func() error {
			if seq != int64(len(have[k])) {
				return nil // a gap, or what an earlier try has read
			}
			one, ok := saved.ParseChunk(data)
			if !ok {
				return fmt.Errorf("%w: chunk %d of chain %d is unreadable", ErrDamaged, seq, k)
			}
			have[k] = append(have[k], one)
			data = nil // the chunk has it
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
