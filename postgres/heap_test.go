package postgres

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/treadle-go/treadle/checkpoint"
)

// liveHeap returns the bytes of reachable objects.
func liveHeap() int64 {
	runtime.GC()
	runtime.GC() // the first one may only have queued finalizers
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A head that retains the growth it was made by retains all growths before it, with their
// chunks.
func TestHeadRetainsNoChunks(t *testing.T) {
	db := fresh(t, quick(t), Options{})
	key := checkpoint.Key{Thread: "thread"}
	put := func(i int) {
		p := next(key, i, checkpoint.Change{Channel: "l", Version: uint64(i + 1), List: true, Items: [][]byte{bytes.Repeat([]byte{'x'}, 100_000)}})
		if err := db.Put(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		key.ID = p.ID
	}
	put(0)
	before := liveHeap()
	for i := range 100 {
		put(i + 1)
	}
	if grown := liveHeap() - before; grown > 2_000_000 {
		t.Errorf("live heap grew by %d bytes after saving 10 MB on one thread", grown)
	}
	runtime.KeepAlive(db)
}
