package ledger

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	guuid "github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/postgres/internal/database"
)

// A storedRow is a row of server_row.
type storedRow struct {
	ledger.Row
	version uint32 // xmin: the transaction that wrote it
}

// A rowKey is the key of a row.
type rowKey struct {
	kind ledger.Kind
	id   guuid.UUID
}

func (r *storedRow) key() rowKey { return rowKey{r.Kind, r.ID} }

func compareKeys(a, b rowKey) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), bytes.Compare(a.id[:], b.id[:]))
}

// readRows returns the rows of a statement that selects rowColumns and, if body is
// set, rowBody.
func readRows(ctx context.Context, q database.Querier, query string, args []any, body bool) ([]*storedRow, error) {
	rows, err := q.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return collectRows(rows, body)
}

func collectRows(rows pgx.Rows, body bool) ([]*storedRow, error) {
	defer rows.Close()
	var all []*storedRow
	for rows.Next() {
		r, err := scanRow(rows, body)
		if err != nil {
			return nil, fmt.Errorf("%w: unreadable ledger row: %w", database.ErrDamaged, err)
		}
		all = append(all, r)
	}
	return all, rows.Err()
}

func scanRow(rows pgx.Rows, body bool) (*storedRow, error) {
	r := &storedRow{}
	var kind int16
	var parent, worker pgtype.UUID
	var due pgtype.Int8
	var created int64
	var terms []int64
	dest := append(make([]any, 0, 11), &kind, (*[16]byte)(&r.ID), &parent, &worker, &r.Open, &due, &created, &terms, &r.Doc, &r.version)
	if body {
		dest = append(dest, &r.Body)
	}
	if err := rows.Scan(dest...); err != nil {
		return nil, err
	}
	r.Kind, r.Parent, r.Worker = ledger.Kind(kind), parent.Bytes, worker.Bytes
	r.Created = time.UnixMicro(created).UTC()
	if due.Valid {
		r.Due = time.UnixMicro(due.Int64).UTC()
	}
	if len(terms) > 0 {
		r.Terms = make([]uint64, len(terms))
		for i, t := range terms {
			r.Terms[i] = uint64(t)
		}
	}
	return r, nil
}

// orNullID returns a UUID that is NULL for the zero ID.
func orNullID(id guuid.UUID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: id != guuid.Nil} }

// orNullTime returns t in microseconds, or NULL for the zero time.
func orNullTime(t time.Time) pgtype.Int8 {
	if t.IsZero() {
		return pgtype.Int8{}
	}
	return pgtype.Int8{Int64: t.UnixMicro(), Valid: true}
}

// micros returns t as it reads back from the database.
func micros(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.UnixMicro(t.UnixMicro()).UTC()
}

// signedTerms returns terms in their stored form, or nil, which is NULL, if there are
// none.
func signedTerms(terms []uint64) []int64 {
	if len(terms) == 0 {
		return nil
	}
	signed := make([]int64, len(terms))
	for i, t := range terms {
		signed[i] = int64(t)
	}
	return signed
}

// termsWithout returns the elements of terms that are not in others.
func termsWithout(terms, others []uint64) []uint64 {
	contains := func(t uint64) bool { return slices.Contains(others, t) }
	if len(terms) > 1 && len(others) > 32 { // texts have thousands
		set := make(map[uint64]bool, len(others))
		for _, t := range others {
			set[t] = true
		}
		contains = func(t uint64) bool { return set[t] }
	}
	var rest []uint64
	for _, t := range terms {
		if !contains(t) {
			rest = append(rest, t)
		}
	}
	return rest
}

// copyRow returns a copy of a row that the caller may modify.
func copyRow(r *ledger.Row, body bool) *ledger.Row {
	c := *r
	c.Doc, c.Terms, c.Body = bytes.Clone(r.Doc), slices.Clone(r.Terms), nil
	if body {
		c.Body = bytes.Clone(r.Body)
	}
	return &c
}

// selectsRow reports whether a row meets the conditions of a query.
func selectsRow(q *ledger.Query, r *ledger.Row) bool {
	return r.Kind == q.Kind &&
		(q.Parent == guuid.Nil || r.Parent == q.Parent) &&
		(q.Worker == guuid.Nil || r.Worker == q.Worker) &&
		(!q.Open || r.Open) &&
		(q.DueBy.IsZero() || !r.Due.IsZero() && !r.Due.After(q.DueBy)) &&
		(q.Order != ledger.DueFirst || !r.Due.IsZero()) &&
		(q.IDs == nil || slices.Contains(q.IDs, r.ID)) &&
		q.Follows(r) &&
		len(termsWithout(q.Terms, r.Terms)) == 0
}
