package sqlite

import (
	"github.com/google/uuid"

	"github.com/treadle-go/treadle/internal/budget"
	"github.com/treadle-go/treadle/ledger"
)

// keptRows are rows of the ledger as the writer's connection last read or put them. A run
// needs the same few rows in each of its transactions: its own, that of its thread and that
// of the process. They are what the file has as long as nobody else has written to it, which
// SQLite tells (data_version) once a transaction.
//
// The zero value is empty. Who has the writer's connection uses it.
type keptRows struct {
	version int64 // of the file that they are of: see look
	rows    *budget.Cache[ledgerKey, *ledgerRow]
	next    int64 // the number of the next new row; 0 if it is not known
}

type ledgerKey struct {
	kind ledger.Kind
	id   uuid.UUID
}

// keptDocMost bounds the documents that are kept. Longer ones are rare.
const keptDocMost = 4 << 10

func (k *keptRows) forget() {
	k.next = 0
	k.rows.Clear()
}

// keep remembers a row. Neither its document nor its terms may be changed afterwards.
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

// checkKept forgets the rows if another connection has written to the file.
func (c *conn) checkKept() {
	if k := &c.ledger; k.version != c.version {
		k.forget()
		k.version = c.version
	}
}

// knownRow returns a row if it is kept.
func (c *conn) knownRow(key ledgerKey) *ledgerRow {
	c.checkKept()
	r, _ := c.ledger.rows.Get(key)
	return r
}

// keptRow returns a row without its body, or nil if there is none. The caller must not
// change it.
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

// nextRow is the number of the next new row.
func (c *conn) nextRow() (int64, error) {
	c.checkKept()
	if c.ledger.next == 0 {
		if _, err := c.row("SELECT coalesce(max(seq),0)+1 FROM server_row", nil, &c.ledger.next); err != nil {
			return 0, err
		}
	}
	return c.ledger.next, nil
}
