package vecindex

import "iter"

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

// Likely yields the names and ids in the spaces whose names begin with prefix, by
// how near their signatures are to the query's, the likely nearest first. An id
// comes once for each of its vectors. About as many as are said to be wanted are
// cheap.
func (x *Index) Likely(prefix string, query []float32, wanted int) iter.Seq2[string, int64] {
	return func(yield func(string, int64) bool) {
		spaces := x.under(prefix)
		total := 0
		for _, s := range spaces {
			total += len(s.ids)
		}
		for at := range x.bySignature(spaces, query, total, wanted) {
			s := spaces[at.space]
			if !yield(s.name, s.ids[at.index]) {
				return
			}
		}
	}
}
