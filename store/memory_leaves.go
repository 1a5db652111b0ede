package store

import (
	"slices"

	"github.com/treadle-go/treadle/internal/leaves"
	"github.com/treadle-go/treadle/internal/vecindex"
)

const (
	// fewItems is the number of items up to which a search examines all of them.
	fewItems = 1000
	// fewShare is the share of items (one in fewShare) up to which a search ranks all items
	// that pass its filter. If more pass, it finds enough of them among the best.
	fewShare = 8
	// filterSample is the number of items from which that share is estimated.
	filterSample = 64
	// mostLeaves is the maximum number of leaves of an item in the index.
	mostLeaves = 200
)

// leafIndex contains the items of a space by the leaves of their values, in order of Seq.
type leafIndex struct {
	by  map[uint64][]*entry
	odd []*entry // items with too many leaves
}

func newLeafIndex(items []*entry) *leafIndex {
	x := &leafIndex{by: make(map[uint64][]*entry, len(items))}
	for _, e := range items {
		x.add(e)
	}
	return x
}

func (x *leafIndex) add(e *entry) {
	hashes, ok := leaves.Of(nil, e.record.Value, mostLeaves+1)
	if !ok || len(hashes) > mostLeaves {
		x.odd = append(x.odd, e)
		return
	}
	for _, h := range hashes {
		x.by[h] = append(x.by[h], e)
	}
}

// finds reports whether an index helps to find the items that pass a filter.
func (f *Filter) finds() bool {
	switch f.Op {
	case OpEq, OpIn:
		return true
	case OpAnd:
		return slices.ContainsFunc(f.Of, func(f Filter) bool { return f.finds() })
	case OpOr:
		return len(f.Of) > 0 && !slices.ContainsFunc(f.Of, func(f Filter) bool { return !f.finds() })
	}
	return false
}

// candidates returns all items that pass a filter, and perhaps others.
func (x *leafIndex) candidates(f *Filter) []*entry {
	var found []*entry
	for _, list := range x.lists(f) {
		found = append(found, list...)
	}
	found = append(found, x.odd...)
	slices.SortFunc(found, func(a, b *entry) int { return newerFirst(b, a) })
	return slices.Compact(found)
}

// lists returns the lists that contain all items that pass a filter, except odd ones.
func (x *leafIndex) lists(f *Filter) (all [][]*entry) {
	switch f.Op {
	case OpAnd:
		least := -1
		for i := range f.Of {
			if !f.Of[i].finds() {
				continue
			}
			lists := x.lists(&f.Of[i])
			n := 0
			for _, list := range lists {
				n += len(list)
			}
			if least < 0 || n < least {
				least, all = n, lists
			}
		}
	case OpOr:
		for i := range f.Of {
			all = append(all, x.lists(&f.Of[i])...)
		}
	default:
		for _, v := range f.Values {
			hashes, _ := leaves.Of(f.Path, v, mostLeaves) // the values are valid
			var shortest []*entry
			for i, h := range hashes {
				if list := x.by[h]; i == 0 || len(list) < len(shortest) {
					shortest = list
				}
			}
			all = append(all, shortest)
		}
	}
	return all
}

// passing returns the live items that pass a query's filter, newest first, if they are few.
// The result ok is false if they are not, or if all items are few.
func (r *reading) passing(q *Query) (few []*entry, ok bool) {
	f := q.Filter()
	if f.Op == "" || r.batch.Past() {
		return nil, false
	}
	spaces := r.under(q.Prefix)
	total, found := 0, 0
	lists := make([][]*entry, len(spaces))
	for _, s := range spaces {
		total += len(s.items)
	}
	if total <= r.few {
		return nil, false
	}
	for i, s := range spaces {
		lists[i] = s.items
		if len(s.items) > r.few && f.finds() {
			if s.leaves == nil && !r.exclusive {
				r.mustWrite = true
				return nil, false
			}
			if s.leaves == nil {
				s.leaves = newLeafIndex(s.items)
			}
			lists[i] = s.leaves.candidates(&f)
		}
		found += len(lists[i])
	}
	if found > total/fewShare && r.common(q, spaces, total) {
		return nil, false
	}
	all := slices.Concat(lists...)
	passes := make([]bool, len(all))
	vecindex.Parallel(len(all), func(from, to int) {
		for i, e := range all[from:to] {
			if !e.old && e.record.Live(r.batch.Now) && q.Match(e.record.Value, e.record.Meta) {
				passes[from+i] = true
			}
		}
	})
	few = []*entry{}
	for i, e := range all {
		if passes[i] {
			few = append(few, e)
		}
	}
	slices.SortFunc(few, newerFirst)
	return few, true
}

// common reports whether more than one in fewShare items pass a query's filter, judging by a
// sample.
func (r *reading) common(q *Query, spaces []*space, total int) bool {
	n, at := 0, 0
	for _, s := range spaces {
		for ; at < len(s.items); at += max(1, total/filterSample) {
			if e := s.items[at]; q.Match(e.record.Value, e.record.Meta) {
				n++
			}
		}
		at -= len(s.items)
	}
	return n > filterSample/fewShare
}
