package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/ledger/ledgertest"
)

func TestLedger(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]func(*testing.T) string{
		"file":   func(t *testing.T) string { return filepath.Join(t.TempDir(), "test.db") },
		"memory": func(*testing.T) string { return inMemory },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ledgertest.Run(t, func(t *testing.T) ledger.Backend { return open(t, path(t), nil).Ledger() })
		})
	}
}

// Whatever is done, the ledger in the file says what one in memory says.
func TestLedgerBehavesLikeMemory(t *testing.T) {
	t.Parallel()
	db := open(t, filepath.Join(t.TempDir(), "test.db"), nil)
	ledgertest.Differential(t, func(*testing.T) ledger.Backend { return db.Ledger() })
	checkFile(t, db)
}
