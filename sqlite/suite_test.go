package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/checkpoint/checkpointtest"
	"github.com/treadle-go/treadle/internal/race"
)

// open opens a database that is closed with the test. A new one is a copy of
// emptyFile: to make its tables takes longer than most tests do.
func open(t testing.TB, path string, o *Options) *DB {
	t.Helper()
	if _, err := os.Stat(path); path != inMemory && errors.Is(err, fs.ErrNotExist) {
		raw, err := emptyFile()
		if err == nil {
			err = os.WriteFile(path, raw, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	db, err := Open(path, o)
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

// emptyFile is what Open makes.
var emptyFile = sync.OnceValues(func() (raw []byte, err error) {
	dir, err := os.MkdirTemp("", "treadle")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "empty.db")
	db, err := Open(path, nil)
	if err != nil {
		return nil, err
	}
	if err := db.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

func TestSaver(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]func(*testing.T) string{
		"file":   func(t *testing.T) string { return filepath.Join(t.TempDir(), "test.db") },
		"memory": func(*testing.T) string { return inMemory },
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
