package postgres

import (
	"github.com/treadle-go/treadle/internal/budget"
	"github.com/treadle-go/treadle/ledger"
)

// ownMemory limits the size in bytes of the heads that a DB caches. A server replaces it
// with a share of the server's limit: see shareMemory.
const ownMemory = 64 << 20

// memoryKind labels the cached heads in a server's metrics.
const memoryKind = "database"

// shareMemory replaces the DB's own memory limit with m.
func (db *DB) shareMemory(m ledger.Memory) { db.known.heads.Move(budget.Of(m), memoryKind) }

// Estimated sizes in bytes of cached values.
const (
	headSize = 384 // a head without the data it points to
	slotSize = 144
)

// size returns the estimated size of h in bytes.
func (h *head) size() int64 {
	n := headSize + len(h.control) + len(h.run.name) + len(h.run.metadata)
	if h.m != nil {
		n += slotSize * len(h.m.slots)
		if h.m.base != nil {
			n += slotSize * len(h.m.base.slots)
		}
	}
	return int64(n)
}
