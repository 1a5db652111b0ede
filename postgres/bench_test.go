package postgres

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/checkpoint/checkpointtest"
	"github.com/treadle-go/treadle/internal/test/pgtest"
	"github.com/treadle-go/treadle/postgres/internal/databasetest"
)

// diskSize is that of all tables and indexes of the schema.
func diskSize(tb testing.TB, db *DB) (n int64) {
	err := db.conn.Pool.QueryRow(tb.Context(), "SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r'", db.conn.Schema).Scan(&n)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// vacuum does what the server does by itself from time to time.
func vacuum(tb testing.TB, db *DB) {
	for _, table := range []string{"line", "checkpoint", "chunk", "pending", "run", "thread"} {
		if _, err := db.conn.Pool.Exec(tb.Context(), "VACUUM "+db.conn.Quoted+"."+table); err != nil {
			tb.Fatal(err)
		}
	}
}

func TestConversationSizeIsBounded(t *testing.T) {
	db := fresh(t, quick(t), Options{})
	checkpointtest.Footprint(t, db, func() int64 { return diskSize(t, db) }, 3)
}

func BenchmarkSaver(b *testing.B) {
	for _, sync := range []string{"on", "off"} {
		for name, o := range modes {
			o.MaxConns = 16
			b.Run(fmt.Sprint(name, "/sync=", sync), func(b *testing.B) {
				checkpointtest.Benchmark(b, func(b *testing.B) (checkpoint.Saver, func() int64) {
					db := fresh(b, databasetest.Set(b, pgtest.URL(b), "synchronous_commit", sync), o)
					return db, func() int64 { return diskSize(b, db) }
				})
			})
		}
	}
}

// A step waits for the disk once, as a commit of a single row does: this is the
// measure beside it.
func BenchmarkOneRow(b *testing.B) {
	for _, sync := range []string{"on", "off"} {
		b.Run("sync="+sync, func(b *testing.B) {
			db := fresh(b, databasetest.Set(b, pgtest.URL(b), "synchronous_commit", sync), Options{})
			var took []time.Duration
			for b.Loop() {
				start := time.Now()
				if _, err := db.conn.Pool.Exec(b.Context(), "INSERT INTO "+db.conn.Quoted+".chunk (line, chain, seq, data) VALUES (1, 1, $1, $2)", len(took), make([]byte, 500)); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(start))
			}
			b.ReportMetric(float64(databasetest.Median(took).Nanoseconds())/1000, "p50-µs/row")
		})
	}
}

// A vacuum after half of the turns gives the second half the room of rows that
// the first has replaced.
func Benchmark1000TurnsVacuumedAt500(b *testing.B) {
	for b.Loop() {
		db := fresh(b, pgtest.URL(b), Options{})
		empty := diskSize(b, db)
		c := checkpointtest.NewConversation(db, "thread")
		for turn := range 1000 {
			if turn == 500 {
				logTables(b, db)
				vacuum(b, db)
			}
			c.Turn(b)
		}
		b.ReportMetric(float64(diskSize(b, db)-empty)/float64(c.Bytes), "bytes/message-byte")
	}
}

// logTables tells the size of each table and of its indexes, with -v.
func logTables(b *testing.B, db *DB) {
	if !testing.Verbose() {
		return
	}
	rows, err := db.conn.Pool.Query(b.Context(), "SELECT c.relname || ' ' || pg_table_size(c.oid) || ' + ' || pg_indexes_size(c.oid) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r' ORDER BY 1", db.conn.Schema)
	if err != nil {
		b.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		b.Fatal(err)
	}
	b.Log(strings.Join(tables, "\n"))
}
