package sqlite

import (
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/store"
)

// Store returns a store in the same file. It is closed with the DB. All stores of a file,
// in this process or others, share their items.
//
// The first semantic search loads an index into memory, of about 100 bytes per vector.
// The vectors themselves stay in the file, but up to 64 MB of recently compared vectors
// are cached. Each search adds the vectors that other processes have written since.
// Keyword searches cache lists of items by word and the words of ranked items, up to 32
// MB each, so the first search for a common word is slower than later ones.
func (db *DB) Store(opts *store.Options) (*store.Store, error) { return store.New(db.items, opts) }

// Ledger returns the backend of a server's ledger in the same file. It is closed with the
// DB. Several processes can use it at the same time.
func (db *DB) Ledger() ledger.Backend { return db.ledger }
