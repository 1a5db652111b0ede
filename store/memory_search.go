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
	if q.ByNewest() {
		entries := r.newest(q)
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
		near = candidates(r.nearest(q), func(e *entry) Candidate {
			return Candidate{Seq: e.record.Seq, Vectors: e.indexed.Vectors}
		})
	}
	if len(q.Terms) > 0 {
		matching = candidates(r.matching(q), func(e *entry) Candidate {
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
	var entries []*entry
	similarity := map[*entry]float64{}
	for _, e := range r.past(r.under(q.Prefix), q.Prefix) {
		if e.indexed.Stamp != q.Stamp || len(e.indexed.Vectors) == 0 || !q.Match(e.record.Value, e.record.Meta) {
			continue
		}
		best := math.Inf(-1)
		for _, v := range e.indexed.Vectors {
			best = max(best, dot(q.Vector, v.Data))
		}
		similarity[e] = best
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(similarity[b], similarity[a]), newerFirst(a, b))
	})
	return entries[:min(q.Depth, len(entries))]
}

// matching returns the entries that contain words of a query: those with the most
// distinct words first, then the newest.
func (r *reading) matching(q *Query) []*entry {
	byCount := make([][]*entry, len(q.Terms)+1) // by number of distinct words
	for _, s := range r.under(q.Prefix) {
		if !r.batch.Past() {
			r.countWords(q, s, byCount)
			continue
		}
		for _, e := range r.past([]*space{s}, q.Prefix) {
			different := 0
			for _, n := range e.counts(q.Terms) {
				different += min(n, 1)
			}
			byCount[different] = append(byCount[different], e)
		}
	}
	var entries []*entry
	for _, alike := range slices.Backward(byCount[1:]) {
		slices.SortFunc(alike, newerFirst)
		for _, e := range alike {
			if len(entries) == MaxMatches {
				return entries
			}
			if q.Match(e.record.Value, e.record.Meta) {
				entries = append(entries, e)
			}
		}
	}
	return entries
}

// countWords groups the entries of a space by the number of distinct query words that
// they contain.
func (r *reading) countWords(q *Query, s *space, byCount [][]*entry) {
	if s.stale {
		if !r.exclusive {
			r.mustWrite = true
			return
		}
		s.rebuildWords()
	}
	var counts []uint16
	for _, t := range q.Terms {
		with := s.words[t]
		if counts == nil && len(with) > 0 {
			counts = make([]uint16, len(s.items))
		}
		for _, e := range with {
			counts[e.at]++
		}
	}
	for at, n := range counts {
		if e := s.items[at]; n > 0 && !e.old && e.record.Live(r.batch.Now) {
			byCount[n] = append(byCount[n], e)
		}
	}
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
