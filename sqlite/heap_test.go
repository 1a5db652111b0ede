package sqlite

import (
	"bytes"
	"path/filepath"
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

// putTurns saves n checkpoints of a thread, each of which appends an item of the given size.
func putTurns(t *testing.T, db *DB, thread string, n, size int) {
	t.Helper()
	var head checkpoint.ID
	for i := range n {
		p := &checkpoint.Put{Parent: head, Head: head, Step: i, Source: checkpoint.Loop, Control: []byte(`{"next":[]}`),
			Changes: []checkpoint.Change{{Channel: "messages", Version: uint64(i + 1), List: true, Items: [][]byte{bytes.Repeat([]byte{'x'}, size)}}}}
		p.Key = checkpoint.Key{Thread: thread, ID: checkpoint.NewID(i, head)}
		if err := db.Put(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		head = p.ID
	}
}

// A head that retains the growth it was made by retains all growths before it, with their
// chunks.
func TestHeadRetainsNoChunks(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "test.db"), nil)
	putTurns(t, db, "warm up", 2, 10)
	before := liveHeap()
	putTurns(t, db, "thread", 200, 100_000)
	if grown := liveHeap() - before; grown > 2_000_000 {
		t.Errorf("live heap grew by %d bytes after saving 20 MB on one thread", grown)
	}
	runtime.KeepAlive(db)
}

// The slots of a head share memory with the record that they were read from, which has the
// whole control.
func TestHeadRetainsNoRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	const threads = 50
	first := open(t, path, nil)
	heads := make([]checkpoint.ID, threads)
	for i := range heads {
		p := &checkpoint.Put{Step: 0, Source: checkpoint.Input, Control: bytes.Repeat([]byte{'1'}, 400_000),
			Changes: []checkpoint.Change{{Channel: "n", Version: 1, Data: []byte("1")}}}
		p.Key = checkpoint.Key{Thread: string(rune('a' + i)), ID: checkpoint.NewID(0, checkpoint.ID{})}
		if err := first.Put(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		heads[i] = p.ID
	}
	db := open(t, path, nil)
	putTurns(t, db, "warm up", 2, 10)
	before := liveHeap()
	for i, head := range heads {
		p := &checkpoint.Put{Parent: head, Head: head, Step: 1, Source: checkpoint.Loop, Control: []byte(`{"next":[]}`),
			Changes: []checkpoint.Change{{Channel: "m", Version: 2, Data: []byte("2")}}}
		p.Key = checkpoint.Key{Thread: string(rune('a' + i)), ID: checkpoint.NewID(1, head)}
		if err := db.Put(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	if grown := liveHeap() - before; grown > 2_000_000 {
		t.Errorf("live heap grew by %d bytes for the heads of %d threads", grown, threads)
	}
	runtime.KeepAlive(db)
}
