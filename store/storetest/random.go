package storetest

import (
	"time"

	"github.com/treadle-go/treadle/store"
)

// op returns a random batch operation.
func (w *comparison) op() store.Op {
	switch n := w.rnd.IntN(20); {
	case n < 8:
		return store.PutOp{Namespace: w.namespace(), Key: w.key(), Value: w.value(), PutOptions: w.putOptions()}
	case n < 10:
		return store.DeleteOp{Namespace: w.namespace(), Key: w.key(), DeleteOptions: store.DeleteOptions{IfVersion: w.version()}}
	case n < 13:
		return store.GetOp{Namespace: w.namespace(), Key: w.key(), GetOptions: store.GetOptions{NoRefresh: w.rnd.IntN(3) == 0}}
	case n < 18:
		return store.SearchOp{Prefix: w.prefix(), SearchOptions: w.search()}
	}
	return store.NamespacesOp{NamespacesOptions: store.NamespacesOptions{
		Prefix: pick(w, nil, w.prefix(), store.Namespace{"*", "a"}), Suffix: pick(w, nil, w.prefix(), store.Namespace{"a", "*"}),
		MaxDepth: w.rnd.IntN(4), Limit: w.rnd.IntN(20), Offset: w.rnd.IntN(3),
	}}
}

func (w *comparison) putOptions() store.PutOptions {
	o := store.PutOptions{TTL: pick(w, 0, 0, 0, store.Forever, 3*time.Minute)}
	if w.rnd.IntN(3) == 0 {
		o.Meta = w.value()
	}
	switch w.rnd.IntN(6) {
	case 0:
		o.NoIndex = true
	case 1:
		o.Index = []string{"text", "tags[-1]"}
	case 2:
		o.Index = []string{"{text,deep.s}", "*"}
	}
	switch w.rnd.IntN(8) {
	case 0:
		o.IfAbsent = true
	case 1:
		o.IfVersion = w.version()
	}
	return o
}

// version returns a known version, as numbered by memory, or 0.
func (w *comparison) version() int64 {
	if w.rnd.IntN(3) > 0 {
		return 0
	}
	return int64(w.rnd.IntN(len(w.versions)))
}

// ownVersions replaces memory's versions with those of the store with the given index.
func (w *comparison) ownVersions(index int, ops []store.Op) []store.Op {
	if index == 1 {
		return ops
	}
	other := map[int64]int64{}
	for o, m := range w.versions {
		other[m] = o
	}
	own := make([]store.Op, len(ops))
	for i, op := range ops {
		switch op := op.(type) {
		case store.PutOp:
			op.IfVersion = translate(other, op.IfVersion)
			own[i] = op
		case store.DeleteOp:
			op.IfVersion = translate(other, op.IfVersion)
			own[i] = op
		default:
			own[i] = op
		}
	}
	return own
}

// translate returns the store's number for a version. For an unknown version, it
// returns a version that will never exist.
func translate(known map[int64]int64, version int64) int64 {
	if v, ok := known[version]; ok {
		return v
	}
	return 1 << 60
}

func (w *comparison) search() store.SearchOptions {
	o := store.SearchOptions{
		Limit: pick(w, 0, 1, 3, 100), Offset: w.rnd.IntN(4) * w.rnd.IntN(2),
		Explain: w.rnd.IntN(2) == 0, NoRefresh: w.rnd.IntN(3) == 0,
	}
	if w.rnd.IntN(2) == 0 {
		o.Query = w.text()
		o.Ranking = pick(w, store.Auto, store.Auto, store.Keyword, store.Semantic, store.Hybrid)
	}
	if w.rnd.IntN(2) == 0 {
		o.Filter = w.filter(2)
	}
	return o
}

func (w *comparison) filter(depth int) store.Filter {
	if depth > 0 && w.rnd.IntN(3) == 0 {
		switch w.rnd.IntN(4) {
		case 0:
			return store.And(w.filter(depth-1), w.filter(depth-1))
		case 1:
			return store.Or(w.filter(depth-1), w.filter(depth-1))
		case 2:
			return store.Not(w.filter(depth - 1))
		}
		return store.Meta(w.filter(depth - 1))
	}
	path := pick(w, "n", "deep.n", "deep.s", "ok", "text", "tags.1", "deep", "none", "deep.none", "tags.9")
	value := pick[any](w, w.number(), w.text(), true, "é'%_\"", pick(w, words...), 2e0)
	switch w.rnd.IntN(8) {
	case 0:
		return store.Ne(path, value)
	case 1:
		return store.Gt(path, value)
	case 2:
		return store.Gte(path, value)
	case 3:
		return store.Lt(path, value)
	case 4:
		return store.Lte(path, value)
	case 5:
		return store.In(path, value, w.number(), nil)
	case 6:
		return store.Exists(path)
	}
	return store.Eq(path, value)
}
