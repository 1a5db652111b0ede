package sqlite

import (
	"github.com/treadle-go/treadle/internal/budget"
	"github.com/treadle-go/treadle/sqlite/internal/database"
)

// ownMemory limits the size in bytes of the heads and ledger rows that a DB caches. A
// server replaces it with a share of the server's limit: see shareMemory.
const ownMemory = 64 << 20

// Estimated sizes in bytes of cached values.
const (
	headSize = 512 // a head without the data it points to
	slotSize = 144
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

// shareMemory replaces the DB's own memory limit with shared.
func (db *DB) shareMemory(shared *budget.Budget) {
	db.known.heads.Move(shared, database.MemoryKind)
	db.conn.ShareMemory(shared)
}
