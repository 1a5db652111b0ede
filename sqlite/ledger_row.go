package sqlite

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/internal/saved"
	"github.com/treadle-go/treadle/ledger"
)

// A ledgerRow is a row of server_row.
type ledgerRow struct {
	ledger.Row
	seq   int64
	terms []byte // Terms in their stored form
}

// Columns that scanLedgerRow reads, of a row r and its body b.
const (
	serverColumns = "r.seq, r.kind, r.id, r.parent, r.worker, r.open, r.due, r.created, r.terms, r.doc, r.sum"
	serverBody    = ", b.row, b.body, b.sum"
)

// ledgerRow returns a row, or nil if it does not exist.
func (c *conn) ledgerRow(kind ledger.Kind, id uuid.UUID, body bool) (*ledgerRow, error) {
	query := "SELECT " + serverColumns + " FROM server_row r WHERE r.kind=? AND r.id=?"
	if body {
		query = "SELECT " + serverColumns + serverBody + " FROM server_row r LEFT JOIN server_body b ON b.row=r.seq WHERE r.kind=? AND r.id=?"
	}
	var found *ledgerRow
	err := c.each(query, []any{int64(kind), id[:]}, func(scan func(...any) error) (err error) {
		found, err = scanLedgerRow(scan, body)
		return err
	})
	return found, err
}

// scanLedgerRow reads and verifies the current row of a query.
func scanLedgerRow(scan func(...any) error, body bool) (*ledgerRow, error) {
	r := &ledgerRow{}
	var kind, due, created int64
	var id, parent, worker []byte
	var rowSum, bodySum sum
	var bodyOf int64
	dest := append(make([]any, 0, 14), &r.seq, &kind, &id, &parent, &worker, &r.Open, &due, &created, &r.terms, &r.Doc, &rowSum)
	if body {
		dest = append(dest, &bodyOf, &r.Body, &bodySum)
	}
	if err := scan(dest...); err != nil {
		return nil, err
	}
	r.Kind = ledger.Kind(kind)
	ok := copyID(&r.ID, id) && (parent == nil || copyID(&r.Parent, parent)) && (worker == nil || copyID(&r.Worker, worker)) && len(r.terms)%8 == 0
	r.Created = time.UnixMicro(created).UTC()
	if due != 0 {
		r.Due = time.UnixMicro(due).UTC()
	}
	if !ok || rowSum.value != serverRowSum(r) {
		return nil, changed("row %d of the ledger, of kind %d and id %x,", r.seq, kind, id)
	}
	r.Terms = unpackTerms(r.terms)
	if bodyOf != 0 {
		if r.Body == nil {
			r.Body = []byte{}
		}
		if bodySum.value != serverBodySum(r.seq, r.Body) {
			return nil, changed("the body of row %d of the ledger, of kind %d and id %x,", r.seq, kind, id)
		}
	}
	return r, nil
}

func copyID(to *uuid.UUID, from []byte) bool {
	return copy(to[:], from) == len(to) && len(from) == len(to)
}

// serverRowSum returns the checksum of a row without its body.
func serverRowSum(r *ledgerRow) int64 {
	return saved.Sum(22).Int(r.seq).Int(int64(r.Kind)).Bytes(r.ID[:]).Bytes(r.Parent[:]).Bytes(r.Worker[:]).Bool(r.Open).
		Int(ledgerMicros(r.Due)).Int(ledgerMicros(r.Created)).Bytes(r.terms).Bytes(r.Doc).Value()
}

func serverBodySum(seq int64, body []byte) int64 { return saved.Sum(23).Int(seq).Bytes(body).Value() }

// ledgerMicros returns the stored form of a time; 0 for the zero time.
func ledgerMicros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// idOrNull returns the column value of an ID: NULL for the zero ID.
func idOrNull(id uuid.UUID) any {
	if id == uuid.Nil {
		return nil
	}
	return id[:]
}

func timeOrNull(t time.Time) any {
	if n := ledgerMicros(t); n != 0 {
		return n
	}
	return nil
}

func bytesOrNull(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return b
}

func flag01(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// packTerms returns the stored form of a row's terms, sorted.
func packTerms(terms []uint64) []byte {
	if len(terms) == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(terms))
	b := make([]byte, 0, 8*len(sorted))
	for _, t := range sorted {
		b = binary.BigEndian.AppendUint64(b, t)
	}
	return b
}

func unpackTerms(b []byte) []uint64 {
	if len(b) == 0 {
		return nil
	}
	terms := make([]uint64, 0, len(b)/8)
	for ; len(b) >= 8; b = b[8:] {
		terms = append(terms, binary.BigEndian.Uint64(b))
	}
	return terms
}

// putLedgerRow inserts r, or replaces the row with the same kind and ID, keeping its
// number and creation time.
func (c *conn) putLedgerRow(r *ledgerRow) error {
	k := ledgerKey{r.Kind, r.ID}
	old := c.knownRow(k)
	if old == nil { // it is most likely new
		inserted, err := c.insertLedgerRow(r)
		if inserted || err != nil {
			return err
		}
		if old, err = c.ledgerRow(k.kind, k.id, false); err != nil {
			return err
		}
		if old == nil {
			return fmt.Errorf("%w: the index of the ledger has a row of kind %d and id %s that is not there", ErrDamaged, k.kind, k.id)
		}
	}
	r.seq, r.Created = old.seq, old.Created
	return c.updateLedgerRow(old, r)
}

// insertLedgerRow inserts a row and assigns its number, unless a row with the same kind
// and ID exists.
func (c *conn) insertLedgerRow(r *ledgerRow) (inserted bool, err error) {
	// The number is part of the checksum, so SQLite cannot assign it.
	if r.seq, err = c.nextRow(); err != nil {
		return false, err
	}
	n, err := c.change("INSERT INTO server_row(seq,kind,id,parent,worker,open,due,created,terms,doc,sum) VALUES(?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT(kind,id) DO NOTHING",
		r.seq, int64(r.Kind), r.ID[:], idOrNull(r.Parent), idOrNull(r.Worker), flag01(r.Open), timeOrNull(r.Due), ledgerMicros(r.Created), bytesOrNull(r.terms), r.Doc, serverRowSum(r))
	if err != nil {
		return false, fmt.Errorf("sqlite: row of kind %d and id %s of the ledger: %w", r.Kind, r.ID, err)
	}
	if n == 0 {
		return false, nil
	}
	c.ledger.next++
	return true, c.changeTerms(&r.Row, nil, r.Terms)
}

// updateLedgerRow replaces a row. It omits unchanged columns, because SQLite would
// rewrite their indexes.
func (c *conn) updateLedgerRow(old, r *ledgerRow) error {
	query := "UPDATE server_row SET doc=?, sum=?"
	args := append(make([]any, 0, 8), r.Doc, serverRowSum(r))
	set := func(column string, value any) {
		query += ", " + column + "=?"
		args = append(args, value)
	}
	if old.Parent != r.Parent {
		set("parent", idOrNull(r.Parent))
	}
	if old.Worker != r.Worker {
		set("worker", idOrNull(r.Worker))
	}
	if old.Open != r.Open {
		set("open", flag01(r.Open))
	}
	if ledgerMicros(old.Due) != ledgerMicros(r.Due) {
		set("due", timeOrNull(r.Due))
	}
	terms := !slices.Equal(old.terms, r.terms)
	if terms {
		set("terms", bytesOrNull(r.terms))
	}
	n, err := c.change(query+" WHERE seq=?", append(args, r.seq)...)
	switch {
	case err != nil:
		return err
	case n == 0:
		return fmt.Errorf("%w: row %d of the ledger, of kind %d and id %s, was read and is not there", ErrDamaged, r.seq, r.Kind, r.ID)
	case !terms:
		return nil
	}
	return c.changeTerms(&r.Row, unpackTerms(old.terms), r.Terms)
}

// changeTerms updates the term index.
func (c *conn) changeTerms(r *ledger.Row, old, now []uint64) error {
	change := func(query string, terms, except []uint64) error {
		for _, t := range terms {
			if slices.Contains(except, t) {
				continue
			}
			if _, err := c.change(query, int64(r.Kind), int64(t), ledgerMicros(r.Created), r.ID[:]); err != nil {
				return err
			}
		}
		return nil
	}
	if err := change("DELETE FROM server_term WHERE kind=? AND term=? AND created=? AND id=?", old, now); err != nil {
		return err
	}
	return change("INSERT OR IGNORE INTO server_term(kind,term,created,id) VALUES(?,?,?,?)", now, old)
}
