package ledger_test

import (
	"testing"

	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/ledger/ledgertest"
)

func TestMemory(t *testing.T) {
	ledgertest.Run(t, func(*testing.T) ledger.Backend { return ledger.NewMemory() })
}

// Two ledgers in memory do the same, and threads and runs agree with each other.
func TestRulesHoldInEveryState(t *testing.T) {
	ledgertest.Differential(t, func(*testing.T) ledger.Backend { return ledger.NewMemory() })
}
