package postgres

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/budget"
	"github.com/treadle-go/treadle/ledger"
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

// A head has the control of its checkpoint, with the whole input in it.
func TestRememberedHeadsStayWithinBudget(t *testing.T) {
	db := fresh(t, quick(t), Options{})
	b := budget.New(4 << 20)
	db.Ledger().(ledger.MemorySharer).ShareMemory(b)
	put := func(i int) {
		p := next(checkpoint.Key{Thread: fmt.Sprint("thread ", i)}, 0, item(0))
		p.Control = bytes.Repeat([]byte{'1'}, 500_000)
		if err := db.Put(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	put(-1)
	before := liveHeap()
	for i := range 50 {
		put(i)
	}
	if b.Over() || b.ByKind()[memoryKind] < 1<<20 {
		t.Errorf("%d of %d bytes used: %v", b.Used(), b.Limit(), b.ByKind())
	}
	if grown := liveHeap() - before; grown > 8<<20 {
		t.Errorf("live heap grew by %d bytes with a budget of 4 MiB", grown)
	}
	runtime.KeepAlive(db)
}
