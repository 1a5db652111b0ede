package items

import (
	"iter"
	"math/bits"
	"slices"
)

// A tally contains the numbers of some lists, in order, and for each number the count of
// lists that contain it.
type tally struct {
	blocks []tallyBlock // in ascending order
	lists  int          // number of lists
	seqs   []int64      // numbers of blocks without planes
	counts []int32      // counts of the numbers in seqs
}

// A tallyBlock contains some of the numbers of a tally. In a dense block, the counts are
// stored in bit planes: bit b of plane p is bit p of the count of number b. Counting one
// by one would take twenty times as long, and so would searching for the greatest.
type tallyBlock struct {
	first    int64    // number of the first bit
	planes   int      // number of planes; 0 if the block has none
	words    []uint64 // the first word of all planes, then the second, and so on
	from, to int      // without planes: range in seqs
}

// add adds a number that is greater than all others in the tally.
func (t *tally) add(seq int64, count int32) {
	if n := len(t.blocks); n == 0 || t.blocks[n-1].planes > 0 {
		t.blocks = append(t.blocks, tallyBlock{from: len(t.seqs), to: len(t.seqs)})
	}
	t.seqs, t.counts = append(t.seqs, seq), append(t.counts, count)
	t.blocks[len(t.blocks)-1].to++
}

// best yields the numbers in pages, those with the greatest counts first and, among
// equals, the greatest numbers first.
func (t *tally) best(size int) iter.Seq[[]int64] {
	return func(yield func([]int64) bool) {
		var page []int64
		for count := t.lists; count > 0; count-- {
			for seq := range t.having(count) {
				if page = append(page, seq); len(page) == size {
					if !yield(page) {
						return
					}
					page = page[:0]
				}
			}
		}
		if len(page) > 0 {
			yield(page)
		}
	}
}

// having yields the numbers with a count, in descending order.
func (t *tally) having(count int) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		for _, b := range slices.Backward(t.blocks) {
			if b.planes == 0 {
				for i := b.to - 1; i >= b.from; i-- {
					if t.counts[i] == int32(count) && !yield(t.seqs[i]) {
						return
					}
				}
				continue
			}
			if bits.Len(uint(count)) > b.planes {
				continue
			}
			for at := len(b.words); at > 0; at -= b.planes {
				having := ^uint64(0)
				for p, word := range b.words[at-b.planes : at] {
					// The mask is all ones if the count does not have this bit.
					having &= word ^ (uint64(count)>>p&1 - 1)
				}
				first := b.first + 64*int64(at/b.planes-1)
				for having != 0 {
					top := bits.Len64(having) - 1
					having &^= 1 << top
					if !yield(first + int64(top)) {
						return
					}
				}
			}
		}
	}
}

// planesFrom is the total of numbers in a block from which planes are used.
const planesFrom = 512

// tallied returns the tally of lists.
func tallied(lists []*seqList) *tally {
	t := &tally{lists: len(lists)}
	rest := make([][]seqBlock, 0, len(lists))
	for _, l := range lists {
		rest = append(rest, l.blocks)
	}
	var same []seqBlock
	for {
		rest = slices.DeleteFunc(rest, func(b []seqBlock) bool { return len(b) == 0 })
		if len(rest) == 0 {
			return t
		}
		at := rest[0][0].at
		for _, b := range rest[1:] {
			at = min(at, b[0].at)
		}
		same = same[:0]
		n := 0
		for i, b := range rest {
			if b[0].at == at {
				same, rest[i] = append(same, b[0]), b[1:]
				n += b[0].n
			}
		}
		if n < planesFrom {
			t.addFew(at, same)
		} else {
			t.addMany(at, same)
		}
	}
}

// addFew counts the numbers of blocks one by one.
func (t *tally) addFew(at int64, same []seqBlock) {
	var all []uint16
	for _, b := range same {
		all = append(all, b.low...) // blocks this small have no bitmap
	}
	slices.Sort(all)
	for i := 0; i < len(all); {
		n := i + 1
		for n < len(all) && all[n] == all[i] {
			n++
		}
		t.add(at*blockSize+int64(all[i]), int32(n-i))
		i = n
	}
}

// addMany counts the numbers of blocks in planes.
func (t *tally) addMany(at int64, same []seqBlock) {
	planes := bits.Len(uint(len(same)))
	words := make([]uint64, planes*blockSize/64)
	for _, b := range same {
		for i, carry := range b.bits {
			for p := i * planes; carry != 0; p++ {
				words[p], carry = words[p]^carry, words[p]&carry
			}
		}
		for _, low := range b.low {
			carry := uint64(1) << (low % 64)
			for p := int(low/64) * planes; carry != 0; p++ {
				words[p], carry = words[p]^carry, words[p]&carry
			}
		}
	}
	t.blocks = append(t.blocks, tallyBlock{first: at * blockSize, planes: planes, words: words})
}
