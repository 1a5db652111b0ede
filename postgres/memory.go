package postgres

import "github.com/treadle-go/treadle/internal/budget"

// ownMemory limits the heads that a DB remembers, in bytes. A server replaces it with a
// share of its own limit: see ShareBudget.
const ownMemory = 64 << 20

// memoryKind names them in the metrics of a server.
const memoryKind = "database"

// ShareBudget makes the DB remember heads within a budget that it shares with the rest of a
// server. It is not a method of DB because only servers need it.
func (b *ledgerBackend) ShareBudget(shared *budget.Budget) {
	b.db.known.heads.Move(shared, memoryKind)
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
