package vecindex

import (
	"cmp"
	"iter"
	"math/bits"
	"slices"
)

// Signed returns an index that keeps only signatures, for vectors that are stored
// elsewhere and are too many for memory. It is searched with Likely, because
// Nearest needs vectors. The sample is at least one of the vectors to come, and
// should be typical of them: their mean is subtracted from all vectors.
func Signed(sample ...[]float32) *Index {
	x := New()
	x.signed = true
	x.rotation = newRotation(len(sample[0]))
	x.setMean(sample)
	return x
}

// refined is how many positions are reordered by an estimate for each one that is
// wanted.
const refined = 4

// Likely yields the names and ids in the spaces whose names begin with prefix, the
// probably nearest to the query first. An id occurs once for each of its vectors.
// The first wanted results are cheap.
//
// The vectors with the nearest signatures are ordered by an estimate of their dot
// product with the query, in which the query has its full precision and the vectors
// only their signs. This halves the number of vectors that must be compared exactly
// to find the nearest.
func (x *Index) Likely(prefix string, query []float32, wanted int) iter.Seq2[string, int64] {
	return func(yield func(string, int64) bool) {
		spaces := x.under(prefix)
		total := 0
		for _, s := range spaces {
			total += len(s.ids)
		}
		if total == 0 {
			return
		}
		centred := x.centred(query)
		e := newEstimate(centred)
		refine := func(group []position) []position { return x.refine(spaces, e, group) }
		for at := range x.bySignature(spaces, signs(centred), total, refined*wanted, refine) {
			s := spaces[at.space]
			if !yield(s.name, s.ids[at.index]) {
				return
			}
		}
	}
}

// refine orders positions by descending estimate.
func (x *Index) refine(spaces []*space, e estimate, group []position) []position {
	type estimated struct {
		position
		product float32
	}
	words := x.words()
	all := make([]estimated, len(group))
	for i, at := range group {
		all[i] = estimated{at, e.product(spaces[at.space].signature(at.index, words))}
	}
	slices.SortFunc(all, func(a, b estimated) int { return cmp.Compare(b.product, a.product) })
	for i, one := range all {
		group[i] = one.position
	}
	return group
}

// estimate has, for each byte of a signature and each value of that byte, the
// contribution of its bits to the product of a vector and the signs.
type estimate [][256]float32

func newEstimate(v []float32) estimate {
	e := make(estimate, len(v)/8)
	for i := range e {
		eight, sums := v[8*i:8*i+8], &e[i]
		for _, x := range eight {
			sums[0] -= x
		}
		for b := 1; b < len(sums); b++ {
			sums[b] = sums[b&(b-1)] + 2*eight[bits.TrailingZeros8(uint8(b))]
		}
	}
	return e
}

// product returns the product of the vector and the signs.
func (e estimate) product(signature []uint64) float32 {
	var sum float32
	for w, word := range signature {
		for i := range e[8*w : 8*w+8] {
			sum += e[8*w+i][uint8(word>>(8*i))]
		}
	}
	return sum
}
