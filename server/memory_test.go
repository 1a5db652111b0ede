package server_test

import (
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/store"
)

// memory is a database that ends with the process.
type memory struct {
	*checkpoint.Memory
	rows ledger.Backend
}

func newMemory() *memory { return &memory{checkpoint.NewMemory(), ledger.NewMemory()} }

func (m *memory) Ledger() ledger.Backend { return m.rows }

func (*memory) Store(o *store.Options) (*store.Store, error) { return store.NewMemory(o) }
