package store

import (
	"cmp"
	"container/heap"
	"iter"
	"math"
	"slices"
)

// search returns the entries that a query finds, and the results, whose records are
// filled in later.
func (r *reading) search(q *Query) ([]*entry, []Found) {
	few, selective := r.passing(q)
	if q.ByNewest() {
		entries := few[min(q.Offset, len(few)):]
		entries = entries[:min(q.Limit, len(entries))]
		if !selective {
			entries = r.newest(q)
		}
		return entries, make([]Found, len(entries))
	}
	bySeq := map[int64]*entry{}
	candidates := func(entries []*entry, of func(*entry) Candidate) []Candidate {
		all := make([]Candidate, len(entries))
		for i, e := range entries {
			bySeq[e.record.Seq] = e
			all[i] = of(e)
		}
		return all
	}
	var near, matching []Candidate
	if q.Vector != nil {
		of := r.nearest
		if selective {
			of = func(q *Query) []*entry { return nearestOf(q, few) }
		}
		near = candidates(of(q), func(e *entry) Candidate {
			return Candidate{Seq: e.record.Seq, Vectors: e.indexed.Vectors}
		})
	}
	if len(q.Terms) > 0 {
		of := r.matching
		if selective {
			of = func(q *Query) []*entry { return r.matchingOf(q, few) }
		}
		matching = candidates(of(q), func(e *entry) Candidate {
			return Candidate{Seq: e.record.Seq, Counts: e.counts(q.Terms), Length: e.length}
		})
	}
	ranked := q.Rank(near, matching)
	entries, found := make([]*entry, len(ranked)), make([]Found, len(ranked))
	for i, place := range ranked {
		entries[i], found[i].Ranked = bySeq[place.Seq], place
	}
	return entries, found
}

func (r *reading) newest(q *Query) []*entry {
	var found []*entry
	skip := q.Offset
	for e := range r.byAge(q.Prefix) {
		if len(found) == q.Limit {
			break
		}
		if !q.Match(e.record.Value, e.record.Meta) {
			continue
		}
		if skip > 0 {
			skip--
			continue
		}
		found = append(found, e)
	}
	return found
}

// byAge yields the live entries under a prefix, newest first.
func (r *reading) byAge(prefix Namespace) iter.Seq[*entry] {
	spaces := r.under(prefix)
	if r.batch.Past() {
		past := r.past(spaces, prefix)
		slices.SortFunc(past, newerFirst)
		return slices.Values(past)
	}
	return func(yield func(*entry) bool) {
		for e := range newestOf(spaces) {
			if !e.old && e.record.Live(r.batch.Now) && !yield(e) {
				return
			}
		}
	}
}

// past returns the entries of spaces under a prefix that were live at the time of the
// reads.
func (r *reading) past(spaces []*space, prefix Namespace) []*entry {
	var past []*entry
	for _, s := range spaces {
		for _, versions := range s.versions {
			if e := r.version(versions, prefix); e != nil {
				past = append(past, e)
			}
		}
	}
	return past
}

func newerFirst(a, b *entry) int { return cmp.Compare(b.record.Seq, a.record.Seq) }

// newestOf yields the entries of spaces in descending order of Seq.
func newestOf(spaces []*space) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		var ends backwards
		for _, s := range spaces {
			if len(s.items) > 0 {
				ends = append(ends, s.items)
			}
		}
		heap.Init(&ends)
		for len(ends) > 0 {
			items := ends[0]
			if !yield(items[len(items)-1]) {
				return
			}
			if len(items) == 1 {
				heap.Pop(&ends)
				continue
			}
			ends[0] = items[:len(items)-1]
			if len(ends) > 1 {
				heap.Fix(&ends, 0)
			}
		}
	}
}

// backwards is a heap of lists. The list with the newest last entry is on top.
type backwards [][]*entry

func (b backwards) Len() int { return len(b) }
func (b backwards) Less(i, j int) bool {
	return b[i][len(b[i])-1].record.Seq > b[j][len(b[j])-1].record.Seq
}
func (b backwards) Swap(i, j int) { b[i], b[j] = b[j], b[i] }

// Push adds a list.
func (b *backwards) Push(x any) { *b = append(*b, x.([]*entry)) }

// Pop removes the last list.
func (b *backwards) Pop() any {
	last := (*b)[len(*b)-1]
	*b = (*b)[:len(*b)-1]
	return last
}

// surplus is the number of candidates collected beyond the query's Depth. The index
// computes in single precision and Rank in double, so their orders may differ slightly.
const surplus = 16

// nearest returns the entries most similar to a query.
func (r *reading) nearest(q *Query) []*entry {
	if r.batch.Past() {
		return r.nearestInPast(q)
	}
	index := r.vectors[q.Stamp]
	if index == nil {
		return nil
	}
	hits := index.Nearest(q.Prefix.Encode(), q.Vector, q.Depth+surplus, func(seq int64) bool {
		e := r.indexed[seq]
		return e.record.Live(r.batch.Now) && q.Match(e.record.Value, e.record.Meta)
	})
	entries := make([]*entry, len(hits))
	for i, h := range hits {
		entries[i] = r.indexed[h.ID]
	}
	return entries
}

// nearestInPast is like nearest, but for reads of the past. Old versions are not in an
// index.
func (r *reading) nearestInPast(q *Query) []*entry {
	return nearestOf(q, slices.DeleteFunc(r.past(r.under(q.Prefix), q.Prefix), func(e *entry) bool {
		return !q.Match(e.record.Value, e.record.Meta)
	}))
}

// nearestOf returns the most similar of some entries.
func nearestOf(q *Query, of []*entry) []*entry {
	type hit struct {
		*entry
		similarity float64
	}
	var hits []hit
	for _, e := range of {
		if e.indexed.Stamp != q.Stamp || len(e.indexed.Vectors) == 0 {
			continue
		}
		best := math.Inf(-1)
		for _, v := range e.indexed.Vectors {
			best = max(best, dot(q.Vector, v.Data))
		}
		hits = append(hits, hit{e, best})
	}
	slices.SortFunc(hits, func(a, b hit) int {
		return cmp.Or(cmp.Compare(b.similarity, a.similarity), newerFirst(a.entry, b.entry))
	})
	entries := make([]*entry, min(q.Depth, len(hits)))
	for i := range entries {
		entries[i] = hits[i].entry
	}
	return entries
}

// matching returns the entries that contain words of a query: those with the most
// distinct words first, then the newest.
func (r *reading) matching(q *Query) []*entry {
	return r.matchingIf(q, func(e *entry) bool {
		return !e.old && e.record.Live(r.batch.Now) && q.Match(e.record.Value, e.record.Meta)
	})
}

// matchingIf is like matching, for the current entries that pass.
func (r *reading) matchingIf(q *Query, pass func(*entry) bool) []*entry {
	spaces := r.under(q.Prefix)
	if r.batch.Past() {
		past := r.past(spaces, q.Prefix)
		slices.SortFunc(past, newerFirst)
		return countedOf(q, slices.DeleteFunc(past, func(e *entry) bool { return !q.Match(e.record.Value, e.record.Meta) }))
	}
	counts := make([][]uint16, len(spaces))
	having := make([]int, len(q.Terms)+1) // number of items, by number of distinct words
	for i, s := range spaces {
		counts[i] = r.countWords(q, s, having)
	}
	var entries []*entry
	for n := len(q.Terms); n > 0; n-- {
		if having[n] == 0 {
			continue
		}
		var alike []*entry
		for i, s := range spaces {
			for at, found := len(counts[i])-1, len(alike); at >= 0 && len(alike)-found < MaxMatches-len(entries); at-- {
				if e := s.items[at]; counts[i][at] == uint16(n) && pass(e) {
					alike = append(alike, e)
				}
			}
		}
		if len(spaces) > 1 {
			slices.SortFunc(alike, newerFirst)
		}
		if entries = append(entries, alike...); len(entries) >= MaxMatches {
			return entries[:MaxMatches]
		}
	}
	return entries
}

// matchingOf is like matching, for the entries that pass the filter, newest first.
func (r *reading) matchingOf(q *Query, few []*entry) []*entry {
	if len(few) <= r.few {
		return countedOf(q, few)
	}
	passing := make(map[*entry]bool, len(few))
	for _, e := range few {
		passing[e] = true
	}
	return r.matchingIf(q, func(e *entry) bool { return passing[e] })
}

// countedOf returns the entries that contain words of a query, given in order of age.
func countedOf(q *Query, of []*entry) []*entry {
	byCount := make([][]*entry, len(q.Terms)+1)
	for _, e := range of {
		different := 0
		for _, n := range e.counts(q.Terms) {
			different += min(n, 1)
		}
		byCount[different] = append(byCount[different], e)
	}
	slices.Reverse(byCount[1:])
	entries := slices.Concat(byCount[1:]...)
	return entries[:min(MaxMatches, len(entries))]
}

// countWords returns the number of distinct query words in each item of a space, or nil if
// no item has any. It counts the items with each number.
func (r *reading) countWords(q *Query, s *space, having []int) []uint16 {
	if s.stale {
		if !r.exclusive {
			r.mustWrite = true
			return nil
		}
		s.rebuildWords()
	}
	var counts []uint16
	for _, t := range q.Terms {
		with := s.words[t]
		if counts == nil && len(with) > 0 {
			counts = make([]uint16, len(s.items))
		}
		for _, at := range with {
			counts[at]++
		}
	}
	for _, n := range counts {
		having[n]++
	}
	return counts
}

// counts returns the number of occurrences of each of the given words in an entry.
func (e *entry) counts(words []string) []int {
	counts := make([]int, len(words))
	for i, w := range words {
		if j, ok := slices.BinarySearchFunc(e.indexed.Terms, w, func(t Term, w string) int { return cmp.Compare(t.Text, w) }); ok {
			counts[i] = e.indexed.Terms[j].Count
		}
	}
	return counts
}
