package sqlite

import (
	"github.com/google/uuid"

	"github.com/treadle-go/treadle/internal/budget"
	"github.com/treadle-go/treadle/ledger"
)

// keptRows caches rows of the ledger as the writer's connection last read or wrote them.
// A run needs the same few rows in each of its transactions: its own row, its thread's,
// and its process's. The cache is valid as long as no other connection has written to the
// file, which is checked once per transaction through SQLite's data version.
//
// Only the holder of the writer's connection may use it.
type keptRows struct {
	version int64 // version of the file that the rows belong to: see look
	rows    *budget.Cache[ledgerKey, *ledgerRow]
	next    int64 // number of the next new row; 0 if unknown
}

type ledgerKey struct {
	kind ledger.Kind
	id   uuid.UUID
}

// keptDocMost is the maximum size of cached documents. Longer ones are rare.
const keptDocMost = 4 << 10

func (k *keptRows) forget() {
	k.next = 0
	k.rows.Clear()
}

// keep caches a row. Its document and terms must not be modified afterward.
func (k *keptRows) keep(r *ledgerRow) {
	key := ledgerKey{r.Kind, r.ID}
	if len(r.Doc) > keptDocMost {
		k.rows.Delete(key)
		return
	}
	kept := *r
	kept.Body = nil
	k.rows.Set(key, &kept, kept.size())
}

// checkKept clears the cache if another connection has written to the file.
func (c *conn) checkKept() {
	if k := &c.ledger; k.version != c.version {
		k.forget()
		k.version = c.version
	}
}

// knownRow returns a row if it is cached, or nil.
func (c *conn) knownRow(key ledgerKey) *ledgerRow {
	c.checkKept()
	r, _ := c.ledger.rows.Get(key)
	return r
}

// keptRow returns a row without its body, or nil if it does not exist. The caller must
// not modify the row.
func (c *conn) keptRow(key ledgerKey) (*ledgerRow, error) {
	if r := c.knownRow(key); r != nil {
		return r, nil
	}
	r, err := c.ledgerRow(key.kind, key.id, false)
	if r != nil && err == nil {
		c.ledger.keep(r)
	}
	return r, err
}

// nextRow returns the number of the next new row.
func (c *conn) nextRow() (int64, error) {
	c.checkKept()
	if c.ledger.next == 0 {
		if _, err := c.row("SELECT coalesce(max(seq),0)+1 FROM server_row", nil, &c.ledger.next); err != nil {
			return 0, err
		}
	}
	return c.ledger.next, nil
}
