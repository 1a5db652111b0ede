package vecindex

import (
	"cmp"
	"iter"
	"math/bits"
	"slices"
)

// Signed makes an index that keeps signatures alone, for vectors that are kept
// elsewhere and are too many for memory. It is searched with Likely; Nearest
// needs vectors. The sample are some of the vectors to come, at least one, from
// all over the place: what they have in common says nothing.
func Signed(sample ...[]float32) *Index {
	x := New()
	x.signed = true
	x.rotation = newRotation(len(sample[0]))
	x.setMean(sample)
	return x
}

// refined is how many are ordered by their estimates for each one that is wanted.
const refined = 4

// Likely yields the names and ids in the spaces whose names begin with prefix, by
// how near they seem to the query, the likely nearest first. An id comes once for
// each of its vectors. About as many as are said to be wanted are cheap.
//
// Signatures say more about a query that is a vector than about its signature:
// those whose signatures are nearest are ordered by what the product of the query
// and their vectors would be if these had nothing but signs. Of the vectors that
// come first half as many are then enough to find the nearest among.
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

// refine orders positions by estimates, the greatest first.
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

// An estimate has, for each byte of a signature, what the bits of each value it
// may have contribute to the product of a vector and the signs.
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

// product is that of the vector and the signs.
func (e estimate) product(signature []uint64) float32 {
	var sum float32
	for w, word := range signature {
		for i := range e[8*w : 8*w+8] {
			sum += e[8*w+i][uint8(word>>(8*i))]
		}
	}
	return sum
}
