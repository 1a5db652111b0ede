package memorytest

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/sqlite"
	"github.com/treadle-go/treadle/store"
)

// The store can use a different file than the threads.
func TestErasureScrubsAllFiles(t *testing.T) {
	dir := t.TempDir()
	threads, items := openFile(t, filepath.Join(dir, "threads.db")), openFile(t, filepath.Join(dir, "items.db"))
	s := newStore(t, items, nil)
	e := &memory.Erasure{Namespaces: []store.Namespace{{"m", "ann"}}, Store: s, Saver: threads, KeepCache: true, Files: []checkpoint.Scrubber{items}}
	if report, err := e.Run(t.Context()); err != nil || !report.Scrubbed || report.CacheCleared {
		t.Errorf("report: %+v, %v", report, err)
	}
	if err := threads.Close(); err != nil {
		t.Fatal(err)
	}
	if report, err := e.Run(t.Context()); !errors.Is(err, sqlite.ErrClosed) || report.Scrubbed {
		t.Errorf("report: %+v, %v", report, err)
	}
}
