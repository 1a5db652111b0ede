package postgres

import (
	"iter"
	"maps"
	"math/bits"
	"slices"
	"sync"

	"github.com/treadle-go/treadle/internal/saved"
)

// A word that many items have is in many queries, and to find those items takes the
// database nearly all of the time of a search by words. So a process keeps the numbers of
// the items that have such a word. The list of a word is as of a state of the store:
//
//	before the state  items that have gone since are still in the list; they are not found
//	                  when their records are read
//	behind it         items are read by their numbers, which grow
//
// A list is not used by a transaction that sees an older state than the list has, or when
// words of old records have changed. It is a set of bits, since such words are in many items.

const (
	// keptFrom is how many items a word has whose list is kept.
	keptFrom = 2000
	// keptBytes bounds all lists.
	keptBytes = 32 << 20
	// listBehind is how many records a list may lack.
	listBehind = 1000
)

// A wordsState is up to where records are visible, and how often words of old ones were
// replaced.
type wordsState struct{ seq, reworded int64 }

// A listKey is a word under the names of a search.
type listKey struct{ from, to, word string }

// partSize is how many numbers a part of a list or a tally has.
const partSize = 4096

// A wordList has the numbers of items that have a word, in parts.
type wordList struct {
	parts map[int64]*[partSize / 64]uint64
	at    wordsState
}

func newWordList(seqs []int64, at wordsState) *wordList {
	w := &wordList{map[int64]*[partSize / 64]uint64{}, at}
	for _, seq := range seqs {
		p := w.parts[seq/partSize]
		if p == nil {
			p = new([partSize / 64]uint64)
			w.parts[seq/partSize] = p
		}
		p[seq%partSize/64] |= 1 << (seq % 64)
	}
	return w
}

// Size is how many bytes it takes.
func (w *wordList) Size() int { return (partSize/8+64)*len(w.parts) + 128 }

// keptLists are the lists of the words that were asked for last.
type keptLists struct {
	mu    sync.Mutex
	lists saved.Generations[listKey, *wordList]
}

// get returns the list of a word if a transaction that sees a state can use it.
func (k *keptLists) get(key listKey, now wordsState) *wordList {
	k.mu.Lock()
	defer k.mu.Unlock()
	w, ok := k.lists.Get(key)
	if ok && w.at.reworded == now.reworded && w.at.seq <= now.seq && now.seq-w.at.seq <= listBehind {
		return w
	}
	// If it is newer than the state, the database may have been restored: then its numbers
	// will soon be those of other items.
	k.lists.Delete(key)
	return nil
}

func (k *keptLists) keep(key listKey, w *wordList) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lists.Most = keptBytes
	k.lists.Set(key, w)
}

func (k *keptLists) clear() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lists.Clear()
}

// A tally counts how many words of a query each item has.
type tally struct {
	parts map[int64]*[partSize]uint8
	items [256]int // how many items have so many words

	last *[partSize]uint8 // the part that was counted in last, and its number
	at   int64
}

// part returns the part with a number.
func (t *tally) part(at int64) *[partSize]uint8 {
	if t.last != nil && t.at == at {
		return t.last
	}
	p := t.parts[at]
	if p == nil {
		if t.parts == nil {
			t.parts = map[int64]*[partSize]uint8{}
		}
		p = new([partSize]uint8)
		t.parts[at] = p
	}
	t.last, t.at = p, at
	return p
}

// add counts a word of an item. A query has at most 128 words.
func (t *tally) add(seq int64) { t.count(&t.part(seq / partSize)[seq%partSize]) }

func (t *tally) count(n *uint8) {
	t.items[*n]--
	*n++
	t.items[*n]++
}

// addAll counts a word of all items of a list.
func (t *tally) addAll(w *wordList) {
	for at, set := range w.parts {
		p := t.part(at)
		for i, word := range set {
			for ; word != 0; word &= word - 1 {
				t.count(&p[64*i+bits.TrailingZeros64(word)])
			}
		}
	}
}

// best yields the items, those with the most words first, and of these the newest, in
// pages.
func (t *tally) best(size int) iter.Seq[[]int64] {
	return func(yield func([]int64) bool) {
		order := slices.Sorted(maps.Keys(t.parts))
		slices.Reverse(order)
		for most := len(t.items) - 1; most > 0; {
			// So many words have those who make a page, or all.
			least, n := most, t.items[most]
			for ; least > 1 && n < size; n += t.items[least] {
				least--
			}
			for page := range slices.Chunk(t.having(least, most, order), size) {
				if !yield(page) {
					return
				}
			}
			most = least - 1
		}
	}
}

// having returns the items that have some numbers of words, in the order of best.
func (t *tally) having(least, most int, order []int64) (all []int64) {
	var by [256][]int64
	for _, at := range order {
		for i, have := range slices.Backward(t.parts[at][:]) {
			if n := int(have); n >= least && n <= most {
				by[n] = append(by[n], at*partSize+int64(i))
			}
		}
	}
	for n := most; n >= least; n-- {
		all = append(all, by[n]...)
	}
	return all
}

// tallied counts the words of a query that the items in scope have.
func (l *look) tallied(terms []string, s scope) (*tally, error) {
	b := l.p.backend
	var now wordsState
	if err := l.q.QueryRow(l.ctx, b.in("SELECT seq, reworded FROM {schema}.store_state")).Scan(&now.seq, &now.reworded); err != nil {
		return nil, err
	}
	kept := make(map[string]*wordList, len(terms))
	var missing [][]byte
	behind := now.seq
	for _, t := range terms {
		if w := b.lists.get(listKey{string(s.from), string(s.to), t}, now); w != nil {
			kept[t], behind = w, min(behind, w.at.seq)
		} else {
			missing = append(missing, []byte(t))
		}
	}
	var counts tally
	for _, w := range kept {
		counts.addAll(w)
	}
	if err := l.readLists(missing, s, now, &counts); err != nil || behind == now.seq {
		return &counts, err
	}
	return &counts, l.lateWords(kept, s, behind, &counts)
}

// readLists counts words that are not kept.
func (l *look) readLists(missing [][]byte, s scope, now wordsState, counts *tally) error {
	if len(missing) == 0 {
		return nil
	}
	var word []byte
	var seqs []int64
	return l.each(`SELECT t.word, ARRAY(SELECT i.seq FROM {schema}.store_item i WHERE i.words @> ARRAY[t.word] AND i.name >= $2 AND i.name < $3)
		FROM unnest($1::bytea[]) AS t(word)`, []any{missing, s.from, s.to}, []any{&word, &seqs}, func() error {
		for _, seq := range seqs {
			counts.add(seq)
		}
		if len(l.p.batch.Writes) == 0 && (len(seqs) >= keptFrom || l.p.backend.few != nil) { // else it may be rolled back, or is read quickly
			l.p.backend.lists.keep(listKey{string(s.from), string(s.to), string(word)}, newWordList(seqs, now))
		}
		seqs = nil
		return nil
	})
}

// lateWords counts the words of items that are behind their lists.
func (l *look) lateWords(kept map[string]*wordList, s scope, behind int64, counts *tally) error {
	var seq int64
	var words [][]byte
	return l.each("SELECT i.seq, i.words FROM {schema}.store_item i WHERE i.seq > $1 AND i.name >= $2 AND i.name < $3",
		[]any{behind, s.from, s.to}, []any{&seq, &words}, func() error {
			for _, word := range words {
				if w := kept[string(word)]; w != nil && seq > w.at.seq {
					counts.add(seq)
				}
			}
			words = nil
			return nil
		})
}
