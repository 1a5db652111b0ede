package items

import (
	"iter"
	"maps"
	"math/bits"
	"slices"
	"sync"

	"github.com/treadle-go/treadle/internal/saved"
)

// Common words occur in many queries, and finding the items that contain them takes most
// of the time of a keyword search. A process therefore caches the numbers of the items
// that contain such a word. The list of a word corresponds to a state of the store:
//
//	before that state  items removed since are still in the list, but reading their records
//	                   does not find them
//	after that state   items are read by their numbers, which only grow
//
// A transaction does not use a list that is newer than its snapshot, or one from before
// words of old records changed. A list is a bitmap, because such words occur in many
// items.

const (
	// keptFrom is the minimum number of items that contain a word for its list to be
	// cached.
	keptFrom = 2000
	// keptBytes limits the total size of all lists.
	keptBytes = 32 << 20
	// listBehind is the maximum number of records that a list may lag behind.
	listBehind = 1000
)

// A wordsState is the number of the last visible record and the number of times that
// words of old records were replaced.
type wordsState struct{ seq, reworded int64 }

// A listKey is a word within the namespace range of a search.
type listKey struct{ from, to, word string }

// partSize is the number of items in a part of a list or tally.
const partSize = 4096

// A wordList is a bitmap, divided into parts, of the items that contain a word.
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

// Size returns the size of the list in bytes.
func (w *wordList) Size() int { return (partSize/8+64)*len(w.parts) + 128 }

// keptLists caches the lists of the most recently used words.
type keptLists struct {
	mu    sync.Mutex
	lists saved.Generations[listKey, *wordList]
}

// get returns the list of a word if a transaction that sees state now can use it.
func (k *keptLists) get(key listKey, now wordsState) *wordList {
	k.mu.Lock()
	defer k.mu.Unlock()
	w, ok := k.lists.Get(key)
	if ok && w.at.reworded == now.reworded && w.at.seq <= now.seq && now.seq-w.at.seq <= listBehind {
		return w
	}
	// If the list is newer than the state, the database may have been restored, and its
	// numbers will soon be assigned to other items.
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

// A tally counts the query words that each item contains.
type tally struct {
	parts map[int64]*[partSize]uint8
	items [256]int // number of items by word count

	last *[partSize]uint8 // the most recently used part and its number
	at   int64
}

// part returns the part with number at, creating it if necessary.
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

// addAll counts a word of all items in a list.
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

// best yields the items in pages, those with the most words first and, among equals, the
// newest first.
func (t *tally) best(size int) iter.Seq[[]int64] {
	return func(yield func([]int64) bool) {
		order := slices.Sorted(maps.Keys(t.parts))
		slices.Reverse(order)
		for most := len(t.items) - 1; most > 0; {
			// Lower the word count until the items fill a page or none are left.
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

// having returns the items with least to most words, in the order of best.
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

// tallied counts the query words that each item in scope contains.
func (l *look) tallied(terms []string, s scope) (*tally, error) {
	b := l.p.backend
	var now wordsState
	if err := l.q.QueryRow(l.ctx, b.db.In("SELECT seq, reworded FROM {schema}.store_state")).Scan(&now.seq, &now.reworded); err != nil {
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

// readLists counts words whose lists are not cached.
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
		if len(l.p.batch.Writes) == 0 && (len(seqs) >= keptFrom || l.p.backend.few != nil) { // lists of write batches may be rolled back, and short lists are fast to read
			l.p.backend.lists.keep(listKey{string(s.from), string(s.to), string(word)}, newWordList(seqs, now))
		}
		seqs = nil
		return nil
	})
}

// lateWords counts the words of items that are newer than the cached lists.
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
