package vecindex

import (
	"iter"
	"math/bits"
	"runtime"
	"slices"
	"sync"
)

// Nearest returns the n IDs nearest to query, among the IDs in spaces whose names start
// with prefix and for which accept returns true. They are sorted by descending
// similarity, then by descending ID.
func (x *Index) Nearest(prefix string, query []float32, n int, accept func(id int64) bool) []Hit {
	spaces := x.under(prefix)
	total := 0
	for _, s := range spaces {
		total += len(s.ids)
	}
	var hits []Hit
	if total <= exactUpTo {
		hits = make([]Hit, 0, total)
		for _, s := range spaces {
			for i, v := range s.vectors {
				hits = append(hits, Hit{s.ids[i], dot(query, v)})
			}
		}
		return first(n, hits, accept)
	}
	compared := max(comparedLeast, comparedPer*n)
	hits = make([]Hit, 0, min(compared, total))
	for at := range x.bySignature(spaces, x.signature(query), total, compared, nil) {
		s := spaces[at.space]
		if id := s.ids[at.index]; accept(id) {
			hits = append(hits, Hit{id, dot(query, s.vectors[at.index])})
		}
		if len(hits) == compared {
			break
		}
	}
	return first(n, hits, func(int64) bool { return true })
}

// first returns the n best accepted hits, with each ID once.
func first(n int, hits []Hit, accept func(int64) bool) []Hit {
	slices.SortFunc(hits, byHit)
	seen := make(map[int64]bool, min(n, len(hits)))
	kept := hits[:0]
	for _, h := range hits {
		if len(kept) == n {
			break
		}
		if !seen[h.ID] && accept(h.ID) {
			kept = append(kept, h)
		}
		seen[h.ID] = true
	}
	return kept
}

// position locates a vector.
type position struct{ space, index int32 }

// bySignature yields positions ordered by signature distance. It works in groups of at
// least wanted positions. If refine is not nil, it orders each group.
func (x *Index) bySignature(spaces []*space, signature []uint64, total, wanted int, refine func([]position) iter.Seq[position]) iter.Seq[position] {
	return func(yield func(position) bool) {
		distances, having := x.distances(spaces, signature, total)
		for from := 0; from < len(having); {
			// Find the next range of distances with enough positions.
			to, n := from, 0
			for ; to < len(having) && n < wanted; to++ {
				n += having[to]
			}
			var ordered iter.Seq[position]
			if refine != nil {
				ordered = refine(within(spaces, distances, from, to, n))
			} else {
				ordered = slices.Values(between(spaces, distances, from, to, having))
			}
			for at := range ordered {
				if !yield(at) {
					return
				}
			}
			from = to
		}
	}
}

// distances returns the distance of every signature from wanted, and the number of
// signatures at each distance.
func (x *Index) distances(spaces []*space, wanted []uint64, total int) (distances []uint16, having []int) {
	words := x.words()
	distances = make([]uint16, total)
	rest := distances
	for _, s := range spaces {
		here := rest[:len(s.ids)]
		rest = rest[len(s.ids):]
		Parallel(len(here), func(from, to int) {
			for i := from; i < to; i++ {
				here[i] = uint16(distance(wanted, s.signatures[i*words:][:words]))
			}
		})
	}
	having = make([]int, 64*words+1)
	for _, d := range distances {
		having[d]++
	}
	return distances, having
}

// parallelFrom is the number of positions that justifies another goroutine.
const parallelFrom = 4096

// Parallel splits the range [0, n) and calls do for each part, on as many processors as
// is worthwhile.
func Parallel(n int, do func(from, to int)) {
	parts := min(n/parallelFrom, runtime.GOMAXPROCS(0))
	if parts <= 1 {
		do(0, n)
		return
	}
	var others sync.WaitGroup
	for i := 1; i < parts; i++ {
		others.Go(func() { do(n*i/parts, n*(i+1)/parts) })
	}
	do(0, n/parts)
	others.Wait()
}

// between returns the positions with a distance in [from, to), sorted by distance.
func between(spaces []*space, distances []uint16, from, to int, having []int) []position {
	next := make([]int, to-from+1) // next free index for each distance
	for d := from; d < to; d++ {
		next[d-from+1] = next[d-from] + having[d]
	}
	sorted := make([]position, next[to-from])
	k := 0
	for j, s := range spaces {
		for i, d := range distances[k : k+len(s.ids)] {
			if d := int(d); d >= from && d < to {
				sorted[next[d-from]] = position{int32(j), int32(i)}
				next[d-from]++
			}
		}
		k += len(s.ids)
	}
	return sorted
}

// within is like between, but returns positions in storage order, so that a pass over
// their signatures uses the processor's caches well. n is the number of positions.
func within(spaces []*space, distances []uint16, from, to, n int) []position {
	all := make([]position, 0, n)
	k := 0
	for j, s := range spaces {
		for i, d := range distances[k : k+len(s.ids)] {
			if d := int(d); d >= from && d < to {
				all = append(all, position{int32(j), int32(i)})
			}
		}
		k += len(s.ids)
	}
	return all
}

// block is the number of signature words compared per iteration. The length of a
// signature is a multiple of block.
const block = 8

// distance returns the number of bits in which two signatures differ.
func distance(a, b []uint64) int {
	n := 0
	for len(a) >= block && len(b) >= block {
		x, y := (*[block]uint64)(a), (*[block]uint64)(b)
		n += bits.OnesCount64(x[0]^y[0]) + bits.OnesCount64(x[1]^y[1]) +
			bits.OnesCount64(x[2]^y[2]) + bits.OnesCount64(x[3]^y[3]) +
			bits.OnesCount64(x[4]^y[4]) + bits.OnesCount64(x[5]^y[5]) +
			bits.OnesCount64(x[6]^y[6]) + bits.OnesCount64(x[7]^y[7])
		a, b = a[block:], b[block:]
	}
	return n
}

// dot returns the dot product. It uses four sums, which a processor can compute in
// parallel.
func dot(a, b []float32) float32 {
	var s0, s1, s2, s3 float32
	b = b[:len(a)]
	for len(a) >= 4 {
		s0 += a[0] * b[0]
		s1 += a[1] * b[1]
		s2 += a[2] * b[2]
		s3 += a[3] * b[3]
		a, b = a[4:], b[4:]
	}
	for i, x := range a {
		s0 += x * b[i]
	}
	return s0 + s1 + s2 + s3
}
