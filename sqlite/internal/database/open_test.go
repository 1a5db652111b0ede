package database

import (
	"path/filepath"
	"testing"
)

// The cost of a commit grows with the writer's cache, so that cache is small.
func TestPageCachesAreLimited(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "a.db"))
	total := 0
	for name, conns := range map[string]chan *Conn{"writer": db.Writer, "readers": db.Readers} {
		var held []*Conn
		for range cap(conns) {
			c := <-conns
			held = append(held, c)
			var kib int
			if err := c.Ready(); err != nil {
				t.Fatal(err)
			}
			if found, err := c.Row("PRAGMA cache_size", nil, &kib); !found || err != nil || kib >= 0 {
				t.Fatalf("%s: cache_size %d, %v: want a size in KiB", name, kib, err)
			}
			total -= kib
			if name == "writer" && -kib > 8<<10 {
				t.Errorf("the writer caches %d KiB", -kib)
			}
		}
		for _, c := range held {
			conns <- c
		}
	}
	if total > 72<<10 {
		t.Errorf("the connections cache %d KiB", total)
	}
}
