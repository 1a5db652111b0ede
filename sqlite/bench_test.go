package sqlite

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/checkpoint/checkpointtest"
	"github.com/treadle-go/treadle/sqlite/internal/database"
)

// fileSize is that of the file after a checkpoint of its log.
func fileSize(tb testing.TB, db *DB) int64 {
	err := db.conn.Write(tb.Context(), func(*database.Conn) error { return nil })
	if err == nil {
		err = db.conn.CutLog(tb.Context(), 0)
	}
	if err != nil {
		tb.Fatal(err)
	}
	info, err := os.Stat(db.conn.Path)
	if err != nil {
		tb.Fatal(err)
	}
	return info.Size()
}

func TestFileIsAtMostTwiceItsMessages(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "test.db"), nil)
	checkpointtest.Footprint(t, db, func() int64 { return fileSize(t, db) }, 2)
}

func BenchmarkSaver(b *testing.B) {
	for name, o := range map[string]*Options{"normal": nil, "powersafe": {PowerSafe: true}} {
		b.Run(name, func(b *testing.B) {
			checkpointtest.Benchmark(b, func(b *testing.B) (checkpoint.Saver, func() int64) {
				db := open(b, filepath.Join(b.TempDir(), "bench.db"), o)
				return db, func() int64 { return fileSize(b, db) }
			})
		})
	}
}

// A cold load is a get of 1,000 messages right after Open.
func BenchmarkColdLoad(b *testing.B) {
	path := filepath.Join(b.TempDir(), "bench.db")
	db, err := Open(path, nil)
	if err != nil {
		b.Fatal(err)
	}
	c := checkpointtest.NewConversation(db, "thread")
	for range 500 {
		c.Turn(b)
	}
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		db, err := Open(path, nil)
		if err != nil {
			b.Fatal(err)
		}
		cp, err := db.Get(b.Context(), checkpoint.Key{Thread: "thread"})
		if err != nil || len(cp.Values["messages"].Items) != 1000 {
			b.Fatalf("%v, %d messages", err, len(cp.Values["messages"].Items))
		}
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
