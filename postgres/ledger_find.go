package postgres

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	guuid "github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/treadle-go/treadle/ledger"
)

// A query is read in pages, and no connection is held while the caller looks at one.
// The first is small, because most callers want few rows.
const (
	firstLedgerPage = 16
	lastLedgerPage  = 512
	bodiesPage      = 16 // of rows with bodies
)

// ledgerFind is a query that is answered in pages.
type ledgerFind struct {
	b     *ledgerBackend
	q     ledger.Query
	ready bool // the rarest term is known
	begun bool // at and id are those of the last row that was read
	at    time.Time
	id    guuid.UUID
	left  int // how many more rows are wanted
	done  bool
}

func (b *ledgerBackend) newFind(q *ledger.Query) *ledgerFind {
	f := &ledgerFind{b: b, q: *q, left: math.MaxInt}
	if q.Limit > 0 {
		f.left = q.Limit
	}
	f.q.Terms = slices.Clone(q.Terms)
	if q.IDs != nil {
		f.q.IDs = slices.Clone(q.IDs)
		slices.SortFunc(f.q.IDs, func(a, b guuid.UUID) int { return strings.Compare(string(a[:]), string(b[:])) })
		f.q.IDs = slices.Compact(f.q.IDs)
		f.done = len(f.q.IDs) == 0
	}
	return f
}

// byTerm reports whether the rows are found by their first term, in order. The runs of a
// worker are fewer than those with a term.
func (f *ledgerFind) byTerm() bool {
	q := &f.q
	return len(q.Terms) > 0 && q.IDs == nil && q.Worker == guuid.Nil && q.Order != ledger.DueFirst
}

// rarestFirst puts the rarest term first.
func (f *ledgerFind) rarestFirst(ctx context.Context, c querier) error {
	if f.ready || len(f.q.Terms) < 2 || !f.byTerm() {
		return nil
	}
	var n int
	if err := c.QueryRow(ctx, f.b.sql.rarest, int16(f.q.Kind), signedTerms(f.q.Terms)).Scan(&n); err != nil {
		return err
	}
	f.ready = true
	f.q.Terms[0], f.q.Terms[n-1] = f.q.Terms[n-1], f.q.Terms[0]
	return nil
}

// statement writes the statement for the next n rows. Kinds are written out, because
// indexes are for some kinds only, and so is n, because the plan depends on it.
func (f *ledgerFind) statement(n int) (query string, args []any) {
	q := &f.q
	arg := func(v any) string {
		args = append(args, v)
		return fmt.Sprintf("$%d", len(args))
	}
	from, at, id := " FROM {schema}.server_row r", "r.created", "r.id"
	where := []string{fmt.Sprintf("r.kind = %d", q.Kind)}
	terms := q.Terms
	if q.Order == ledger.DueFirst {
		at = "r.due"
	}
	if f.byTerm() {
		from, at, id = " FROM {schema}.server_term t JOIN {schema}.server_row r ON r.id = t.id", "t.created", "t.id"
		where = append(where, fmt.Sprintf("t.kind = %d", q.Kind), "t.term = "+arg(int64(terms[0])))
		terms = terms[1:]
	}
	if len(terms) > 0 {
		where = append(where, "r.terms @> "+arg(signedTerms(terms)))
	}
	if q.IDs != nil {
		ids := make([][16]byte, len(q.IDs))
		for i, id := range q.IDs {
			ids[i] = id
		}
		where = append(where, "r.id = ANY ("+arg(ids)+")")
	}
	if q.Parent != guuid.Nil {
		where = append(where, "r.parent = "+arg([16]byte(q.Parent)))
	}
	if q.Worker != guuid.Nil {
		where = append(where, "r.worker = "+arg([16]byte(q.Worker)))
	}
	if q.Open {
		where = append(where, "r.open")
	}
	if q.Order == ledger.DueFirst || !q.DueBy.IsZero() {
		where = append(where, "r.due IS NOT NULL")
	}
	if !q.DueBy.IsZero() {
		where = append(where, "r.due <= "+arg(q.DueBy.UnixMicro()))
	}
	beyond, direction := ">", ""
	if q.Order == ledger.NewestFirst {
		beyond, direction = "<", " DESC"
	}
	if f.begun {
		where = append(where, fmt.Sprintf("(%s, %s) %s (%s, %s)", at, id, beyond, arg(f.at.UnixMicro()), arg([16]byte(f.id))))
	}
	columns := ledgerColumns
	if q.Bodies {
		columns += ledgerBody
	}
	query = "SELECT " + columns + from + " WHERE " + strings.Join(where, " AND ") + " ORDER BY " + at + direction + ", " + id + direction
	if q.IDs == nil { // otherwise Postgres might look for the ids in the order of creation
		query += fmt.Sprintf(" LIMIT %d", n)
	}
	return f.b.in(query), args
}

// next reads the next rows, at most n unless they are found by their ids.
func (f *ledgerFind) next(ctx context.Context, c querier, n int) ([]*ledgerRow, error) {
	if err := f.rarestFirst(ctx, c); err != nil {
		return nil, err
	}
	n = min(n, f.left)
	query, args := f.statement(n)
	rows, err := ledgerRows(ctx, c, query, args, f.q.Bodies)
	if err != nil {
		return nil, err
	}
	f.done = f.q.IDs != nil || len(rows) < n
	rows = rows[:min(len(rows), f.left)]
	if f.left -= len(rows); f.left == 0 {
		f.done = true
	}
	if len(rows) > 0 {
		last := rows[len(rows)-1]
		f.begun, f.at, f.id = true, last.Created, last.ID
		if f.q.Order == ledger.DueFirst {
			f.at = last.Due
		}
	}
	return rows, nil
}

// Find implements [ledger.Backend].
func (b *ledgerBackend) Find(ctx context.Context, q *ledger.Query) iter.Seq2[*ledger.Row, error] {
	return func(yield func(*ledger.Row, error) bool) {
		n := firstLedgerPage
		for f := b.newFind(q); !f.done; {
			var rows []*ledgerRow
			err := b.db.read(ctx, func(c *pgx.Conn) (err error) {
				rows, err = f.next(ctx, c, n)
				return err
			})
			if err != nil {
				yield(nil, err)
				return
			}
			for _, r := range rows {
				if !yield(&r.Row, nil) {
					return
				}
			}
			if n = min(4*n, lastLedgerPage); q.Bodies {
				n = bodiesPage
			}
		}
	}
}
