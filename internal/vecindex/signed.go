package vecindex

import (
	"cmp"
	"iter"
	"math/bits"
	"slices"
)

// Signed returns an index that keeps only signatures, for vectors that are stored
// elsewhere and do not fit into memory. Search it with Likely, because Nearest needs
// vectors. The sample must contain at least one vector and should be typical of the
// vectors to come: its mean is subtracted from all vectors.
func Signed(sample ...[]float32) *Index {
	x := New()
	x.signed, x.dimension = true, len(sample[0])
	x.rotation = newRotation(x.dimension)
	x.setMean(sample)
	return x
}

// The number of positions reordered by an estimate: refined for each wanted position,
// refinedLeast, or one in refinedShare of all positions, whichever is most. Vectors
// without structure need this many: by signatures alone, their nearest vectors are only
// found among the nearest fifth.
const (
	refined      = 4
	refinedLeast = 16_384
	refinedShare = 6
)

// Likely yields the names and IDs in the spaces whose names start with prefix, roughly
// from nearest to farthest from the query. An ID occurs once for each of its vectors. The
// first wanted results are cheap.
//
// The vectors with the nearest signatures are ordered by an estimate of their dot product
// with the query. The estimate uses the query in full precision but only the signs of the
// vectors. It halves the number of vectors that must be compared exactly to find the
// nearest.
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
		refine := func(group []position) iter.Seq[position] { return x.refine(spaces, e, group, wanted) }
		for at := range x.bySignature(spaces, signs(centred), total, max(refined*wanted, refinedLeast, total/refinedShare), refine) {
			s := spaces[at.space]
			if !yield(s.name, s.ids[at.index]) {
				return
			}
		}
	}
}

// estimated is a position and its estimated dot product.
type estimated struct {
	position
	product float32
}

func byEstimate(a, b estimated) int { return cmp.Compare(b.product, a.product) }

// refine yields positions by descending estimate. It sorts only as many as are consumed,
// because sorting all of them would dominate the time of a search.
func (x *Index) refine(spaces []*space, e estimate, group []position, wanted int) iter.Seq[position] {
	return func(yield func(position) bool) {
		words := x.words()
		rest := make([]estimated, len(group))
		Parallel(len(group), func(from, to int) {
			for i, at := range group[from:to] {
				rest[from+i] = estimated{at, e.product(spaces[at.space].signature(at.index, words))}
			}
		})
		for n := max(wanted, 64); len(rest) > 0; n *= 2 {
			n = min(n, len(rest))
			greatest(rest, n)
			slices.SortFunc(rest[:n], byEstimate)
			for _, one := range rest[:n] {
				if !yield(one.position) {
					return
				}
			}
			rest = rest[n:]
		}
	}
}

// greatest moves the n positions with the greatest estimates to the front (quickselect).
func greatest(all []estimated, n int) {
	for from, to := 0, len(all); n > from && n < to; {
		pivot := all[(from+to)/2].product
		i, j := from, to-1
		for i <= j {
			for all[i].product > pivot {
				i++
			}
			for all[j].product < pivot {
				j--
			}
			if i <= j {
				all[i], all[j] = all[j], all[i]
				i++
				j--
			}
		}
		// Elements up to j are not less than the pivot; elements from i on are not
		// greater.
		switch {
		case n <= j:
			to = j + 1
		case n >= i:
			from = i
		default:
			return
		}
	}
}

// estimate contains, for each group of four signature bits and each of their values,
// their contribution to the dot product of a vector and the signs. Groups of eight bits
// would halve the number of lookups, but the table would not fit into the L1 cache.
type estimate [][16]float32

func newEstimate(v []float32) estimate {
	e := make(estimate, len(v)/4)
	for i := range e {
		four, sums := v[4*i:4*i+4], &e[i]
		for _, x := range four {
			sums[0] -= x
		}
		for b := 1; b < len(sums); b++ {
			sums[b] = sums[b&(b-1)] + 2*four[bits.TrailingZeros8(uint8(b))]
		}
	}
	return e
}

// product returns the dot product of the vector and the signs. It uses four sums, which a
// processor can compute in parallel.
func (e estimate) product(signature []uint64) float32 {
	var s0, s1, s2, s3 float32
	for _, word := range signature {
		t := (*[16][16]float32)(e)
		s0 += t[0][word&15] + t[1][word>>4&15] + t[2][word>>8&15] + t[3][word>>12&15]
		s1 += t[4][word>>16&15] + t[5][word>>20&15] + t[6][word>>24&15] + t[7][word>>28&15]
		s2 += t[8][word>>32&15] + t[9][word>>36&15] + t[10][word>>40&15] + t[11][word>>44&15]
		s3 += t[12][word>>48&15] + t[13][word>>52&15] + t[14][word>>56&15] + t[15][word>>60]
		e = e[16:]
	}
	return s0 + s1 + s2 + s3
}

// Restored returns an index like Signed, but with a dimension and mean taken from another
// index.
func Restored(dimension int, mean []float32) *Index {
	x := New()
	x.signed, x.dimension = true, dimension
	x.rotation = newRotation(dimension)
	x.mean = mean
	return x
}

// Mean returns the mean to pass to Restored.
func (x *Index) Mean() []float32 { return x.mean }

// Dimension returns the dimension of the vectors. It is set only if the index keeps only
// signatures.
func (x *Index) Dimension() int { return x.dimension }

// Drift returns the squared distance between the mean of a sample and the index's mean.
func (x *Index) Drift(sample ...[]float32) float64 {
	of := Index{rotation: x.rotation}
	of.setMean(sample)
	var sum float64
	for i, m := range of.mean {
		d := float64(m-x.mean[i]) / float64(x.rotation.size) // rotation scales vectors by its size
		sum += d * d
	}
	return sum
}

// Words returns the number of words in the signature of a vector with the given
// dimension.
func Words(dimension int) int { return newSize(dimension) / 64 }

// Signature returns the signature of a vector.
func (x *Index) Signature(v []float32) []uint64 { return x.signature(v) }

// AddSigned is like Add, but takes the concatenated signatures of the vectors.
func (x *Index) AddSigned(name string, id int64, signatures []uint64) {
	n := len(signatures) / x.words()
	if n == 0 {
		return
	}
	s := x.space(name)
	for range n {
		s.addID(id)
	}
	s.signatures = append(s.signatures, signatures...)
	x.count += n
}
