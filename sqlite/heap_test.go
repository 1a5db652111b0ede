package sqlite

import (
	"bytes"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/budget"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/sqlite/internal/database"
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

// Records of checkpoints, metadata of runs, and rows of the ledger are remembered within the
// budget, however many threads there are.
func TestCachedHeadsStayWithinBudget(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "test.db"), nil)
	b := budget.New(1 << 20)
	db.Ledger().(ledger.MemorySharer).ShareMemory(b)
	putTurns(t, db, "warm up", 2, 10)
	before := liveHeap()
	for i := range 1000 {
		p := &checkpoint.Put{Source: checkpoint.Input, Control: []byte(`{"next":[]}`), RunID: fmt.Sprint("run ", i), Metadata: fmt.Appendf(nil, `{"long":"%020000d"}`, i),
			Changes: []checkpoint.Change{{Channel: "n", Version: 1, Data: []byte("1")}}}
		p.Key = checkpoint.Key{Thread: fmt.Sprint("thread ", i), ID: checkpoint.NewID(0, checkpoint.ID{})}
		if err := db.Put(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		row := ledger.Row{Kind: ledger.Threads, ID: uuid.New(), Created: time.Unix(int64(i), 0), Doc: []byte(strings.Repeat("x", 4000))}
		if err := db.Ledger().Update(t.Context(), row.ID, func(tx ledger.Tx) error { return tx.Put(&row) }); err != nil {
			t.Fatal(err)
		}
	}
	if b.Over() || b.ByKind()[database.MemoryKind] < 1<<19 {
		t.Errorf("%d of %d bytes used: %v", b.Used(), b.Limit(), b.ByKind())
	}
	if grown := liveHeap() - before; grown > 2<<20 {
		t.Errorf("live heap grew by %d bytes with a budget of 1 MiB", grown)
	}
	b.Age()
	b.Age()
	if used := b.Used(); used != 0 {
		t.Errorf("%d bytes used by what has not been used for a while", used)
	}
	runtime.KeepAlive(db)
}
