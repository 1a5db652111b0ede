package memory

import (
	"context"
	"errors"
	"slices"

	"github.com/treadle-go/treadle/store"
)

// repeats is the maximum number of memories that an insert is compared with.
const repeats = 10

// duplicates returns the indexes of inserts whose memory already exists but was not
// recalled, and of inserts that repeat an earlier one of the same changes.
func (w *writer) duplicates(ctx context.Context, cs []ItemChange) (map[int]bool, error) {
	w.repeated = nil
	w.latch = latchOf(w.store, w.namespace)
	var ops []store.Op
	var places []int
	for i, c := range cs {
		if c.Op != Insert {
			continue
		}
		places, ops = append(places, i), append(ops, sameItem(w.namespace, sameContent(c.Change)))
		if w.similar > 0 {
			places, ops = append(places, i), append(ops, w.likeItem(c.Change))
		}
	}
	if ops == nil {
		return nil, nil
	}
	results, err := w.store.Batch(ctx, append(ops, w.latch.read()...)...)
	if err != nil {
		return nil, err
	}
	w.latch.see(results[len(ops):])
	known := map[int]bool{}
	gone := removed(cs)
	for j, r := range results[:len(ops)] {
		c := cs[places[j]]
		byMeaning := ops[j].(store.SearchOp).Query != ""
		for _, item := range r.Items {
			// A memory that these changes remove or rewrite is not a duplicate, nor is one
			// with a different validity.
			if gone[itemID(item)] || !validityOf(item).covers(c.Validity) || byMeaning && !w.repeats(c.Change, item) {
				continue
			}
			if !known[places[j]] {
				w.repeated = append(w.repeated, item)
			}
			known[places[j]] = true
		}
	}
	w.alike(cs, known)
	return known, nil
}

// repeats reports whether an insert repeats a similar item. Similarity alone does not
// decide: texts that differ in one number or one "not" are similar too.
func (w *writer) repeats(c Change, item *store.Item) bool {
	d := DocumentOf(item)
	return item.Score >= w.similar && slices.Equal(item.Namespace, w.namespace) && d.Kind == c.Kind && sameStatement(d.Content, c.After)
}

// alike adds to known the inserts that repeat an earlier insert of the same changes. Equal
// inserts never reach it.
func (w *writer) alike(cs []ItemChange, known map[int]bool) {
	if w.similar == 0 {
		return
	}
	for i, c := range cs {
		for k, earlier := range cs[:i] {
			if c.Op == Insert && earlier.Op == Insert && !known[k] && earlier.Kind == c.Kind && earlier.Validity.covers(c.Validity) &&
				sameStatement(earlier.After, c.After) {
				known[i] = true
			}
		}
	}
}

// likeItem returns a search for memories similar to an insert. The query is the text that
// is embedded for the insert, without its envelope, which would make all memories similar.
func (w *writer) likeItem(c Change) store.SearchOp {
	return store.SearchOp{Prefix: w.namespace, SearchOptions: store.SearchOptions{Query: textOfContent(c.Kind, c.After), Document: true,
		Ranking: store.Semantic, Limit: repeats, NoRefresh: true}}
}

// latchRoot is the first segment of the namespaces of latches; the other segments are those
// of the memories.
const (
	latchRoot = "__memory_latch__"
	latchKey  = "insert"
)

// latch lets one writer at a time insert into a namespace. A writer looks for duplicates
// and then writes an item that must not have changed since it looked. Otherwise, writers
// that learn the same fact at the same time would each store it.
type latch struct {
	namespace store.Namespace // nil in a store branch or if it would be too long
	version   int64
}

func latchOf(s *store.Store, n store.Namespace) latch {
	of := latchSpace(n)
	if len(of.Encode()) > store.MaxNamespace || s.BranchInfo().Name != "" {
		// In a branch, whose writers are the runs of one thread, the item would be a
		// conflict at every merge.
		return latch{}
	}
	return latch{namespace: of}
}

func latchSpace(n store.Namespace) store.Namespace { return append(store.Namespace{latchRoot}, n...) }

// read returns the read of the latch, for the batch that looks for duplicates.
func (t *latch) read() []store.Op {
	if t.namespace == nil {
		return nil
	}
	return []store.Op{store.GetOp{Namespace: t.namespace, Key: latchKey}}
}

// see takes the results of read.
func (t *latch) see(results []store.Result) {
	if len(results) > 0 && results[0].Item != nil {
		t.version = results[0].Item.Version
	}
}

// take returns the write of the latch, for the batch that inserts.
func (t *latch) take() []store.Op {
	if t.namespace == nil {
		return nil
	}
	return []store.Op{store.PutOp{Namespace: t.namespace, Key: latchKey, Value: struct{}{}, PutOptions: store.PutOptions{
		NoIndex: true, TTL: store.Forever, IfVersion: t.version, IfAbsent: t.version == 0}}}
}

// lost reports whether another writer inserted after the duplicates were looked for.
func (t *latch) lost(err error) bool {
	e, ok := errors.AsType[*store.ConflictError](err)
	return ok && t.namespace != nil && slices.Equal(e.Namespace, t.namespace)
}
