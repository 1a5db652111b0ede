package ledger

import (
	"context"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/sqlite/internal/database"
)

const (
	// rowsPage is the number of rows read before the connection is released, and
	// bodiesPage the number if they include bodies. A caller that iterates over many
	// rows may take long and may write in between.
	rowsPage   = 128
	bodiesPage = 16
	// maxRows is the page size for transactions, which hold the connection anyway.
	maxRows = math.MaxInt32
	// countedTerms is the maximum count when searching for the rarest of several terms.
	countedTerms = 1000
)

// A find is a query whose results are read in pages.
type find struct {
	q     ledger.Query
	query string
	args  []any // all arguments except the position and the limit
	terms []uint64
	place []any // time and ID of the last row read
	left  int   // number of rows still wanted
	done  bool
}

// newFind prepares a query. If the query has several terms, the rarest is looked up
// in the index, and the others are checked in the rows.
func newFind(c *database.Conn, q *ledger.Query) (*find, error) {
	f := &find{q: *q, left: math.MaxInt}
	if q.Limit > 0 {
		f.left = q.Limit
	}
	if q.IDs != nil {
		return f, nil
	}
	terms := slices.Clone(q.Terms)
	if len(terms) > 1 {
		if err := rarestFirst(c, q.Kind, terms); err != nil {
			return nil, err
		}
		f.terms = terms[1:]
	}
	f.write(terms)
	return f, nil
}

// rarestFirst moves the rarest term to the front.
func rarestFirst(c *database.Conn, kind ledger.Kind, terms []uint64) error {
	least := math.MaxInt
	for i, t := range terms {
		var n int
		_, err := c.Row("SELECT count(*) FROM (SELECT 1 FROM server_term WHERE kind=? AND term=? LIMIT ?+0)", []any{int64(kind), int64(t), countedTerms}, &n)
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
func (f *find) write(terms []uint64) {
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
			where = append(where, "r.kind<9") // repeats the condition of the partial index
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
		add("r.due<=?", micros(q.DueBy))
	}
	id := by + ".id"
	columns, beyond := rowColumns, ">"
	if q.Bodies {
		columns += rowBody
	}
	direction := ""
	f.place = []any{int64(math.MinInt64), []byte{}}
	if q.Order == ledger.NewestFirst {
		beyond, direction = "<", " DESC"
		f.place = []any{int64(math.MaxInt64), []byte(strings.Repeat("\xff", 17))}
	}
	if p := q.After; p != nil {
		f.place = []any{p.At.UnixMicro(), p.ID[:]}
	}
	where = append(where, "("+order+","+id+")"+beyond+"(?,?)")
	f.query = "SELECT " + columns + from + " WHERE " + strings.Join(where, " AND ") + " ORDER BY " + order + direction + ", " + id + direction + " LIMIT ?+0"
}

// index returns the name of the index for the rows of a query.
func (f *find) index() string {
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
	case q.Kind >= ledger.Spans:
		return "sqlite_autoindex_server_row_1" // by ID: no caller lists all rows of these kinds
	}
	return "server_row_created"
}

// byIDs reads all rows of a query by ID. It reads them one by one, because SQLite would
// otherwise scan an index in the requested order.
func (f *find) byIDs(c *database.Conn) ([]*storedRow, error) {
	f.done = true
	q := &f.q
	var rows []*storedRow
	read := map[uuid.UUID]bool{}
	for _, id := range q.IDs {
		if read[id] {
			continue
		}
		read[id] = true
		r, err := readRow(c, q.Kind, id, q.Bodies)
		if err != nil {
			return nil, err
		}
		if r != nil && f.selects(r) {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, func(a, b *storedRow) int { return q.Compare(&a.Row, &b.Row) })
	return rows[:min(f.left, len(rows))], nil
}

// selects reports whether a row meets the conditions of the query, apart from kind and
// ID.
func (f *find) selects(r *storedRow) bool {
	q := &f.q
	return (q.Parent == uuid.Nil || r.Parent == q.Parent) &&
		(q.Worker == uuid.Nil || r.Worker == q.Worker) &&
		(!q.Open || r.Open) &&
		(q.DueBy.IsZero() || !r.Due.IsZero() && !r.Due.After(q.DueBy)) &&
		(q.Order != ledger.DueFirst || !r.Due.IsZero()) &&
		q.Follows(&r.Row) &&
		hasTerms(r, q.Terms)
}

// next reads the next rows: at most n, unless they are selected by ID.
func (f *find) next(c *database.Conn, n int) ([]*storedRow, error) {
	if f.q.IDs != nil {
		return f.byIDs(c)
	}
	if len(f.terms) == 0 { // otherwise some rows may not match
		n = min(n, f.left)
	}
	args := append(slices.Clone(f.args), f.place[0], f.place[1], int64(n))
	read := 0
	var rows []*storedRow
	err := c.Each(f.query, args, func(scan func(...any) error) error {
		r, err := scanRow(scan, f.q.Bodies)
		if err != nil {
			return err
		}
		read++
		at := r.Created
		if f.q.Order == ledger.DueFirst {
			at = r.Due
		}
		f.place[0], f.place[1] = micros(at), r.ID[:]
		if f.left > 0 && hasTerms(r, f.terms) {
			rows = append(rows, r)
			f.left--
		}
		return nil
	})
	f.done = read < n || f.left == 0
	return rows, err
}

func hasTerms(r *storedRow, terms []uint64) bool {
	for _, t := range terms {
		if !slices.Contains(r.Terms, t) {
			return false
		}
	}
	return true
}

// Find implements [ledger.Backend].
func (b *Backend) Find(ctx context.Context, q *ledger.Query) iter.Seq2[*ledger.Row, error] {
	return func(yield func(*ledger.Row, error) bool) {
		if err := b.ready(ctx); err != nil {
			yield(nil, err)
			return
		}
		n := rowsPage
		if q.Bodies {
			n = bodiesPage
		}
		var f *find
		for f == nil || !f.done {
			var rows []*storedRow
			err := b.db.ReadOnce(ctx, func(c *database.Conn) (err error) {
				if f == nil {
					if f, err = newFind(c, q); err != nil {
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
