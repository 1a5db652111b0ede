package sqlite

import (
	"github.com/treadle-go/treadle/internal/budget"
	"github.com/treadle-go/treadle/ledger"
)

// ownMemory limits the size in bytes of the heads and ledger rows that a DB caches. A
// server replaces it with a share of its own limit: see ShareMemory.
const ownMemory = 64 << 20

// memoryKind labels the cached data in a server's metrics.
const memoryKind = "database"

// ShareMemory implements [ledger.MemorySharer].
func (b *ledgerBackend) ShareMemory(m ledger.Memory) {
	shared := budget.Of(m)
	db := b.db
	db.known.heads.Move(shared, memoryKind)
	db.rows.Move(shared, memoryKind)
	shared.Register(pages{db})
}

// Estimated sizes in bytes of cached values.
const (
	headSize = 512 // a head without the data it points to
	slotSize = 144
	rowSize  = 384
)

// size returns the estimated size of h in bytes.
func (h *head) size() int64 {
	n := headSize + len(h.record) + len(h.run.name) + len(h.run.metadata)
	if h.m != nil {
		n += slotSize * len(h.m.slots)
	}
	n += slotSize * len(h.base)
	for i := range h.pending {
		n += slotSize + len(h.pending[i].data)
	}
	return int64(n)
}

// size returns the estimated size of r in bytes.
func (r *ledgerRow) size() int64 {
	return int64(rowSize + cap(r.Doc) + len(r.terms) + 8*len(r.Terms))
}

// pages represents the pages that connections cache. SQLite allocates them outside of
// Go's heap, up to the cache_size of each connection, and does not report their size.
type pages struct{ db *DB }

// Oldest implements [budget.Evictor].
func (pages) Oldest() (uint64, bool) { return 0, false }

// Evict implements [budget.Evictor].
func (pages) Evict() {}

// Age implements [budget.Ager]. It frees the cached pages of idle connections. Reading
// them again costs a busy server milliseconds.
func (p pages) Age() {
	for _, conns := range []chan *conn{p.db.writer, p.db.readers} {
		for range cap(conns) {
			select {
			case <-p.db.closing:
				return
			default:
			}
			select {
			case c := <-conns:
				if c.raw != nil {
					_ = c.script("PRAGMA shrink_memory") // cannot fail, and nothing depends on it
				}
				conns <- c
			default:
			}
		}
	}
}
