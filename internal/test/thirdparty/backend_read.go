package thirdparty

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/store"
)

// reader performs the reads of a batch.
type reader struct {
	*Backend
	batch     *store.Batch
	refreshed map[*entry]*store.Record
	gone      *store.GoneError // the reads may need removed records
}

func (r *reader) read() *store.Results {
	out := &store.Results{}
	for _, l := range r.batch.Gets {
		e := r.version(r.keys[keyOf(l.Namespace, l.Key)], l.Namespace)
		out.Gets = append(out.Gets, r.record(e, l.Refresh))
	}
	for _, q := range r.batch.Searches {
		out.Searches = append(out.Searches, r.search(q))
	}
	for _, prefix := range r.batch.Namespaces {
		var names []store.Namespace
		seen := map[string]bool{}
		for _, e := range r.under(prefix) {
			if name := e.Namespace.Encode(); !seen[name] {
				seen[name], names = true, append(names, e.Namespace)
			}
		}
		out.Namespaces = append(out.Namespaces, names)
	}
	return out
}

// record returns the record of an entry, refreshed if requested; nil for a nil entry.
func (r *reader) record(e *entry, refresh bool) *store.Record {
	if e == nil {
		return nil
	}
	if !refresh || e.TTL == 0 {
		return e.Record
	}
	fresh := *e.Record
	fresh.Expires = r.batch.Now.Add(fresh.TTL)
	r.refreshed[e] = &fresh
	return &fresh
}

// version returns the version of a key that the batch sees, or nil. The batch reads the
// namespaces under prefix.
func (r *reader) version(all []*entry, prefix store.Namespace) *entry {
	if r.lost(all, prefix) {
		r.gone = &store.GoneError{Version: r.batch.Until - 1, Namespace: all[0].Namespace, Key: all[0].Key}
	}
	at := r.batch.AsOf
	if at.IsZero() {
		at = r.batch.Now
	}
	for _, e := range slices.Backward(all) {
		if r.batch.Until != 0 && e.Seq >= r.batch.Until || !r.batch.AsOf.IsZero() && e.Updated.After(at) {
			continue
		}
		if e.Live(at) {
			return e
		}
		return nil
	}
	return nil
}

// lost reports whether the batch may need removed records of a key; see [store.GoneError].
func (r *reader) lost(all []*entry, prefix store.Namespace) bool {
	if r.batch.Until == 0 || len(all) == 0 || all[0].Seq < r.batch.Until || all[0].Kind == store.Forgotten ||
		len(prefix) == 0 && all[0].Namespace[0] == store.BranchRoot {
		return false
	}
	oldest, limits := all[0], r.batch.Limits
	return oldest.Kind != store.Put || !oldest.Created.Equal(oldest.Updated) || oldest.Updated.Before(limits.Before) ||
		limits.Keep > 0 && len(all) >= limits.Keep
}

// under returns the versions that the batch sees of all keys under prefix, newest first.
func (r *reader) under(prefix store.Namespace) []*entry {
	var out []*entry
	for _, all := range r.keys {
		if all[0].Namespace.HasPrefix(prefix) {
			if e := r.version(all, prefix); e != nil {
				out = append(out, e)
			}
		}
	}
	slices.SortFunc(out, newerFirst)
	return out
}

func (r *reader) search(q *store.Query) []store.Found {
	all := slices.DeleteFunc(r.under(q.Prefix), func(e *entry) bool { return !q.Match(e.Value, e.Meta) })
	var out []store.Found
	if q.ByNewest() {
		all = all[min(q.Offset, len(all)):]
		for _, e := range all[:min(q.Limit, len(all))] {
			out = append(out, store.Found{Record: r.record(e, q.Refresh)})
		}
		return out
	}
	bySeq := map[int64]*entry{}
	for _, e := range all {
		bySeq[e.Seq] = e
	}
	for _, ranked := range q.Rank(nearest(q, all), matching(q, all)) {
		out = append(out, store.Found{Record: r.record(bySeq[ranked.Seq], q.Refresh), Ranked: ranked})
	}
	return out
}

// surplus is the number of candidates beyond Depth: Rank may round differently.
const surplus = 16

// nearest returns the candidates with the vectors most similar to the query's.
func nearest(q *store.Query, all []*entry) []store.Candidate {
	if q.Vector == nil {
		return nil
	}
	similarity := map[*entry]float64{}
	var near []*entry
	for _, e := range all {
		if e.indexed.Stamp != q.Stamp || len(e.indexed.Vectors) == 0 {
			continue
		}
		best := math.Inf(-1)
		for _, v := range e.indexed.Vectors {
			best = max(best, dot(q.Vector, v.Data))
		}
		similarity[e] = best
		near = append(near, e)
	}
	slices.SortStableFunc(near, func(a, b *entry) int { return cmp.Compare(similarity[b], similarity[a]) })
	var out []store.Candidate
	for _, e := range near[:min(q.Depth+surplus, len(near))] {
		out = append(out, store.Candidate{Seq: e.Seq, Vectors: e.indexed.Vectors})
	}
	return out
}

func dot(a, b []float32) (sum float64) {
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

// matching returns the candidates that contain terms of the query: those with the most
// distinct terms first, then the newest.
func matching(q *store.Query, all []*entry) []store.Candidate {
	var out []store.Candidate
	distinct := map[int64]int{}
	for _, e := range all {
		c := store.Candidate{Seq: e.Seq, Counts: make([]int, len(q.Terms))}
		for _, t := range e.indexed.Terms {
			c.Length += t.Count
			if i, ok := slices.BinarySearchFunc(q.Terms, t.Text, strings.Compare); ok {
				c.Counts[i] = t.Count
				distinct[e.Seq]++
			}
		}
		if distinct[e.Seq] > 0 {
			out = append(out, c)
		}
	}
	slices.SortStableFunc(out, func(a, b store.Candidate) int { return cmp.Compare(distinct[b.Seq], distinct[a.Seq]) })
	return out[:min(store.MaxMatches, len(out))]
}
