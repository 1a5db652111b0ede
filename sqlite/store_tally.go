package sqlite

import (
	"encoding/binary"
	"iter"
	"math"
	"slices"
)

// A tally has the numbers of some lists, in order, and how many of the lists
// have each.
type tally struct {
	seqs   []int64
	counts []int32
	having []int // how many numbers have which count
}

// add adds a number that is greater than all it has.
func (t *tally) add(seq int64, count int32) {
	t.seqs, t.counts = append(t.seqs, seq), append(t.counts, count)
	t.having[count]++
}

// best yields the numbers with the greatest counts first, equal ones from the
// last, in pages of some size.
func (t *tally) best(size int) iter.Seq[[]int64] {
	return func(yield func([]int64) bool) {
		page := make([]int64, 0, min(size, len(t.seqs)))
		for count, left := range slices.Backward(t.having) {
			for i := len(t.counts) - 1; left > 0; i-- {
				if t.counts[i] != int32(count) {
					continue
				}
				left--
				if page = append(page, t.seqs[i]); len(page) == size {
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

// A window is where lists are counted together, a stretch of numbers at a time:
// to merge them number by number would take ten times as long.
type window struct {
	counts [windowSize]int32
	few    []int // the places that are counted, unless they are many
}

const (
	windowSize = 1 << 12
	windowFew  = windowSize / 64
)

// tallied is the tally of lists.
func tallied(lists []*seqList) *tally {
	t := &tally{having: make([]int, len(lists)+1)}
	w := &window{few: make([]int, 0, windowFew)}
	var cursors []seqCursor
	longest := 0
	for _, l := range lists {
		if l.n > 0 {
			c := seqCursor{rest: l.data}
			c.next()
			cursors = append(cursors, c)
		}
		longest = max(longest, l.n)
	}
	t.seqs, t.counts = make([]int64, 0, 2*longest), make([]int32, 0, 2*longest)
	for len(cursors) > 0 {
		from := int64(math.MaxInt64)
		for _, c := range cursors {
			from = min(from, c.at)
		}
		for i := range cursors {
			w.count(&cursors[i], from)
		}
		w.close(t, from)
		cursors = slices.DeleteFunc(cursors, func(c seqCursor) bool { return c.at == 0 })
	}
	return t
}

// count counts the numbers of a list that are in the window.
func (w *window) count(c *seqCursor, from int64) {
	rest, at := c.rest, c.at
	for at != 0 && at-from < windowSize {
		n := &w.counts[at-from]
		if *n == 0 && len(w.few) < windowFew {
			w.few = append(w.few, int(at-from))
		}
		*n++
		if len(rest) > 0 && rest[0] < 0x80 { // as most of a frequent word: next, without a call
			at += int64(rest[0])
			rest = rest[1:]
			continue
		}
		after := seqCursor{rest, at}
		after.next()
		rest, at = after.rest, after.at
	}
	c.rest, c.at = rest, at
}

// close takes over what was counted in the window, and empties it.
func (w *window) close(t *tally, from int64) {
	if len(w.few) < windowFew {
		slices.Sort(w.few)
		for _, place := range w.few {
			t.add(from+int64(place), w.counts[place])
			w.counts[place] = 0
		}
	} else {
		seqs, counts := slices.Grow(t.seqs, windowSize), slices.Grow(t.counts, windowSize)
		for place, n := range &w.counts {
			if n > 0 { // as add does
				seqs, counts = append(seqs, from+int64(place)), append(counts, n)
				t.having[n]++
			}
		}
		t.seqs, t.counts = seqs, counts
		clear(w.counts[:])
	}
	w.few = w.few[:0]
}

// A seqCursor is a place in a list.
type seqCursor struct {
	rest []byte
	at   int64 // the number, 0 at the end
}

func (c *seqCursor) next() {
	if len(c.rest) == 0 {
		c.at = 0
		return
	}
	d, n := binary.Uvarint(c.rest)
	c.at += int64(d)
	c.rest = c.rest[n:]
}
