package ledger

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
	version int64 // version of the file that the rows belong to: see database.Conn.Look
	rows    *budget.Cache[rowKey, *storedRow]
	next    int64 // number of the next new row; 0 if unknown
}

type rowKey struct {
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
func (k *keptRows) keep(r *storedRow) {
	key := rowKey{r.Kind, r.ID}
	if len(r.Doc) > keptDocMost {
		k.rows.Delete(key)
		return
	}
	kept := *r
	kept.Body = nil
	k.rows.Set(key, &kept, kept.size())
}

// checkKept clears the cache if another connection has written to the file.
func (tx *transaction) checkKept() {
	if k := &tx.b.kept; k.version != tx.c.Version {
		k.forget()
		k.version = tx.c.Version
	}
}

// knownRow returns a row if it is cached, or nil.
func (tx *transaction) knownRow(key rowKey) *storedRow {
	tx.checkKept()
	r, _ := tx.b.kept.rows.Get(key)
	return r
}

// keptRow returns a row without its body, or nil if it does not exist. The caller must
// not modify the row.
func (tx *transaction) keptRow(key rowKey) (*storedRow, error) {
	if r := tx.knownRow(key); r != nil {
		return r, nil
	}
	r, err := readRow(tx.c, key.kind, key.id, false)
	if r != nil && err == nil {
		tx.b.kept.keep(r)
	}
	return r, err
}

// nextRow returns the number of the next new row.
func (tx *transaction) nextRow() (int64, error) {
	tx.checkKept()
	k := &tx.b.kept
	if k.next == 0 {
		if _, err := tx.c.Row("SELECT coalesce(max(seq),0)+1 FROM server_row", nil, &k.next); err != nil {
			return 0, err
		}
	}
	return k.next, nil
}

// rowSize is the estimated size in bytes of a cached row without its data.
const rowSize = 384

// size returns the estimated size of r in bytes.
func (r *storedRow) size() int64 {
	return int64(rowSize + cap(r.Doc) + len(r.terms) + 8*len(r.Terms))
}
