package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/treadle-go/treadle/store"
	"github.com/treadle-go/treadle/store/storetest"
)

// Both kinds of database pass the suite, and do as memory does.
func TestStore(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]func(*testing.T) string{
		"file":   func(t *testing.T) string { return filepath.Join(t.TempDir(), "test.db") },
		"memory": func(*testing.T) string { return inMemory },
	} {
		shelf := func(t *testing.T) store.Backend { return &open(t, path(t), nil).shelf }
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Run("suite", func(t *testing.T) { storetest.Run(t, shelf) })
			t.Run("differential", func(t *testing.T) { storetest.Differential(t, shelf) })
		})
	}
}
