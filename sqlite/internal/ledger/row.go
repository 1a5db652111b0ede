package ledger

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/internal/saved"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/sqlite/internal/database"
)

// A storedRow is a row of server_row.
type storedRow struct {
	ledger.Row
	seq   int64
	terms []byte // Terms in their stored form
}

// Columns that scanRow reads, of a row r and its body b.
const (
	rowColumns = "r.seq, r.kind, r.id, r.parent, r.worker, r.open, r.due, r.created, r.terms, r.doc, r.sum"
	rowBody    = ", b.row, b.body, b.sum"
)

// readRow returns a row, or nil if it does not exist.
func readRow(c *database.Conn, kind ledger.Kind, id uuid.UUID, body bool) (*storedRow, error) {
	query := "SELECT " + rowColumns + " FROM server_row r WHERE r.kind=? AND r.id=?"
	if body {
		query = "SELECT " + rowColumns + rowBody + " FROM server_row r LEFT JOIN server_body b ON b.row=r.seq WHERE r.kind=? AND r.id=?"
	}
	var found *storedRow
	err := c.Each(query, []any{int64(kind), id[:]}, func(scan func(...any) error) (err error) {
		found, err = scanRow(scan, body)
		return err
	})
	return found, err
}

// scanRow reads and verifies the current row of a query.
func scanRow(scan func(...any) error, body bool) (*storedRow, error) {
	r := &storedRow{}
	var kind, due, created, bodyOf, rowSum, bodySum int64
	var id, parent, worker []byte
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
	if !ok || rowSum != sumOfRow(r) {
		return nil, database.Changed("ledger row %d of kind %d, ID %x", r.seq, kind, id)
	}
	r.Terms = unpackTerms(r.terms)
	if bodyOf != 0 {
		if r.Body == nil {
			r.Body = []byte{}
		}
		if bodySum != sumOfBody(r.seq, r.Body) {
			return nil, database.Changed("body of ledger row %d of kind %d, ID %x", r.seq, kind, id)
		}
	}
	return r, nil
}

func copyID(to *uuid.UUID, from []byte) bool {
	return copy(to[:], from) == len(to) && len(from) == len(to)
}

// sumOfRow returns the checksum of a row without its body.
func sumOfRow(r *storedRow) int64 {
	return saved.Sum(22).Int(r.seq).Int(int64(r.Kind)).Bytes(r.ID[:]).Bytes(r.Parent[:]).Bytes(r.Worker[:]).Bool(r.Open).
		Int(micros(r.Due)).Int(micros(r.Created)).Bytes(r.terms).Bytes(r.Doc).Value()
}

func sumOfBody(seq int64, body []byte) int64 { return saved.Sum(23).Int(seq).Bytes(body).Value() }

// micros returns the stored form of a time; 0 for the zero time.
func micros(t time.Time) int64 {
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
	if n := micros(t); n != 0 {
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

// putRow inserts r, or replaces the row with the same kind and ID, keeping its
// number and creation time.
func (tx *transaction) putRow(r *storedRow) error {
	k := rowKey{r.Kind, r.ID}
	old := tx.knownRow(k)
	if old == nil { // it is most likely new
		inserted, err := tx.insertRow(r)
		if inserted || err != nil {
			return err
		}
		if old, err = readRow(tx.c, k.kind, k.id, false); err != nil {
			return err
		}
		if old == nil {
			return fmt.Errorf("%w: missing ledger row of kind %d, ID %s", database.ErrDamaged, k.kind, k.id)
		}
	}
	r.seq, r.Created = old.seq, old.Created
	return tx.updateRow(old, r)
}

// insertRow inserts a row and assigns its number, unless a row with the same kind
// and ID exists.
func (tx *transaction) insertRow(r *storedRow) (inserted bool, err error) {
	// The number is part of the checksum, so SQLite cannot assign it.
	if r.seq, err = tx.nextRow(); err != nil {
		return false, err
	}
	n, err := tx.c.Change("INSERT INTO server_row(seq,kind,id,parent,worker,open,due,created,terms,doc,sum) VALUES(?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT(kind,id) DO NOTHING",
		r.seq, int64(r.Kind), r.ID[:], idOrNull(r.Parent), idOrNull(r.Worker), flag01(r.Open), timeOrNull(r.Due), micros(r.Created), bytesOrNull(r.terms), r.Doc, sumOfRow(r))
	if err != nil {
		return false, fmt.Errorf("sqlite: write ledger row of kind %d, ID %s: %w", r.Kind, r.ID, err)
	}
	if n == 0 {
		return false, nil
	}
	tx.b.kept.next++
	return true, tx.changeTerms(&r.Row, nil, r.terms)
}

// updateRow replaces a row. It omits unchanged columns, because SQLite would
// rewrite their indexes.
func (tx *transaction) updateRow(old, r *storedRow) error {
	query := "UPDATE server_row SET doc=?, sum=?"
	args := append(make([]any, 0, 8), r.Doc, sumOfRow(r))
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
	if micros(old.Due) != micros(r.Due) {
		set("due", timeOrNull(r.Due))
	}
	terms := !slices.Equal(old.terms, r.terms)
	if terms {
		set("terms", bytesOrNull(r.terms))
	}
	n, err := tx.c.Change(query+" WHERE seq=?", append(args, r.seq)...)
	switch {
	case err != nil:
		return err
	case n == 0:
		return fmt.Errorf("%w: missing ledger row %d of kind %d, ID %s", database.ErrDamaged, r.seq, r.Kind, r.ID)
	case !terms:
		return nil
	}
	return tx.changeTerms(&r.Row, old.terms, r.terms)
}

// changeTerms updates the term index from the stored form of the old terms to the new one.
func (tx *transaction) changeTerms(r *ledger.Row, old, now []byte) error {
	const drop = "DELETE FROM server_term WHERE kind=? AND term=? AND created=? AND id=?"
	const add = "INSERT OR IGNORE INTO server_term(kind,term,created,id) VALUES(?,?,?,?)"
	for len(old) > 0 || len(now) > 0 { // both are sorted
		query, term := add, now
		switch {
		case len(old) > 0 && len(now) > 0 && bytes.Equal(old[:8], now[:8]):
			old, now = old[8:], now[8:]
			continue
		case len(now) == 0 || len(old) > 0 && bytes.Compare(old[:8], now[:8]) < 0:
			query, term, old = drop, old, old[8:]
		default:
			now = now[8:]
		}
		if _, err := tx.c.Change(query, int64(r.Kind), int64(binary.BigEndian.Uint64(term)), micros(r.Created), r.ID[:]); err != nil {
			return err
		}
	}
	return nil
}
