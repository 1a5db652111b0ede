package postgres

import (
	"github.com/treadle-go/treadle/internal/budget"
	"github.com/treadle-go/treadle/ledger"
)

// ownMemory limits the heads that a DB remembers, in bytes. A server replaces it with a
// share of its own limit: see ShareMemory.
const ownMemory = 64 << 20

// memoryKind names them in the metrics of a server.
const memoryKind = "database"

// ShareMemory implements [ledger.MemorySharer].
func (b *ledgerBackend) ShareMemory(m ledger.Memory) {
	b.db.known.heads.Move(budget.Of(m), memoryKind)
}

// The estimated sizes of what is remembered.
const (
	headSize = 384 // of a head without what it points to
	slotSize = 144
)

// size estimates the bytes of h.
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
