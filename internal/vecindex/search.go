package vecindex

import (
	"math/bits"
	"slices"
)

// Nearest returns the n ids nearest to query of those in the spaces whose names
// begin with prefix and that accept lets through, nearest first; equal ones by
// greater id.
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
	for _, at := range x.nearestSignatures(spaces, query, total) {
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

// first are the n best hits that are accepted, each id once.
func first(n int, hits []Hit, accept func(int64) bool) []Hit {
	slices.SortFunc(hits, byHit)
	seen := make(map[int64]bool, n)
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

// A position is that of a vector.
type position struct{ space, index int32 }

// nearestSignatures yields positions by the distance of their signatures.
func (x *Index) nearestSignatures(spaces []*space, query []float32, total int) []position {
	wanted := x.signature(query)
	words := x.words()
	distances := make([]uint16, 0, total)
	counts := make([]int, 64*words+2)
	for _, s := range spaces {
		for i := 0; i < len(s.signatures); i += words {
			d := uint16(distance(wanted, s.signatures[i:i+words]))
			distances = append(distances, d)
			counts[d+1]++
		}
	}
	for d := 1; d < len(counts); d++ {
		counts[d] += counts[d-1]
	}
	sorted := make([]position, total)
	k := 0
	for j, s := range spaces {
		for i := range s.ids {
			d := distances[k]
			k++
			sorted[counts[d]] = position{int32(j), int32(i)}
			counts[d]++
		}
	}
	return sorted
}

func distance(a, b []uint64) int {
	d := 0
	for i, w := range a {
		d += bits.OnesCount64(w ^ b[i])
	}
	return d
}

// dot has four sums, which a processor can work on at the same time.
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
