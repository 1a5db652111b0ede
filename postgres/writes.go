package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/saved"
	"github.com/treadle-go/treadle/postgres/internal/database"
)

// writeArrays returns the columns of pending writes. If several writes have the same task
// and kind, the last one counts, at the place of the first. The columns are nil if there
// are no writes.
func writeArrays(writes []checkpoint.Write) (task, kind, data [][]byte) {
	type id struct{ task, kind string }
	at := map[id]int{}
	for _, w := range writes {
		of, raw := saved.WriteRow(&w)
		k := id{w.Task, string(of)}
		if i, ok := at[k]; ok {
			data[i] = raw
			continue
		}
		at[k] = len(task)
		task, kind, data = append(task, database.Bytea(w.Task)), append(kind, of), append(data, raw)
	}
	return task, kind, data
}

// PutWrites implements [checkpoint.Saver]. If the connection breaks and at.ID is set, the
// writes are resent, even if the head has moved since; writing them twice changes
// nothing.
func (db *DB) PutWrites(ctx context.Context, at checkpoint.Key, fence uint64, writes []checkpoint.Write) error {
	if fence > math.MaxInt64 {
		return fmt.Errorf("postgres: fence %d exceeds the bigint range", fence)
	}
	task, kind, data := writeArrays(writes)
	var status int
	var epoch *int64
	earlier, err := db.conn.Send(ctx, !at.ID.IsZero(), func(c *pgx.Conn) error {
		return c.QueryRow(ctx, db.sql.putWrites, database.Bytea(at.Thread), database.Bytea(at.Namespace), uuidOr(at.ID), int64(fence), task, kind, data).Scan(&status, &epoch)
	})
	switch {
	case err != nil:
		return err
	case status == statusFenced:
		err = saved.Fenced(at.Thread, uint64(*epoch), fence)
	case status == statusNotFound:
		err = saved.NoCheckpoint(at)
	}
	if err != nil && earlier != nil {
		// The first attempt may have succeeded.
		return fmt.Errorf("%w: %w", ErrOutcomeUnknown, errors.Join(earlier, err))
	}
	return err
}
