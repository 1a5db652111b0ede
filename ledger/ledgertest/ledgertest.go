// Package ledgertest tests implementations of [ledger.Backend]. A backend that passes [Run] and
// [Differential] works with [ledger.Ledger].
package ledgertest

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/ledger"
)

// Run tests a backend. It calls open once per test. open returns an empty backend and registers
// its cleanup with t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) ledger.Backend) {
	t.Helper()
	for _, group := range [][]test{rows, queries, transactions, events, priorities, searches} {
		for _, test := range group {
			t.Run(test.name, func(t *testing.T) { test.run(&fixture{t, open(t)}) })
		}
	}
}

type test struct {
	name string
	run  func(*fixture)
}

// fixture is a test with the backend under test.
type fixture struct {
	*testing.T
	ledger.Backend
}

// id returns the ID with number n; greater numbers yield greater IDs.
func id(n int) (id uuid.UUID) {
	binary.BigEndian.PutUint64(id[8:], uint64(n))
	return id
}

// start is an arbitrary time.
var start = time.Date(2026, 3, 1, 12, 0, 0, 123000, time.UTC)

// at returns the time n microseconds after start.
func at(n int) time.Time { return start.Add(time.Duration(n) * time.Microsecond) }

// update runs a transaction and fails the test if it fails.
func (f *fixture) update(fn func(ledger.Tx) error) {
	f.Helper()
	if err := f.Update(f.Context(), id(1), fn); err != nil {
		f.Fatal(err)
	}
}

// put stores rows.
func (f *fixture) put(rows ...*ledger.Row) {
	f.Helper()
	f.update(func(tx ledger.Tx) error {
		for _, r := range rows {
			if err := tx.Put(r); err != nil {
				return err
			}
		}
		return nil
	})
}

// get returns a row, or nil.
func (f *fixture) get(kind ledger.Kind, id uuid.UUID) *ledger.Row {
	f.Helper()
	r, err := f.Get(f.Context(), kind, id)
	if err != nil {
		f.Fatal(err)
	}
	return r
}

// find returns the rows that a query selects, and checks that a transaction finds the same
// rows.
func (f *fixture) find(q *ledger.Query) []*ledger.Row {
	f.Helper()
	var rows []*ledger.Row
	for r, err := range f.Find(f.Context(), q) {
		if err != nil {
			f.Fatal(err)
		}
		rows = append(rows, r)
	}
	if c, ok := f.Backend.(ledger.Counter); ok && q.Limit == 0 {
		if n, err := c.Count(f.Context(), q); err != nil || n != len(rows) {
			f.Errorf("%+v: counted %d rows, %v; want %d", q, n, err, len(rows))
		}
	}
	f.update(func(tx ledger.Tx) error {
		inside, err := tx.Find(q)
		if err == nil {
			f.compare("in a transaction", inside, rows)
		}
		return err
	})
	return rows
}
