package database

import "github.com/treadle-go/treadle/internal/budget"

// MemoryKind labels the cached data in a server's metrics.
const MemoryKind = "database"

// ShareMemory lets shared free the pages that idle connections cache.
func (db *DB) ShareMemory(shared *budget.Budget) { shared.Register(pages{db}) }

// pages represents the pages that connections cache. SQLite allocates them outside of
// Go's heap, up to the cache_size of each connection, and does not report their size.
type pages struct{ db *DB }

// Oldest implements [budget.Evictor].
func (pages) Oldest() (uint64, bool) { return 0, false }

// Evict implements [budget.Evictor].
func (pages) Evict() {}

// Age implements [budget.Ager]. It frees the cached pages of idle connections. Reading
// them again costs a busy server milliseconds.
func (p pages) Age() {
	for _, conns := range []chan *Conn{p.db.Writer, p.db.Readers} {
		for range cap(conns) {
			select {
			case <-p.db.Closing:
				return
			default:
			}
			select {
			case c := <-conns:
				if c.raw != nil {
					_ = c.Script("PRAGMA shrink_memory") // cannot fail, and nothing depends on it
				}
				conns <- c
			default:
			}
		}
	}
}
