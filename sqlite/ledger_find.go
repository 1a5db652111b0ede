package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/ledger"
)

const (
	// ledgerChunk is the number of rows read before the connection is released, and
	// ledgerBodies the number if they include bodies. A caller that iterates over many
	// rows may take long and may write in between.
	ledgerChunk  = 128
	ledgerBodies = 16
	// maxLedgerRows is the page size for transactions, which hold the connection anyway.
	maxLedgerRows = math.MaxInt32
	// countedTerms is the maximum count when searching for the rarest of several terms.
	countedTerms = 1000
)

// A ledgerFind is a query whose results are read in pages.
type ledgerFind struct {
	q     ledger.Query
	query string
	args  []any // all arguments except the position and the limit
	terms []uint64
	place []any // time and ID of the last row read
	left  int   // number of rows still wanted
	done  bool
}

// newLedgerFind prepares a query. If the query has several terms, the rarest is looked up
// in the index, and the others are checked in the rows.
func (c *conn) newLedgerFind(q *ledger.Query) (*ledgerFind, error) {
	f := &ledgerFind{q: *q, left: math.MaxInt}
	if q.Limit > 0 {
		f.left = q.Limit
	}
	if q.IDs != nil {
		return f, nil
	}
	terms := slices.Clone(q.Terms)
	if len(terms) > 1 {
		if err := c.rarestFirst(q.Kind, terms); err != nil {
			return nil, err
		}
		f.terms = terms[1:]
	}
	f.write(terms)
	return f, nil
}

// rarestFirst moves the rarest term to the front.
func (c *conn) rarestFirst(kind ledger.Kind, terms []uint64) error {
	least := math.MaxInt
	for i, t := range terms {
		var n int
		_, err := c.row("SELECT count(*) FROM (SELECT 1 FROM server_term WHERE kind=? AND term=? LIMIT ?+0)", []any{int64(kind), int64(t), countedTerms}, &n)
		if err != nil {
			return err
		}
		if n < least {
			least = n
			terms[0], terms[i] = terms[i], terms[0]
		}
	}
	return nil
}

// write builds the statement. There are few different statements, so all of them can stay
// prepared.
func (f *ledgerFind) write(terms []uint64) {
	q := &f.q
	from, order, by := " FROM server_row r", "r.created", "r"
	var where []string
	add := func(condition string, arg any) {
		where = append(where, condition)
		f.args = append(f.args, arg)
	}
	if len(terms) > 0 {
		from = " FROM server_term t CROSS JOIN server_row r ON r.kind=t.kind AND r.id=t.id"
		order, by = "t.created", "t"
		add("t.kind=?", int64(q.Kind))
		add("t.term=?", int64(terms[0]))
	} else {
		index := f.index()
		from += " INDEXED BY " + index
		if index == "server_row_created" {
			where = append(where, "r.kind<>4") // repeats the condition of the partial index
		}
		add("r.kind=?", int64(q.Kind))
	}
	if q.Order == ledger.DueFirst {
		order, by = "r.due", "r"
	}
	if q.Bodies {
		from += " LEFT JOIN server_body b ON b.row=r.seq"
	}
	if q.Parent != uuid.Nil {
		add("r.parent=?", q.Parent[:])
	}
	if q.Worker != uuid.Nil {
		add("r.worker=?", q.Worker[:])
	}
	if q.Open {
		where = append(where, "r.open=1")
	}
	if q.Order == ledger.DueFirst || !q.DueBy.IsZero() {
		where = append(where, "r.due IS NOT NULL")
	}
	if !q.DueBy.IsZero() {
		add("r.due<=?", ledgerMicros(q.DueBy))
	}
	id := by + ".id"
	columns, beyond := serverColumns, ">"
	if q.Bodies {
		columns += serverBody
	}
	direction := ""
	f.place = []any{int64(math.MinInt64), []byte{}}
	if q.Order == ledger.NewestFirst {
		beyond, direction = "<", " DESC"
		f.place = []any{int64(math.MaxInt64), []byte(strings.Repeat("\xff", 17))}
	}
	where = append(where, "("+order+","+id+")"+beyond+"(?,?)")
	f.query = "SELECT " + columns + from + " WHERE " + strings.Join(where, " AND ") + " ORDER BY " + order + direction + ", " + id + direction + " LIMIT ?+0"
}

// index returns the name of the index for the rows of a query.
func (f *ledgerFind) index() string {
	q := &f.q
	switch due := q.Order == ledger.DueFirst || !q.DueBy.IsZero(); {
	case due && q.Parent != uuid.Nil:
		return "server_row_parent_due"
	case due && q.Open:
		return "server_row_open_due"
	case due:
		return "server_row_due"
	case q.Open:
		return "server_row_open"
	case q.Parent != uuid.Nil:
		return "server_row_parent"
	case q.Kind == ledger.Runs:
		return "sqlite_autoindex_server_row_1" // by ID: no caller lists all runs
	}
	return "server_row_created"
}

// byIDs reads all rows of a query by ID. It reads them one by one, because SQLite would
// otherwise scan an index in the requested order.
func (f *ledgerFind) byIDs(c *conn) ([]*ledgerRow, error) {
	f.done = true
	q := &f.q
	var rows []*ledgerRow
	read := map[uuid.UUID]bool{}
	for _, id := range q.IDs {
		if read[id] {
			continue
		}
		read[id] = true
		r, err := c.ledgerRow(q.Kind, id, q.Bodies)
		if err != nil {
			return nil, err
		}
		if r != nil && f.selects(r) {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, func(a, b *ledgerRow) int {
		x, y := a.Created, b.Created
		switch q.Order {
		case ledger.NewestFirst:
			a, b, x, y = b, a, y, x
		case ledger.DueFirst:
			x, y = a.Due, b.Due
		}
		return cmp.Or(x.Compare(y), bytes.Compare(a.ID[:], b.ID[:]))
	})
	return rows[:min(f.left, len(rows))], nil
}

// selects reports whether a row meets the conditions of the query, apart from kind and
// ID.
func (f *ledgerFind) selects(r *ledgerRow) bool {
	q := &f.q
	return (q.Parent == uuid.Nil || r.Parent == q.Parent) &&
		(q.Worker == uuid.Nil || r.Worker == q.Worker) &&
		(!q.Open || r.Open) &&
		(q.DueBy.IsZero() || !r.Due.IsZero() && !r.Due.After(q.DueBy)) &&
		(q.Order != ledger.DueFirst || !r.Due.IsZero()) &&
		hasTerms(r, q.Terms)
}

// next reads the next rows: at most n, unless they are selected by ID.
func (f *ledgerFind) next(c *conn, n int) ([]*ledgerRow, error) {
	if f.q.IDs != nil {
		return f.byIDs(c)
	}
	if len(f.terms) == 0 { // otherwise some rows may not match
		n = min(n, f.left)
	}
	args := append(slices.Clone(f.args), f.place[0], f.place[1], int64(n))
	read := 0
	var rows []*ledgerRow
	err := c.each(f.query, args, func(scan func(...any) error) error {
		r, err := scanLedgerRow(scan, f.q.Bodies)
		if err != nil {
			return err
		}
		read++
		at := r.Created
		if f.q.Order == ledger.DueFirst {
			at = r.Due
		}
		f.place[0], f.place[1] = ledgerMicros(at), r.ID[:]
		if f.left > 0 && hasTerms(r, f.terms) {
			rows = append(rows, r)
			f.left--
		}
		return nil
	})
	f.done = read < n || f.left == 0
	return rows, err
}

func hasTerms(r *ledgerRow, terms []uint64) bool {
	for _, t := range terms {
		if !slices.Contains(r.Terms, t) {
			return false
		}
	}
	return true
}

// Find implements [ledger.Backend].
func (b *ledgerBackend) Find(ctx context.Context, q *ledger.Query) iter.Seq2[*ledger.Row, error] {
	return func(yield func(*ledger.Row, error) bool) {
		if err := b.ready(ctx); err != nil {
			yield(nil, err)
			return
		}
		n := ledgerChunk
		if q.Bodies {
			n = ledgerBodies
		}
		var f *ledgerFind
		for f == nil || !f.done {
			var rows []*ledgerRow
			err := b.db.readOnce(ctx, func(c *conn) (err error) {
				if f == nil {
					if f, err = c.newLedgerFind(q); err != nil {
						return err
					}
				}
				rows, err = f.next(c, n)
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
		}
	}
}
