package ledgertest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/treadle-go/treadle/ledger"
)

// same treats nil and empty as equal, and ignores unexported fields and the order of terms.
var same = cmp.Options{
	cmpopts.EquateEmpty(),
	cmpopts.IgnoreUnexported(ledger.Run{}, ledger.Assistant{}),
	cmpopts.SortSlices(func(a, b uint64) bool { return a < b }),
}

func (f *fixture) compare(what string, got, want []*ledger.Row) {
	f.Helper()
	if slices.EqualFunc(got, want, equalRows) {
		return
	}
	f.Errorf("%s (-want +got):\n%s", what, cmp.Diff(want, got, same))
}

// equalRows compares like cmp with same, but faster.
func equalRows(a, b *ledger.Row) bool {
	return a.Kind == b.Kind && a.ID == b.ID && a.Parent == b.Parent && a.Worker == b.Worker && a.Open == b.Open &&
		a.Due.Equal(b.Due) && a.Created.Equal(b.Created) && bytes.Equal(a.Doc, b.Doc) && bytes.Equal(a.Body, b.Body) &&
		slices.Equal(slices.Sorted(slices.Values(a.Terms)), slices.Sorted(slices.Values(b.Terms)))
}

// full returns a row with all fields set.
func full(n int) *ledger.Row {
	return &ledger.Row{
		Kind: ledger.Runs, ID: id(n), Parent: id(100), Worker: id(200), Open: true, Due: at(5), Created: at(n),
		Terms: []uint64{1, 1 << 63, ^uint64(0)}, Doc: []byte("doc \x00\xff"), Body: []byte("body \x00\xff"),
	}
}

var rows = []test{
	{"row round-trips", func(f *fixture) {
		r := full(1)
		f.put(r)
		f.compare("row", []*ledger.Row{f.get(ledger.Runs, id(1))}, []*ledger.Row{r})
	}},
	{"minimal row round-trips", func(f *fixture) {
		r := &ledger.Row{Kind: ledger.Crons, ID: id(1), Created: at(0), Doc: []byte("{}")}
		f.put(r)
		f.compare("row", []*ledger.Row{f.get(ledger.Crons, id(1))}, []*ledger.Row{r})
		if got := f.get(ledger.Crons, id(1)); !got.Due.IsZero() || got.Parent != uuid.Nil || got.Body != nil {
			f.Errorf("got %+v", got)
		}
	}},
	{"missing row is nil", func(f *fixture) {
		f.put(full(1))
		if r := f.get(ledger.Runs, id(2)); r != nil {
			f.Errorf("got %+v", r)
		}
		if r := f.get(ledger.Threads, id(1)); r != nil {
			f.Errorf("got %+v for another kind", r)
		}
		f.update(func(tx ledger.Tx) error {
			r, err := tx.Get(ledger.Threads, id(1))
			if r != nil {
				f.Errorf("got %+v in a transaction", r)
			}
			return err
		})
	}},
	{"put keeps the creation time", func(f *fixture) {
		f.put(full(1))
		r := &ledger.Row{Kind: ledger.Runs, ID: id(1), Created: at(77), Terms: []uint64{1, 4}, Doc: []byte("new"), Body: []byte("other")}
		f.put(r)
		want := *r
		want.Created = at(1)
		f.compare("row", []*ledger.Row{f.get(ledger.Runs, id(1))}, []*ledger.Row{&want})
		for _, q := range []*ledger.Query{{Parent: id(100)}, {Worker: id(200)}, {Open: true}, {Order: ledger.DueFirst}, {Terms: []uint64{1 << 63}}} {
			q.Kind = ledger.Runs
			f.compare(fmt.Sprintf("result of %+v", q), f.find(q), nil)
		}
		want.Body = nil
		f.compare("result for the new term", f.find(&ledger.Query{Kind: ledger.Runs, Terms: []uint64{4, 1}}), []*ledger.Row{&want})
	}},
	{"put without a body keeps the body", func(f *fixture) {
		f.put(full(1))
		r := full(1)
		r.Doc, r.Body = []byte("new"), nil
		f.put(r)
		if got := f.get(ledger.Runs, id(1)); string(got.Doc) != "new" || string(got.Body) != "body \x00\xff" {
			f.Errorf("got doc %q and body %q", got.Doc, got.Body)
		}
	}},
	{"empty body", func(f *fixture) {
		f.put(full(1))
		r := full(1)
		r.Body = []byte{}
		f.put(r)
		if got := f.get(ledger.Runs, id(1)); len(got.Body) != 0 {
			f.Errorf("got body %q", got.Body)
		}
	}},
	{"deleted row is not found", func(f *fixture) {
		f.put(full(1), full(2))
		f.update(func(tx ledger.Tx) error {
			if err := tx.Delete(ledger.Runs, id(3)); err != nil {
				return err
			}
			return tx.Delete(ledger.Runs, id(1))
		})
		if r := f.get(ledger.Runs, id(1)); r != nil {
			f.Errorf("got %+v", r)
		}
		want := full(2)
		want.Body = nil
		for _, q := range []*ledger.Query{{}, {Parent: id(100)}, {Worker: id(200)}, {Open: true}, {Order: ledger.DueFirst}, {Terms: []uint64{1}}, {IDs: []uuid.UUID{id(1), id(2)}}} {
			q.Kind = ledger.Runs
			f.compare(fmt.Sprintf("result of %+v", q), f.find(q), []*ledger.Row{want})
		}
		r := full(1)
		r.Created, r.Body = at(9), nil
		f.put(r)
		f.compare("row put again", []*ledger.Row{f.get(ledger.Runs, id(1))}, []*ledger.Row{r})
	}},
	{"times are UTC in whole microseconds", func(f *fixture) {
		r := full(1)
		zone := time.FixedZone("somewhere", 3600)
		r.Created, r.Due = at(3).Add(999).In(zone), at(4).Add(999).In(zone)
		f.put(r)
		got := f.get(ledger.Runs, id(1))
		if got.Created != at(3) || got.Due != at(4) {
			f.Errorf("got created %v, due %v; want %v, %v", got.Created, got.Due, at(3), at(4))
		}
	}},
	{"large row round-trips", func(f *fixture) {
		r := full(1)
		r.Doc, r.Body = bytes.Repeat([]byte("doc\x00"), 100_000), bytes.Repeat([]byte("body"), 1_000_000)
		for i := range 200 {
			r.Terms = append(r.Terms, uint64(i+10))
		}
		f.put(r)
		f.compare("row", []*ledger.Row{f.get(ledger.Runs, id(1))}, []*ledger.Row{r})
	}},
	{"rows are copied", func(f *fixture) {
		r := full(1)
		f.put(r)
		r.Doc[0], r.Body[0], r.Terms[0] = 'X', 'X', 99
		for range 2 {
			got := f.get(ledger.Runs, id(1))
			f.compare("row", []*ledger.Row{got}, []*ledger.Row{full(1)})
			got.Doc[0], got.Body[0], got.Terms[0] = 'X', 'X', 99
			for _, got := range f.find(&ledger.Query{Kind: ledger.Runs, Bodies: true}) {
				f.compare("row", []*ledger.Row{got}, []*ledger.Row{full(1)})
				got.Doc[0], got.Body[0], got.Terms[0] = 'X', 'X', 99
			}
		}
	}},
}

var queries = []test{
	{"all combinations of query conditions", func(f *fixture) {
		all := manyRows()
		f.put(all...)
		for _, q := range manyQueries() {
			f.compare(fmt.Sprintf("result of %+v", q), f.find(q), expected(all, q))
		}
	}},
	{"nil and empty IDs differ", func(f *fixture) {
		f.put(full(1))
		if n := len(f.find(&ledger.Query{Kind: ledger.Runs, IDs: []uuid.UUID{}})); n != 0 {
			f.Errorf("got %d rows for empty IDs", n)
		}
	}},
	{"bodies are returned on request", func(f *fixture) {
		bare := full(2)
		bare.Body = nil
		f.put(full(1), bare)
		f.compare("with bodies", f.find(&ledger.Query{Kind: ledger.Runs, Order: ledger.OldestFirst, Bodies: true}), []*ledger.Row{full(1), bare})
		for _, r := range f.find(&ledger.Query{Kind: ledger.Runs}) {
			if r.Body != nil {
				f.Errorf("got unrequested body %q", r.Body)
			}
		}
	}},
	{"thousands of rows in order", func(f *fixture) {
		var all []*ledger.Row
		for i := range 1000 {
			all = append(all, &ledger.Row{
				Kind:    ledger.Threads,
				ID:      id(i*7919%1000 + 1),
				Created: at(i / 3),
				Due:     at(i % 10),
				Open:    i%2 == 0,
				Terms:   []uint64{uint64(i % 3)},
				Doc:     []byte("{}"),
			})
		}
		f.put(all...)
		for _, q := range []*ledger.Query{
			{}, {Order: ledger.OldestFirst}, {Order: ledger.DueFirst}, {Open: true}, {Order: ledger.DueFirst, Open: true, Limit: 400},
			{Terms: []uint64{1}}, {Terms: []uint64{1}, Order: ledger.OldestFirst, Limit: 300}, {Order: ledger.DueFirst, DueBy: at(4)},
		} {
			q.Kind = ledger.Threads
			f.compare(fmt.Sprintf("result of %+v", q), f.find(q), expected(all, q))
		}
	}},
	{"rows after a position", func(f *fixture) {
		all := manyRows()
		f.put(all...)
		for _, p := range []ledger.Position{{At: at(20), ID: id(83)}, {At: at(20)}, {At: at(4), ID: id(999)}, {At: at(-1)}, {At: at(999)}} {
			for _, q := range []*ledger.Query{
				{}, {Parent: id(1001)}, {Worker: id(2003)}, {Open: true}, {Open: true, Parent: id(1001), Limit: 7}, {DueBy: at(5)},
				{Terms: []uint64{1}}, {Terms: []uint64{2, 0}, Limit: 3}, {Terms: []uint64{2, 0}, Parent: id(1001)},
				{IDs: []uuid.UUID{id(5), id(83), id(84), id(180)}}, {Limit: 150},
			} {
				for _, order := range []ledger.Order{ledger.NewestFirst, ledger.OldestFirst, ledger.DueFirst} {
					q.Kind, q.Order, q.After = ledger.Threads, order, &p
					f.compare(fmt.Sprintf("result of %+v after %+v", q, p), f.find(q), expected(all, q))
				}
			}
		}
	}},
	{"rows of numerous kinds", func(f *fixture) {
		var all []*ledger.Row
		for i := range 60 {
			for _, kind := range []ledger.Kind{ledger.Spans, ledger.Texts, ledger.Unindexed} {
				r := &ledger.Row{
					Kind:    kind,
					ID:      id(i + 1),
					Parent:  id(1000 + i%2),
					Created: at(i),
					Due:     at(i % 9),
					Doc:     fmt.Appendf(nil, "%d", i),
				}
				for t := range 40 { // a text has many terms
					r.Terms = append(r.Terms, uint64(t*(i%5+1)))
				}
				slices.Sort(r.Terms)
				r.Terms = slices.Compact(r.Terms)
				all = append(all, r)
			}
		}
		f.put(all...)
		for _, kind := range []ledger.Kind{ledger.Spans, ledger.Texts, ledger.Unindexed} {
			for _, q := range []*ledger.Query{
				{}, {Parent: id(1001), Order: ledger.OldestFirst, Limit: 100, After: &ledger.Position{At: at(7), ID: id(8)}},
				{DueBy: at(3), Order: ledger.DueFirst, Limit: 20}, {Terms: []uint64{39, 3}}, {Terms: []uint64{0, 78, 2}, Limit: 9},
			} {
				q.Kind = kind
				f.compare(fmt.Sprintf("result of %+v", q), f.find(q), expected(all, q))
			}
		}
		f.update(func(tx ledger.Tx) error {
			for _, r := range all {
				r.Terms = r.Terms[:len(r.Terms)/2]
				if err := tx.Put(r); err != nil {
					return err
				}
			}
			return nil
		})
		q := &ledger.Query{Kind: ledger.Texts, Terms: []uint64{39, 3}}
		f.compare("result after the terms changed", f.find(q), expected(all, q))
	}},
	{"iteration allows writes and early exit", func(f *fixture) {
		for i := range 300 {
			f.put(&ledger.Row{Kind: ledger.Threads, ID: id(i + 1), Created: at(i), Doc: []byte("{}")})
		}
		n := 0
		for r, err := range f.Find(f.Context(), &ledger.Query{Kind: ledger.Threads}) {
			if err != nil {
				f.Fatal(err)
			}
			f.update(func(tx ledger.Tx) error { return tx.Delete(ledger.Threads, r.ID) })
			n++
			if n == 200 {
				break
			}
		}
		if left := len(f.find(&ledger.Query{Kind: ledger.Threads})); n != 200 || left != 100 {
			f.Errorf("deleted %d rows, and %d remain", n, left)
		}
	}},
}

// manyRows returns rows of two kinds with many combinations of set and unset fields.
func manyRows() []*ledger.Row {
	var all []*ledger.Row
	for i := range 200 {
		r := &ledger.Row{Kind: ledger.Threads, ID: id(i + 1), Created: at(i / 4), Doc: fmt.Appendf(nil, "row %d", i), Open: i%2 == 0}
		if i%8 == 7 {
			r.Kind = ledger.Runs
		}
		if i%3 > 0 {
			r.Parent = id(1000 + i%3)
		}
		if i%5 > 2 {
			r.Worker = id(2000 + i%5)
		}
		if i%7 > 3 {
			r.Due = at(i % 7)
		}
		for t := range uint64(4) {
			if i>>t&3 == 3 {
				r.Terms = append(r.Terms, t)
			}
		}
		all = append(all, r)
	}
	return all
}

// manyQueries returns queries with all combinations of conditions.
func manyQueries() []*ledger.Query {
	queries := []*ledger.Query{{Kind: ledger.Threads}}
	vary := func(changes ...func(*ledger.Query)) {
		for _, q := range queries {
			for _, change := range changes {
				other := *q
				change(&other)
				queries = append(queries, &other)
			}
		}
	}
	vary(func(q *ledger.Query) { q.Parent = id(1001) })
	vary(func(q *ledger.Query) { q.Worker = id(2003) })
	vary(func(q *ledger.Query) { q.Open = true })
	vary(func(q *ledger.Query) { q.DueBy = at(5) })
	vary(func(q *ledger.Query) { q.Terms = []uint64{1} }, func(q *ledger.Query) { q.Terms = []uint64{2, 0} })
	vary(func(q *ledger.Query) { q.IDs = []uuid.UUID{id(5), id(180), id(60), id(61), id(90), id(5), id(999)} })
	vary(func(q *ledger.Query) { q.Order = ledger.OldestFirst }, func(q *ledger.Query) { q.Order = ledger.DueFirst })
	vary(func(q *ledger.Query) { q.Limit = 3 })
	return queries
}

// expected returns the rows that q selects from all. It is the reference implementation of
// queries.
func expected(all []*ledger.Row, q *ledger.Query) []*ledger.Row {
	var found []*ledger.Row
	for _, r := range all {
		ok := r.Kind == q.Kind &&
			(q.Parent == uuid.Nil || r.Parent == q.Parent) &&
			(q.Worker == uuid.Nil || r.Worker == q.Worker) &&
			(!q.Open || r.Open) &&
			(q.DueBy.IsZero() || !r.Due.IsZero() && !r.Due.After(q.DueBy)) &&
			(q.Order != ledger.DueFirst || !r.Due.IsZero()) &&
			(q.IDs == nil || slices.Contains(q.IDs, r.ID)) &&
			(q.After == nil || compareIn(q.Order, r, &ledger.Row{ID: q.After.ID, Created: q.After.At, Due: q.After.At}) > 0)
		for _, t := range q.Terms {
			ok = ok && slices.Contains(r.Terms, t)
		}
		if ok {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b *ledger.Row) int { return compareIn(q.Order, a, b) })
	if q.Limit > 0 {
		found = found[:min(q.Limit, len(found))]
	}
	return found
}

// compareIn compares rows in an order.
func compareIn(o ledger.Order, a, b *ledger.Row) int {
	x, y := a.Created, b.Created
	switch o {
	case ledger.NewestFirst:
		a, b = b, a
		x, y = y, x
	case ledger.DueFirst:
		x, y = a.Due, b.Due
	case ledger.OldestFirst:
	}
	if c := x.Compare(y); c != 0 {
		return c
	}
	return strings.Compare(string(a.ID[:]), string(b.ID[:]))
}
