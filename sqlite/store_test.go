package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/treadle-go/treadle/store"
	"github.com/treadle-go/treadle/store/storetest"
)

// Both kinds of database pass the suite, and do as memory does, with indexes from
// the first item on and without.
func TestStore(t *testing.T) {
	t.Parallel()
	file := func(t *testing.T) *shelf { return open(t, filepath.Join(t.TempDir(), "test.db"), nil).shelf }
	for name, shelf := range map[string]func(*testing.T) *shelf{
		"file":    file,
		"memory":  func(t *testing.T) *shelf { return open(t, inMemory, nil).shelf },
		"indexes": func(t *testing.T) *shelf { return eager(file(t)) },
	} {
		open := func(t *testing.T) store.Backend { return shelf(t) }
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Run("suite", func(t *testing.T) { storetest.Run(t, open) })
			t.Run("differential", func(t *testing.T) { storetest.Differential(t, open) })
		})
	}
}

// eager makes a shelf use indexes for any number of items.
func eager(s *shelf) *shelf {
	s.limits = limits{few: -1}
	return s
}

func BenchmarkStore(b *testing.B) {
	storetest.Benchmark(b, func(b *testing.B) store.Backend { return open(b, filepath.Join(b.TempDir(), "test.db"), nil).shelf })
}
