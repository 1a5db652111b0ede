package postgres

import (
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/store"
)

// Store returns a store in the same schema. It is closed with the DB. All stores of a
// schema, in this process or others, share their items.
//
// If the database has the pgvector extension (0.8 or later), semantic search uses it.
// Otherwise, the first semantic search among more than a few thousand items reads all
// vectors and builds an in-memory index of about 100 bytes per vector; the vectors
// themselves stay in the database. Each search adds the vectors that other processes have
// written since. The Logger receives one message about the index.
//
// Keyword search caches up to 32 MB: the item numbers for words that occur in 2,000 items
// or more.
//
// Writes to a store commit one after another, so watchers miss no change.
func (db *DB) Store(opts *store.Options) (*store.Store, error) { return store.New(db.items, opts) }

// Ledger returns the backend of a server's ledger in the same schema. It is closed with
// the DB. Any number of processes can use it at the same time. Unless
// [Options].PoolerSafe is set, it is a [ledger.Witness] and opens one more connection;
// session locks do not work behind a transaction pooler.
//
// A transaction takes an advisory lock, which Postgres releases at its end, and sends all
// its writes together with the COMMIT. If the lock is free, the methods of a
// [ledger.Ledger] take this many round trips:
//
//	CreateRun  2; 3 with a Key, or if it interrupts other runs
//	Finish     2; 3 if the worker claims the thread's next run, 4 if more runs are queued after it
//	Beat       3
//	Claim      3 to find runs, plus 1 if there are fewer than wanted;
//	           3 for each run, 4 if more runs are queued after it
func (db *DB) Ledger() ledger.Backend { return db.ledger }
