package items

import (
	"slices"
	"strconv"
	"strings"

	"github.com/treadle-go/treadle/internal/leaves"
	"github.com/treadle-go/treadle/store"
)

// The word index also contains the values of items, so items that pass a selective filter
// are looked up instead of scanning all items. Under its negated number, an item has a
// word for each leaf of its value: a hash of the path and of the content. It also has
// words for the namespaces it is under. The number is negated so that the newest items
// come first, and so that these entries do not make the word lists longer.
//
// Different values may have the same hash, and an item with too many leaves has only the
// word oddLeaf. The results of the index are therefore checked again, but none are
// missing.

const (
	// mostLeaves is the maximum number of leaves of an item in the index.
	mostLeaves = 200
	// askedLeaves is the maximum number of leaves of an object that a query asks for.
	askedLeaves = 4
	// mostAsked is the maximum number of words in a query of the index.
	mostAsked = 64

	oddLeaf  = "__odd"
	noneLeaf = "__none" // no item has this word
)

// leavesOf returns the words for a value.
func leavesOf(value []byte) []string {
	hashes, ok := leaves.Of(nil, value, mostLeaves+1)
	if !ok || len(hashes) > mostLeaves {
		return []string{oddLeaf}
	}
	words := leafWords(hashes)
	slices.Sort(words) // the file contains them in this order
	return words
}

func leafWords(hashes []uint64) []string {
	words := make([]string, len(hashes))
	for i, h := range hashes {
		words[i] = "__" + strconv.FormatUint(h, 36)
	}
	return words
}

// A leafQuery builds a query of the index that finds all items that pass a filter, and
// perhaps others.
type leafQuery struct{ asked int }

// of returns the query for a filter, or "" if the index cannot help.
func (q *leafQuery) of(f store.Filter) string {
	switch f.Op {
	case store.OpEq, store.OpIn:
		return q.equal(f)
	case store.OpAnd, store.OpOr:
		var all []string
		for _, of := range f.Of {
			one := q.of(of)
			if one == "" && f.Op == store.OpOr {
				return ""
			}
			if one != "" {
				all = append(all, one)
			}
		}
		if f.Op == store.OpOr {
			return anyOf(all)
		}
		return allOf(all)
	}
	return ""
}

func (q *leafQuery) equal(f store.Filter) string {
	var all []string
	for _, v := range f.Values {
		hashes, ok := leaves.Of(f.Path, v, askedLeaves)
		if !ok {
			return ""
		}
		q.asked += len(hashes)
		if q.asked > mostAsked {
			return ""
		}
		words := leafWords(hashes)
		for i, w := range words {
			words[i] = `"` + w + `"`
		}
		all = append(all, allOf(words))
	}
	return anyOf(all)
}

func allOf(queries []string) string {
	if len(queries) < 2 {
		return strings.Join(queries, "")
	}
	return "(" + strings.Join(queries, " AND ") + ")"
}

func anyOf(queries []string) string {
	if len(queries) == 0 {
		return `"` + noneLeaf + `"`
	}
	if len(queries) == 1 {
		return queries[0]
	}
	return "(" + strings.Join(queries, " OR ") + ")"
}

// appendLeafSpace appends the word that marks the leaves of all items under a namespace.
func appendLeafSpace(b []byte, id int64) []byte {
	return strconv.AppendInt(append(b, "__in"...), id, 10)
}

// addLeaves adds the value of an item to the index. Items must be added in descending
// order of their numbers, because the index takes rows in ascending order.
func (w *writing) addLeaves(seq int64, place []int64, value []byte) error {
	var b []byte
	for _, id := range place {
		b = append(appendLeafSpace(b, id), ' ')
	}
	for _, word := range leavesOf(value) {
		b = append(append(b, word...), ' ')
	}
	_, err := w.c.Change("INSERT INTO store_words(rowid,words) VALUES(?,?)", -seq, string(b))
	return err
}

// addLeavesOf is like addLeaves, but for an item in the file.
func (w *writing) addLeavesOf(i foldedItem) error {
	place, err := w.placeOf(i.space)
	if err != nil {
		return err
	}
	return w.addLeaves(i.seq, place, i.value)
}

// rare returns the newest items that may pass a query's filter, newest first, up to a
// limit, using the value index. The result all reports whether there are no others. The
// items are nil if the index does not help: for a past state, a small scope, or an
// unsuitable filter.
func (l *look) rare(q *store.Query, s scope) (seqs []int64, all bool, err error) {
	var asks leafQuery
	if l.past || q.Filter().Op == "" {
		return nil, false, nil
	}
	query := asks.of(q.Filter())
	if query == "" {
		return nil, false, nil
	}
	var one int
	if many, err := l.c.Row("SELECT 1 FROM store_under WHERE space=? LIMIT 1 OFFSET ?", []any{-s.id, max(l.limits.few, 0)}, &one); err != nil || !many {
		return nil, false, err
	}
	// Values that are rare in the whole store are found without the namespace's word,
	// which may occur in very many items that would have to be skipped.
	queries := []string{`("` + oddLeaf + `" OR ` + query + ")"}
	if s.id != 0 {
		queries = append(queries, string(appendLeafSpace([]byte(`"`), s.id))+`" AND `+queries[0])
	}
	folded, _, err := storeState(l.c)
	if err != nil {
		return nil, false, err
	}
	seqs = make([]int64, 0, pageSize)
	add := func(scan func(...any) error) error {
		var seq int64
		err := scan(&seq)
		seqs = append(seqs, seq)
		return err
	}
	// Items that are not in the index yet may pass.
	if err := l.c.Each("SELECT seq FROM store_under WHERE space=? AND seq>? ORDER BY seq DESC", []any{-s.id, folded}, add); err != nil {
		return nil, false, err
	}
	late := len(seqs)
	for _, query := range queries {
		seqs = seqs[:late]
		err := l.c.Each("SELECT -rowid FROM store_words WHERE store_words MATCH ? AND rowid<0 ORDER BY rowid LIMIT ?+0", []any{query, l.limits.rare}, add)
		all = len(seqs)-late < l.limits.rare
		if all || err != nil {
			return seqs, all, err
		}
	}
	return seqs, false, nil
}

// newestRare is like newest, but uses the value index. The result ok is false if the
// index does not help.
func (l *look) newestRare(q *store.Query, s scope) (seqs []int64, ok bool, err error) {
	may, all, err := l.rare(q, s)
	if err != nil || may == nil {
		return nil, false, err
	}
	if seqs, ok, err = l.newestAmong(q, s, may); err != nil || !ok && !all {
		return nil, false, err
	}
	return seqs, true, nil
}

// newestAmong returns the result of a search without a query among items, newest first. The
// result ok is false if they are too few.
func (l *look) newestAmong(q *store.Query, s scope, may []int64) (seqs []int64, ok bool, err error) {
	want := q.Offset + q.Limit
	for page := range slices.Chunk(may, pageSize) {
		some, err := l.among(q, s, page)
		if err != nil {
			return nil, false, err
		}
		if seqs = append(seqs, some...); len(seqs) >= want {
			break
		}
	}
	ok = len(seqs) >= want
	seqs = seqs[min(q.Offset, len(seqs)):]
	return seqs[:min(q.Limit, len(seqs))], ok, nil
}

// passing returns the items that pass a query's filter, newest first, if the value index or
// the cached fields show that they are few. Otherwise it returns nil, and sets the decision if
// the fields are cached.
func (l *look) passing(q *store.Query, s scope) ([]int64, error) {
	may, all, err := l.rare(q, s)
	if err != nil {
		return nil, err
	}
	if !all {
		var one int
		if many, err := l.c.Row("SELECT 1 FROM store_under WHERE space=? LIMIT 1 OFFSET ?", []any{-s.id, max(l.limits.few, 0)}, &one); err != nil || !many || l.past {
			return nil, err
		}
		d, err := l.decide(q, s)
		if err != nil || d == nil {
			return nil, err
		}
		l.decision = d
		if d.n > l.limits.rare {
			return nil, nil
		}
		may, l.passed = d.newest(), true
	}
	seqs, err := l.among(q, s, may)
	return append([]int64{}, seqs...), err
}
