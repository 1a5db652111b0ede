package items

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/treadle-go/treadle/internal/leaves"
	"github.com/treadle-go/treadle/internal/vecindex"
	"github.com/treadle-go/treadle/store"
)

// Checking items against a filter one by one, best first, takes seconds if few of a hundred
// thousand pass. The process therefore caches, for each namespace and each set of fields that
// filters of it use, the fields of all items. Items share equal fields, so a search decides
// its filter once for each distinct combination. A record's value never changes, so the cache
// only grows: a search reads the records written since. It contains records that have ended
// or that are not in the transaction's snapshot; as with the word index, the search checks
// the items that it finds.

const (
	// fieldBytes limits the size of the cached fields. A number of each of a hundred thousand
	// memories takes a third of it.
	fieldBytes = 48 << 20
	// decisionsMost is the maximum number of cached decisions of a table.
	decisionsMost = 4
	// branchTag starts the Meta of items of store branches, which searches of the whole store
	// omit; see store.Query.Match.
	branchTag = "treadle:branch"
	// seqsMost is the maximum number of vectors whose items are cached.
	seqsMost = 1 << 20
)

// keptFields caches the fields of items.
type keptFields struct {
	most int // maximum size in bytes

	mu     sync.Mutex
	tables map[string]*fieldTable
	bytes  int
	seqs   map[int64]int64 // items by ID of their vectors, which never changes
}

// A fieldTable contains the fields of the items of a namespace.
type fieldTable struct {
	last     int64    // the greatest number read
	seqs     []int64  // in ascending order
	ids      []uint32 // by position in seqs: the index in distinct
	distinct []fields
	by       map[string]uint32 // indexes in distinct
	passes   map[string][]bool // the latest decisions by filter, for the first of distinct
	bytes    int
	tooLarge bool
}

// fields are the members of an item's value and meta that a filter uses.
type fields struct{ value, meta json.RawMessage }

// A decision contains the items of a namespace that pass a filter, and perhaps others that
// have ended.
type decision struct {
	seqs   []int64 // all items, in ascending order
	ids    []uint32
	passes []bool // by ID
	n      int    // number of passing items
}

// pass reports whether an item passes the filter.
func (d *decision) pass(seq int64) bool {
	i, ok := slices.BinarySearch(d.seqs, seq)
	return ok && d.passes[d.ids[i]]
}

// newest returns the passing items, newest first.
func (d *decision) newest() []int64 {
	seqs := make([]int64, 0, d.n)
	for i, seq := range slices.Backward(d.seqs) {
		if d.passes[d.ids[i]] {
			seqs = append(seqs, seq)
		}
	}
	return seqs
}

// membersOf adds the names of the top-level members of the value and the meta that a filter
// uses. The result is false if it uses none.
func membersOf(f store.Filter, value, meta map[string]bool) bool {
	for _, of := range f.Of {
		if f.Op == store.OpMeta {
			membersOf(of, meta, meta)
		} else {
			membersOf(of, value, meta)
		}
	}
	if len(f.Path) > 0 {
		value[f.Path[0]] = true
	}
	return len(value)+len(meta) > 0
}

// project returns an object with some members of a value, or elements of an array. It keeps
// the branch tag.
func project(raw []byte, names []string) json.RawMessage {
	if bytes.HasPrefix(raw, []byte(`{"`+branchTag+`":true`)) {
		names = append([]string{branchTag}, names...)
	}
	out := []byte{'{'}
	for _, name := range names {
		v := []byte(nil)
		if len(raw) > 0 {
			v = leaves.Find(raw, []string{name})
		}
		if v == nil {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		key, _ := json.Marshal(name) // a string
		out = append(append(append(out, key...), ':'), v...)
	}
	return append(out, '}')
}

// decide applies a search's filter to all items of its scope. It returns nil if the fields
// cannot be cached.
func (l *look) decide(q *store.Query, s scope) (*decision, error) {
	value, meta := map[string]bool{}, map[string]bool{}
	if l.past || l.indexes.tentative || !membersOf(q.Filter(), value, meta) || value[branchTag] || meta[branchTag] {
		return nil, nil
	}
	filter, err := json.Marshal(q.Filter())
	if err != nil {
		return nil, err
	}
	values, metas := slices.Sorted(maps.Keys(value)), slices.Sorted(maps.Keys(meta))
	var name strings.Builder
	name.WriteString(strconv.FormatInt(s.id, 10))
	for _, names := range [][]string{values, metas} {
		name.WriteByte('\n')
		for _, n := range names {
			name.WriteString(strconv.Quote(n))
		}
	}
	last, err := l.last()
	if err != nil {
		return nil, err
	}
	l.fields.mu.Lock()
	defer l.fields.mu.Unlock()
	t, err := l.table(name.String(), s, values, metas, last)
	if err != nil || t.tooLarge {
		return nil, err
	}
	if err := l.ended(); err != nil {
		return nil, err
	}
	d := &decision{seqs: t.seqs, ids: t.ids, passes: t.decide(string(filter), q)}
	for _, id := range d.ids {
		if d.passes[id] {
			d.n++
		}
	}
	return d, nil
}

// decide applies a filter to the distinct fields.
func (t *fieldTable) decide(filter string, q *store.Query) []bool {
	had := t.passes[filter]
	if len(had) == len(t.distinct) {
		return had
	}
	passes := make([]bool, len(t.distinct))
	rest := passes[copy(passes, had):]
	distinct := t.distinct[len(had):]
	vecindex.Parallel(len(distinct), func(from, to int) {
		for i, of := range distinct[from:to] {
			rest[from+i] = q.Match(of.value, of.meta)
		}
	})
	if t.passes == nil || had == nil && len(t.passes) >= decisionsMost {
		t.passes = map[string][]bool{}
	}
	t.passes[filter] = passes
	return passes
}

// table returns the cached table with a name, with the items up to number last.
func (l *look) table(name string, s scope, values, metas []string, last int64) (*fieldTable, error) {
	t := l.fields.tables[name]
	if t == nil {
		t = &fieldTable{by: map[string]uint32{}}
	}
	if t.tooLarge || t.last >= last {
		return t, nil
	}
	before := t.bytes
	err := l.c.Each("SELECT u.seq, r.seq, r.value, r.meta, r.sum FROM store_under u LEFT JOIN store_record r ON r.seq=u.seq WHERE u.space=? AND u.seq>? ORDER BY u.seq",
		[]any{-s.id, t.last}, l.visitValues(func(seq int64, value, meta []byte) error {
			if len(t.seqs)%pageSize == 0 {
				if err := l.ended(); err != nil {
					return err
				}
			}
			t.add(seq, project(value, values), project(meta, metas))
			if t.bytes > l.fields.most {
				return io.EOF
			}
			return nil
		}))
	if err := stopped(err); err != nil {
		delete(l.fields.tables, name) // it may have been extended in part
		l.fields.bytes -= before
		return nil, err
	}
	t.last = last
	if t.bytes > l.fields.most {
		*t = fieldTable{tooLarge: true}
	}
	l.fields.bytes += t.bytes - before
	if l.fields.bytes > l.fields.most || l.fields.tables == nil {
		l.fields.tables, l.fields.bytes = map[string]*fieldTable{}, t.bytes
	}
	l.fields.tables[name] = t
	return t, nil
}

func (t *fieldTable) add(seq int64, value, meta json.RawMessage) {
	key := string(bytes.Join([][]byte{value, meta}, nil)) // both are objects
	id, ok := t.by[key]
	if !ok {
		id = uint32(len(t.distinct))
		t.by[key] = id
		t.distinct = append(t.distinct, fields{value, meta})
		t.bytes += 2*len(key) + 120
	}
	t.seqs, t.ids = append(t.seqs, seq), append(t.ids, id)
	t.bytes += 12
}

// decided returns the vectors' IDs whose items pass the filter. It calls there with those
// that exist.
func (l *look) decided(ids []int64, there func(id int64)) (passed []int64, err error) {
	var ask []int64
	seqs := make(map[int64]int64, len(ids))
	l.fields.mu.Lock()
	for _, id := range ids {
		if seq, ok := l.fields.seqs[id]; ok {
			seqs[id] = seq
		} else {
			ask = append(ask, id)
		}
	}
	l.fields.mu.Unlock()
	if len(ask) > 0 {
		err := l.c.Each("SELECT v.id, v.seq FROM json_each(?) j CROSS JOIN store_vector v WHERE v.id=j.value", []any{list(ask)}, func(scan func(...any) error) error {
			var id, seq int64
			err := scan(&id, &seq)
			seqs[id] = seq
			return err
		})
		if err != nil {
			return nil, err
		}
		l.fields.mu.Lock()
		if l.fields.seqs == nil || len(l.fields.seqs) > seqsMost {
			l.fields.seqs = map[int64]int64{}
		}
		for _, id := range ask {
			if seq, ok := seqs[id]; ok {
				l.fields.seqs[id] = seq
			}
		}
		l.fields.mu.Unlock()
	}
	for _, id := range ids {
		seq, ok := seqs[id]
		if !ok {
			continue
		}
		if l.decision.pass(seq) {
			passed = append(passed, id) // the comparison finds out whether it exists
		} else {
			there(id)
		}
	}
	return passed, nil
}
