package postgres

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/treadle-go/treadle/checkpoint/checkpointtest"
)

// Whatever is done, the database says what a Memory says. One of the handles is
// pooler-safe.
func TestDatabaseBehavesLikeMemory(t *testing.T) {
	url := quick(t)
	checkpointtest.Differential(t, func(t *testing.T) func(testing.TB, int) *DB {
		schema := fresh(t, url, Options{}).schema
		return func(t testing.TB, handle int) *DB {
			return open(t, url, &Options{Schema: schema, PoolerSafe: handle == 1})
		}
	}, checkTables)
}

// checkTables checks what the tables promise each other.
func checkTables(t testing.TB, db *DB) {
	t.Helper()
	for what, query := range map[string]string{
		"line whose count or bytes are wrong": `SELECT id FROM {schema}.line l WHERE
			checkpoints<>(SELECT count(*) FROM {schema}.checkpoint WHERE line=l.id) OR
			bytes<>(SELECT coalesce(sum(length(record)+coalesce(length(control),length(echo),0)+coalesce(length(metadata),0)),0) FROM {schema}.checkpoint WHERE line=l.id)
				+(SELECT coalesce(sum(length(data)),0) FROM {schema}.chunk WHERE line=l.id)`,
		"line whose head is not its newest":    `SELECT id FROM {schema}.line l WHERE head IS DISTINCT FROM (SELECT c.id FROM {schema}.checkpoint c WHERE line=l.id ORDER BY c.id DESC LIMIT 1)`,
		"line without a thread":                `SELECT id FROM {schema}.line WHERE thread NOT IN (SELECT id FROM {schema}.thread)`,
		"checkpoint without a line":            `SELECT line FROM {schema}.checkpoint WHERE line NOT IN (SELECT id FROM {schema}.line)`,
		"chunk without a line":                 `SELECT line FROM {schema}.chunk WHERE line NOT IN (SELECT id FROM {schema}.line)`,
		"pending write without its checkpoint": `SELECT line FROM {schema}.pending p WHERE NOT EXISTS (SELECT FROM {schema}.checkpoint c WHERE c.line=p.line AND c.id=p.id)`,
		"checkpoint without its run": `SELECT c.line FROM {schema}.checkpoint c JOIN {schema}.line l ON l.id=c.line
			WHERE c.run IS NOT NULL AND NOT EXISTS (SELECT FROM {schema}.run r WHERE r.thread=l.thread AND r.id=c.run)`,
		"run without a thread":           `SELECT id FROM {schema}.run WHERE thread NOT IN (SELECT id FROM {schema}.thread)`,
		"chain that was never given out": `SELECT line FROM {schema}.chunk k WHERE chain>=(SELECT next FROM {schema}.line l WHERE l.id=k.line)`,
		"item whose record is not the current one": `SELECT i.seq FROM {schema}.store_item i WHERE NOT EXISTS (SELECT FROM {schema}.store_record r WHERE r.seq=i.seq AND r.name=i.name AND r.kind=1
			AND NOT EXISTS (SELECT FROM {schema}.store_record n WHERE n.name=r.name AND n.key=r.key AND n.seq>r.seq))`,
		"current record without its item": `SELECT r.seq FROM {schema}.store_record r WHERE r.kind=1 AND NOT EXISTS (SELECT FROM {schema}.store_item i WHERE i.seq=r.seq)
			AND NOT EXISTS (SELECT FROM {schema}.store_record n WHERE n.name=r.name AND n.key=r.key AND n.seq>r.seq)`,
		"life without a record":   `SELECT seq FROM {schema}.store_life WHERE seq NOT IN (SELECT seq FROM {schema}.store_record)`,
		"vector without a record": `SELECT seq FROM {schema}.store_vector WHERE seq NOT IN (SELECT seq FROM {schema}.store_record)`,
		"record that is over without its end, or the other way round": `SELECT r.seq FROM {schema}.store_record r LEFT JOIN {schema}.store_life l ON l.seq=r.seq
			WHERE (l.ended IS NULL)<>EXISTS (SELECT FROM {schema}.store_item i WHERE i.seq=r.seq)`,
		"vector of an item with the wrong name": `SELECT v.seq FROM {schema}.store_vector v LEFT JOIN {schema}.store_item i ON i.seq=v.seq WHERE v.name IS DISTINCT FROM i.name`,
		"number that was never given out":       `SELECT seq FROM {schema}.store_record WHERE seq>(SELECT seq FROM {schema}.store_state)`,
		"run that no checkpoint is of": `SELECT r.id FROM {schema}.run r
			WHERE NOT EXISTS (SELECT FROM {schema}.checkpoint c JOIN {schema}.line l ON l.id=c.line WHERE l.thread=r.thread AND c.run=r.id)`,
	} {
		var id int64
		err := db.pool.QueryRow(t.Context(), strings.ReplaceAll(query, "{schema}", db.quoted)).Scan(&id)
		if err == nil {
			t.Errorf("there is a %s: %d", what, id)
		} else if !errors.Is(err, pgx.ErrNoRows) {
			t.Fatalf("%s: %v", what, err)
		}
	}
	checkGarbage(t, db)
}

// checkGarbage looks for chunks beyond what any checkpoint of the line needs.
func checkGarbage(t testing.TB, db *DB) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), db.pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(t.Context(), "SELECT id FROM "+db.quoted+".line")
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
