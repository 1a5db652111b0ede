package ledger

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// NewMemory returns a backend that stores everything in memory.
func NewMemory() Backend {
	return &memory{rows: map[rowKey]*Row{}, sets: map[setKey]map[rowKey]*Row{}, events: map[uuid.UUID][]*memoryEvents{}}
}

// memory is an in-memory [Backend]. It runs one transaction at a time. Stored rows are
// replaced, never modified.
type memory struct {
	updates sync.Mutex // held by a transaction
	mu      sync.RWMutex
	rows    map[rowKey]*Row
	sets    map[setKey]map[rowKey]*Row // for each query condition, the rows that meet it
	events  map[uuid.UUID][]*memoryEvents
}

type rowKey struct {
	kind Kind
	id   uuid.UUID
}

// setKey identifies one condition of a query.
type setKey struct {
	kind  Kind
	field byte // one of the constants below
	id    uuid.UUID
	term  uint64
}

const (
	setAll byte = iota
	setParent
	setWorker
	setOpen
	setDue
	setTerm
)

type memoryEvents struct {
	Events
	appended time.Time
}

// setsOf calls do for each set that contains r.
func setsOf(r *Row, do func(setKey)) {
	do(setKey{kind: r.Kind, field: setAll})
	if r.Parent != uuid.Nil {
		do(setKey{kind: r.Kind, field: setParent, id: r.Parent})
	}
	if r.Worker != uuid.Nil {
		do(setKey{kind: r.Kind, field: setWorker, id: r.Worker})
	}
	if r.Open {
		do(setKey{kind: r.Kind, field: setOpen})
	}
	if !r.Due.IsZero() {
		do(setKey{kind: r.Kind, field: setDue})
	}
	for _, t := range r.Terms {
		do(setKey{kind: r.Kind, field: setTerm, term: t})
	}
}

// set replaces the row with key k by r, or removes it if r is nil.
func (m *memory) set(k rowKey, r *Row) {
	if old := m.rows[k]; old != nil {
		setsOf(old, func(s setKey) {
			delete(m.sets[s], k)
			if len(m.sets[s]) == 0 {
				delete(m.sets, s)
			}
		})
		delete(m.rows, k)
	}
	if r == nil {
		return
	}
	m.rows[k] = r
	setsOf(r, func(s setKey) {
		if m.sets[s] == nil {
			m.sets[s] = map[rowKey]*Row{}
		}
		m.sets[s][k] = r
	})
}

// candidates returns the smallest set that contains all rows selected by q.
func (m *memory) candidates(q *Query) map[rowKey]*Row {
	if q.IDs != nil {
		found := map[rowKey]*Row{}
		for _, id := range q.IDs {
			k := rowKey{q.Kind, id}
			if r := m.rows[k]; r != nil {
				found[k] = r
			}
		}
		return found
	}
	best := m.sets[setKey{kind: q.Kind, field: setAll}]
	consider := func(s setKey) {
		if set := m.sets[s]; len(set) < len(best) {
			best = set
		}
	}
	if q.Parent != uuid.Nil {
		consider(setKey{kind: q.Kind, field: setParent, id: q.Parent})
	}
	if q.Worker != uuid.Nil {
		consider(setKey{kind: q.Kind, field: setWorker, id: q.Worker})
	}
	if q.Open {
		consider(setKey{kind: q.Kind, field: setOpen})
	}
	if q.Order == DueFirst || !q.DueBy.IsZero() {
		consider(setKey{kind: q.Kind, field: setDue})
	}
	for _, t := range q.Terms {
		consider(setKey{kind: q.Kind, field: setTerm, term: t})
	}
	return best
}

// selects reports whether a row meets the conditions of the query.
func (q *Query) selects(r *Row) bool {
	switch {
	case q.Kind != r.Kind,
		q.Parent != uuid.Nil && q.Parent != r.Parent,
		q.Worker != uuid.Nil && q.Worker != r.Worker,
		q.Open && !r.Open,
		!q.DueBy.IsZero() && (r.Due.IsZero() || r.Due.After(q.DueBy)),
		q.Order == DueFirst && r.Due.IsZero(),
		q.IDs != nil && !slices.Contains(q.IDs, r.ID),
		!q.Follows(r):
		return false
	}
	for _, t := range q.Terms {
		if !slices.Contains(r.Terms, t) {
			return false
		}
	}
	return true
}

// find returns copies of the rows that q selects; changed holds the uncommitted rows of a
// transaction.
func (m *memory) find(q *Query, changed map[rowKey]*Row) []*Row {
	m.mu.RLock()
	var rows []*Row
	for k, r := range m.candidates(q) {
		if _, ok := changed[k]; !ok && q.selects(r) {
			rows = append(rows, r)
		}
	}
	m.mu.RUnlock()
	for _, r := range changed {
		if r != nil && q.selects(r) {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, q.Compare)
	if q.Limit > 0 {
		rows = rows[:min(q.Limit, len(rows))]
	}
	for i, r := range rows {
		rows[i] = copyRow(r, q.Bodies)
	}
	return rows
}

func copyRow(r *Row, body bool) *Row {
	c := *r
	c.Doc, c.Terms = bytes.Clone(r.Doc), slices.Clone(r.Terms)
	c.Body = nil
	if body {
		c.Body = bytes.Clone(r.Body)
	}
	return &c
}

// Update implements [Backend].
func (m *memory) Update(ctx context.Context, _ uuid.UUID, fn func(Tx) error) error {
	m.updates.Lock()
	defer m.updates.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	tx := &memoryTx{memory: m, now: micros(time.Now()), changed: map[rowKey]*Row{}}
	if err := fn(tx); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, r := range tx.changed {
		m.set(k, r)
	}
	return nil
}

// Get implements [Backend].
func (m *memory) Get(ctx context.Context, kind Kind, id uuid.UUID) (*Row, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if r := m.rows[rowKey{kind, id}]; r != nil {
		return copyRow(r, true), nil
	}
	return nil, nil
}

// Find implements [Backend].
func (m *memory) Find(ctx context.Context, q *Query) iter.Seq2[*Row, error] {
	return func(yield func(*Row, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(nil, err)
			return
		}
		for _, r := range m.find(q, nil) {
			if !yield(r, nil) {
				return
			}
		}
	}
}

type memoryTx struct {
	*memory
	now     time.Time
	changed map[rowKey]*Row // nil for deleted rows
}

// Now implements [Tx].
func (tx *memoryTx) Now() time.Time { return tx.now }

// Get implements [Tx].
func (tx *memoryTx) Get(kind Kind, id uuid.UUID) (*Row, error) {
	if r := tx.row(rowKey{kind, id}); r != nil {
		return copyRow(r, false), nil
	}
	return nil, nil
}

func (tx *memoryTx) row(k rowKey) *Row {
	if r, ok := tx.changed[k]; ok {
		return r
	}
	return tx.rows[k] // only one transaction runs at a time
}

// Find implements [Tx].
func (tx *memoryTx) Find(q *Query) ([]*Row, error) { return tx.find(q, tx.changed), nil }

// Put implements [Tx].
func (tx *memoryTx) Put(r *Row) error {
	k := rowKey{r.Kind, r.ID}
	stored := copyRow(r, true)
	stored.Due, stored.Created = micros(r.Due), micros(r.Created)
	if old := tx.row(k); old != nil {
		stored.Created = old.Created
		if r.Body == nil {
			stored.Body = old.Body
		}
	}
	tx.changed[k] = stored
	return nil
}

// Delete implements [Tx].
func (tx *memoryTx) Delete(kind Kind, id uuid.UUID) error {
	tx.changed[rowKey{kind, id}] = nil
	return nil
}

// Append implements [Backend].
func (m *memory) Append(ctx context.Context, e *Events) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	stored := &memoryEvents{Events: *e, appended: time.Now()}
	stored.Data = bytes.Clone(e.Data)
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.events[e.Thread]
	i, _ := slices.BinarySearchFunc(all, e.First, func(e *memoryEvents, first uint64) int { return cmp.Compare(e.First, first) })
	if i < len(all) {
		all = slices.Clone(all) // readers may hold the old list
	}
	m.events[e.Thread] = slices.Insert(all, i, stored)
	return nil
}

// Events implements [Backend].
func (m *memory) Events(ctx context.Context, thread, run uuid.UUID, after uint64) iter.Seq2[*Events, error] {
	return func(yield func(*Events, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(nil, err)
			return
		}
		m.mu.RLock()
		all := m.events[thread]
		m.mu.RUnlock()
		for _, e := range all {
			if e.Last <= after || run != uuid.Nil && e.Run != run {
				continue
			}
			c := e.Events
			c.Data = bytes.Clone(e.Data)
			if !yield(&c, nil) {
				return
			}
		}
	}
}

// DropEvents implements [Backend].
func (m *memory) DropEvents(ctx context.Context, thread, run uuid.UUID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keepEvents(thread, func(e *memoryEvents) bool { return run != uuid.Nil && e.Run != run })
	return nil
}

// keepEvents removes the events of a thread for which keep returns false.
func (m *memory) keepEvents(thread uuid.UUID, keep func(*memoryEvents) bool) {
	var kept []*memoryEvents
	for _, e := range m.events[thread] {
		if keep(e) {
			kept = append(kept, e)
		}
	}
	m.events[thread] = kept
	if kept == nil {
		delete(m.events, thread)
	}
}

// TrimEvents implements [Backend].
func (m *memory) TrimEvents(ctx context.Context, before time.Time, limit int) (n int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for thread := range m.events {
		m.keepEvents(thread, func(e *memoryEvents) bool {
			if limit > 0 && n == limit || !e.appended.Before(before) {
				return true
			}
			n++
			return false
		})
	}
	return n, nil
}
