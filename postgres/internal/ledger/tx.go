package ledger

import (
	"context"
	"maps"
	"slices"
	"time"

	guuid "github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/treadle-go/treadle/ledger"
)

// A transaction implements [ledger.Tx]. It buffers its puts and deletes until it commits.
type transaction struct {
	ctx context.Context // context of the Update call
	c   *pgx.Conn
	b   *backend
	id  string
	now time.Time
	// known contains the rows as the transaction first saw them, without bodies; nil for
	// missing rows. For the loaded IDs, it contains all rows.
	known   map[rowKey]*storedRow
	loaded  []any // each is a [16]byte
	changed map[rowKey]*rowChange
	// unknown lists the keys of rows that were put but are not known.
	unknown []rowKey
}

// A rowChange is a row that a transaction has put or deleted.
type rowChange struct {
	row *ledger.Row // nil if deleted
	// fresh is set after the row was deleted: putting it again keeps nothing of the old
	// row.
	fresh bool
}

// Now implements [ledger.Tx].
func (tx *transaction) Now() time.Time { return tx.now }

// isKnown reports whether the transaction knows the row of a key or knows that it is
// missing.
func (tx *transaction) isKnown(k rowKey) bool {
	_, ok := tx.known[k]
	return ok || slices.Contains(tx.loaded, any([16]byte(k.id)))
}

// keyArgs converts keys to statement arguments.
func keyArgs(keys []rowKey) []any {
	kinds, ids := make([]int16, len(keys)), make([]pgtype.UUID, len(keys))
	for i, k := range keys {
		kinds[i], ids[i] = int16(k.kind), pgtype.UUID{Bytes: k.id, Valid: true}
	}
	return []any{kinds, ids}
}

// read reads the rows of keys into known, in one round trip.
func (tx *transaction) read(keys ...rowKey) error {
	rows, err := readRows(tx.ctx, tx.c, tx.b.sql.getAll, keyArgs(keys), false)
	if err != nil {
		return err
	}
	for _, k := range keys {
		tx.known[k] = nil
	}
	for _, r := range rows {
		tx.known[r.key()] = r
	}
	return nil
}

// learn reads the rows that were put without being read first. A replaced row keeps its
// creation time.
func (tx *transaction) learn() error {
	if len(tx.unknown) == 0 {
		return nil
	}
	if err := tx.read(tx.unknown...); err != nil {
		return err
	}
	for _, k := range tx.unknown {
		tx.settle(k)
	}
	tx.unknown = nil
	return nil
}

// settle copies the creation time of the replaced row to a changed row.
func (tx *transaction) settle(k rowKey) {
	of := tx.changed[k]
	if old := tx.known[k]; of.row != nil && old != nil && !of.fresh {
		of.row.Created = old.Created
	}
}

// Get implements [ledger.Tx].
func (tx *transaction) Get(kind ledger.Kind, id guuid.UUID) (*ledger.Row, error) {
	k := rowKey{kind, id}
	if of, ok := tx.changed[k]; ok {
		if of.row == nil {
			return nil, nil
		}
		if err := tx.learn(); err != nil {
			return nil, err
		}
		return copyRow(of.row, false), nil
	}
	if !tx.isKnown(k) {
		if err := tx.read(k); err != nil {
			return nil, err
		}
	}
	if r := tx.known[k]; r != nil {
		return copyRow(&r.Row, false), nil
	}
	return nil, nil
}

// Find implements [ledger.Tx].
func (tx *transaction) Find(q *ledger.Query) ([]*ledger.Row, error) {
	if err := tx.learn(); err != nil {
		return nil, err
	}
	wanted := *q
	if q.Limit > 0 {
		wanted.Limit += len(tx.changed) // up to this many stored rows may be superseded
	}
	const page = 10_000
	var rows []*ledger.Row
	bodies := map[rowKey][]byte{} // bodies of changed rows
	for f := tx.b.newFind(&wanted); !f.done; {
		found, err := f.next(tx.ctx, tx.c, page)
		if err != nil {
			return nil, err
		}
		for _, r := range found {
			k := r.key()
			if _, ok := tx.changed[k]; ok {
				bodies[k] = r.Body
				continue
			}
			if !tx.isKnown(k) {
				tx.known[k] = &storedRow{Row: *copyRow(&r.Row, false), version: r.version}
			}
			rows = append(rows, &r.Row)
		}
	}
	for k, of := range tx.changed {
		if of.row == nil || !selectsRow(q, of.row) {
			continue
		}
		r := copyRow(of.row, q.Bodies)
		if q.Bodies && r.Body == nil && !of.fresh && tx.known[k] != nil {
			body, ok := bodies[k]
			if !ok {
				if err := tx.c.QueryRow(tx.ctx, tx.b.sql.body, [16]byte(k.id), int16(k.kind)).Scan(&body); err != nil {
					return nil, err
				}
			}
			r.Body = body
		}
		rows = append(rows, r)
	}
	slices.SortFunc(rows, q.Compare)
	if q.Limit > 0 {
		rows = rows[:min(q.Limit, len(rows))]
	}
	return rows, nil
}

// change returns the change of a key, creating it if necessary.
func (tx *transaction) change(k rowKey) *rowChange {
	of := tx.changed[k]
	if of == nil {
		if tx.changed == nil {
			tx.changed = map[rowKey]*rowChange{}
		}
		of = &rowChange{}
		tx.changed[k] = of
	}
	return of
}

// Put implements [ledger.Tx].
func (tx *transaction) Put(r *ledger.Row) error {
	k := rowKey{r.Kind, r.ID}
	put := copyRow(r, true)
	put.Due, put.Created = micros(r.Due), micros(r.Created)
	of := tx.change(k)
	if was := of.row; was != nil {
		put.Created = was.Created
		if put.Body == nil {
			put.Body = was.Body
		}
	} else if !of.fresh && !tx.isKnown(k) {
		tx.unknown = append(tx.unknown, k)
	}
	of.row = put
	tx.settle(k)
	return nil
}

// Delete implements [ledger.Tx].
func (tx *transaction) Delete(kind ledger.Kind, id guuid.UUID) error {
	of := tx.change(rowKey{kind, id})
	of.row, of.fresh = nil, true
	return nil
}

// keys returns the keys of the changed rows in sorted order, so that transactions do not
// deadlock.
func (tx *transaction) keys() []rowKey {
	return slices.SortedFunc(maps.Keys(tx.changed), compareKeys)
}

// commit sends all changes and the COMMIT in one round trip. If a statement fails,
// Postgres skips the rest.
func (tx *transaction) commit() error {
	keys := tx.keys()
	var batch pgx.Batch
	var gone []rowKey
	for _, k := range keys {
		if tx.changed[k].fresh && (tx.known[k] != nil || !tx.isKnown(k)) {
			gone = append(gone, k)
		}
	}
	if len(gone) > 0 {
		batch.Queue(tx.b.sql.remove, keyArgs(gone)...)
	}
	for _, k := range keys {
		if of := tx.changed[k]; of.row != nil {
			tx.queue(&batch, k, of)
		}
	}
	batch.Queue("COMMIT").Exec(func(tag pgconn.CommandTag) error {
		if tag.String() != "COMMIT" {
			return errNotCommitted
		}
		return nil
	})
	return tx.c.SendBatch(tx.ctx, &batch).Close()
}

// queue adds the statement that writes a row.
func (tx *transaction) queue(batch *pgx.Batch, k rowKey, of *rowChange) {
	r := of.row
	doc := r.Doc
	if doc == nil {
		doc = []byte{}
	}
	var version pgtype.Uint32
	var before []uint64
	if old := tx.known[k]; old != nil && !of.fresh {
		version, before = pgtype.Uint32{Uint32: old.version, Valid: true}, old.Terms
	}
	batch.Queue(tx.b.sql.put, int16(k.kind), [16]byte(k.id), version, r.Created.UnixMicro(), orNullTime(r.Due), orNullID(r.Parent), orNullID(r.Worker), r.Open,
		signedTerms(r.Terms), signedTerms(termsWithout(before, r.Terms)), signedTerms(termsWithout(r.Terms, before)), doc, r.Body)
}
