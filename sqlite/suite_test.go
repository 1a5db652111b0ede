package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/checkpoint/checkpointtest"
	"github.com/treadle-go/treadle/internal/test/race"
	"github.com/treadle-go/treadle/sqlite/internal/database"
	"github.com/treadle-go/treadle/sqlite/internal/databasetest"
)

// open opens a database that is closed with the test.
func open(t testing.TB, path string, opts *Options) *DB {
	t.Helper()
	databasetest.Create(t, path)
	db, err := Open(path, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return db
}

func TestSaver(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]func(*testing.T) string{
		"file":   func(t *testing.T) string { return filepath.Join(t.TempDir(), "test.db") },
		"memory": func(*testing.T) string { return database.InMemory },
	} {
		if !race.Runs(name == "file") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Run("saver", func(t *testing.T) {
				checkpointtest.Run(t, func(t *testing.T) checkpoint.Saver { return open(t, path(t), nil) })
			})
			t.Run("cache", func(t *testing.T) {
				checkpointtest.RunCache(t, func(t *testing.T) checkpoint.Cache { return open(t, path(t), nil).Cache() })
			})
		})
	}
}
