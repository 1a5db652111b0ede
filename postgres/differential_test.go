package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/treadle-go/treadle/checkpoint/checkpointtest"
	"github.com/treadle-go/treadle/postgres/internal/databasetest"
)

// Whatever is done, the database says what a Memory says. One of the handles is
// pooler-safe.
func TestDatabaseBehavesLikeMemory(t *testing.T) {
	url := quick(t)
	checkpointtest.Differential(t, func(t *testing.T) func(testing.TB, int) *DB {
		schema := fresh(t, url, Options{}).conn.Schema
		return func(t testing.TB, handle int) *DB {
			return open(t, url, &Options{Schema: schema, PoolerSafe: handle == 1})
		}
	}, checkTables)
}

// checkTables checks the consistency of the tables.
func checkTables(t testing.TB, db *DB) {
	t.Helper()
	databasetest.CheckTables(t, db.conn)
	checkGarbage(t, db)
}

// checkGarbage looks for chunks beyond what any checkpoint of the line needs.
func checkGarbage(t testing.TB, db *DB) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), db.conn.Pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(t.Context(), "SELECT id FROM "+db.conn.Quoted+".line")
		if err != nil {
			return err
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		if err != nil {
			return err
		}
		r := &remover{db, t.Context(), tx}
		for _, line := range lines {
			live, err := r.liveChunks(line)
			if err != nil {
				return err
			}
			rows, err := tx.Query(t.Context(), db.sql.chunkPlaces, line)
			if err != nil {
				return err
			}
			var chain, seq int64
			_, err = pgx.ForEachRow(rows, []any{&chain, &seq}, func() error {
				if hi, ok := live[chain]; !ok || seq > hi {
					t.Errorf("nothing needs chunk %d of chain %d in line %d", seq, chain, line)
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
