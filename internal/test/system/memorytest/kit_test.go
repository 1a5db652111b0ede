package memorytest

import (
	"testing"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/sqlite"
	"github.com/treadle-go/treadle/store"
)

var memories = store.Namespace{"memories"}

// openFile opens a SQLite file and closes it after the test. Closing it earlier is
// allowed.
func openFile(t *testing.T, path string) *sqlite.DB {
	t.Helper()
	db, err := sqlite.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func newStore(t *testing.T, db *sqlite.DB, opts *store.Options) *store.Store {
	t.Helper()
	s, err := db.Store(opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newStoreManager(t *testing.T, s *store.Store, model llm.Model) *memory.StoreManager {
	t.Helper()
	m, err := memory.NewStoreManager(model, &memory.StoreManagerOptions{Namespace: memories, Store: s})
	if err != nil {
		t.Fatal(err)
	}
	return m
}
