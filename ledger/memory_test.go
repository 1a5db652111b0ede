package ledger_test

import (
	"testing"

	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/ledger/ledgertest"
)

func TestMemory(t *testing.T) {
	ledgertest.Run(t, func(*testing.T) ledger.Backend { return ledger.NewMemory() })
}

// Two in-memory ledgers behave alike, and their threads and runs stay
// consistent.
func TestMemoryMatchesItselfAndInvariantsHold(t *testing.T) {
	ledgertest.Differential(t, func(*testing.T) ledger.Backend { return ledger.NewMemory() })
}
