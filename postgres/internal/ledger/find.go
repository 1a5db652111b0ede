package ledger

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
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/postgres/internal/database"
)

// Query results are read in pages, and no connection is held while the caller processes a
// page. The first page is small, because most callers want few rows, and usually only one
// due row.
const (
	firstDuePage = 4
	firstPage    = 16
	lastPage     = 512
	bodiesPage   = 16 // page size for rows with bodies
)

// A find is a query whose results are read in pages.
type find struct {
	b     *backend
	q     ledger.Query
	ready bool // whether the rarest term is known
	begun bool // whether at and id are those of the last row read
	at    time.Time
	id    guuid.UUID
	left  int // number of rows still wanted
	done  bool
}

func (b *backend) newFind(q *ledger.Query) *find {
	f := &find{b: b, q: *q, left: math.MaxInt}
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

// byTerm reports whether the rows are found by their first term, in order. A worker has
// fewer runs than a term has rows, so Worker takes precedence.
func (f *find) byTerm() bool {
	q := &f.q
	return len(q.Terms) > 0 && q.IDs == nil && q.Worker == guuid.Nil && q.Order != ledger.DueFirst
}

// rarestFirst moves the rarest term to the front.
func (f *find) rarestFirst(ctx context.Context, c database.Querier) error {
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

// A selection is the statement of a query under construction.
type selection struct {
	from   string
	at, id string // sort columns
	where  []string
	args   []any
}

func (s *selection) arg(v any) string {
	s.args = append(s.args, v)
	return fmt.Sprintf("$%d", len(s.args))
}

// and adds a condition.
func (s *selection) and(condition string) { s.where = append(s.where, condition) }

// source returns the FROM clause and the term conditions of a query. The kind is a
// literal, because some indexes cover only certain kinds.
func (f *find) source() *selection {
	q := &f.q
	s := &selection{from: " FROM {schema}.server_row r", at: "r.created", id: "r.id"}
	s.and(fmt.Sprintf("r.kind = %d", q.Kind))
	terms := q.Terms
	switch {
	case f.byTerm():
		s.from = byKey("{schema}.server_term t", fmt.Sprintf("s.id = t.id AND s.kind = %d", q.Kind))
		s.at, s.id = "t.created", "t.id"
		s.and(fmt.Sprintf("t.kind = %d", q.Kind))
		s.and("t.term = " + s.arg(int64(terms[0])))
		terms = terms[1:]
	case q.IDs != nil:
		ids := make([]pgtype.UUID, len(q.IDs))
		for i, id := range q.IDs {
			ids[i] = pgtype.UUID{Bytes: id, Valid: true}
		}
		s.from = byKey("unnest("+s.arg(ids)+"::uuid[]) AS u(id)", fmt.Sprintf("s.id = u.id AND s.kind = %d", q.Kind))
	}
	if len(terms) > 0 {
		s.and("r.terms @> " + s.arg(signedTerms(terms)))
	}
	return s
}

// conditions returns the FROM clause and all conditions of a query.
func (f *find) conditions() *selection {
	q := &f.q
	s := f.source()
	if q.Parent != guuid.Nil {
		s.and("r.parent = " + s.arg([16]byte(q.Parent)))
	}
	if q.Worker != guuid.Nil {
		s.and("r.worker = " + s.arg([16]byte(q.Worker)))
	}
	if q.Open {
		s.and("r.open")
	}
	if q.Order == ledger.DueFirst {
		s.at = "r.due"
		s.and("r.due IS NOT NULL")
	}
	if !q.DueBy.IsZero() {
		s.and("r.due <= " + s.arg(q.DueBy.UnixMicro()))
	}
	if p := q.After; p != nil && !f.begun {
		f.beyond(s, p.At, p.ID)
	}
	return s
}

// beyond adds the condition that rows come after a position in the query's order.
func (f *find) beyond(s *selection, at time.Time, id guuid.UUID) {
	operator := ">"
	if f.q.Order == ledger.NewestFirst {
		operator = "<"
	}
	s.and(fmt.Sprintf("(%s, %s) %s (%s, %s)", s.at, s.id, operator, s.arg(at.UnixMicro()), s.arg([16]byte(id))))
}

// statement returns the statement for the next n rows. The limit is a literal, because
// the plan depends on it.
func (f *find) statement(n int) (query string, args []any) {
	q := &f.q
	s := f.conditions()
	direction := ""
	if q.Order == ledger.NewestFirst {
		direction = " DESC"
	}
	if f.begun {
		f.beyond(s, f.at, f.id)
	}
	columns := rowColumns
	if q.Bodies {
		columns += rowBody
	}
	query = "SELECT " + columns + s.from + " WHERE " + strings.Join(s.where, " AND ") + " ORDER BY " + s.at + direction + ", " + s.id + direction
	if q.IDs == nil {
		query += fmt.Sprintf(" LIMIT %d", n)
	}
	return f.b.db.In(query), s.args
}

// next reads the next rows: at most n, unless they are selected by ID.
func (f *find) next(ctx context.Context, c database.Querier, n int) ([]*storedRow, error) {
	if err := f.rarestFirst(ctx, c); err != nil {
		return nil, err
	}
	n = min(n, f.left)
	query, args := f.statement(n)
	rows, err := readRows(ctx, c, query, args, f.q.Bodies)
	if err != nil {
		return nil, err
	}
	f.done = f.q.IDs != nil || len(rows) < n
	rows = rows[:min(len(rows), f.left)]
	f.left -= len(rows)
	if f.left == 0 {
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
func (b *backend) Find(ctx context.Context, q *ledger.Query) iter.Seq2[*ledger.Row, error] {
	return func(yield func(*ledger.Row, error) bool) {
		n := firstPage
		if q.Order == ledger.DueFirst {
			n = firstDuePage
		}
		for f := b.newFind(q); !f.done; {
			var rows []*storedRow
			err := b.db.Read(ctx, func(c *pgx.Conn) (err error) {
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
			n = min(4*n, lastPage)
			if q.Bodies {
				n = bodiesPage
			}
		}
	}
}

// Count implements [ledger.Counter].
func (b *backend) Count(ctx context.Context, q *ledger.Query) (n int, err error) {
	f := b.newFind(q)
	if f.done {
		return 0, nil
	}
	err = b.db.Read(ctx, func(c *pgx.Conn) error {
		if err := f.rarestFirst(ctx, c); err != nil {
			return err
		}
		s := f.conditions()
		return c.QueryRow(ctx, b.db.In("SELECT count(*)"+s.from+" WHERE "+strings.Join(s.where, " AND ")), s.args...).Scan(&n)
	})
	return n, err
}
