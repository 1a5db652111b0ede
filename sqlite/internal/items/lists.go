package items

import (
	linked "container/list"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/treadle-go/treadle/sqlite/internal/database"
)

// Iterating over the items that contain a common word takes a hundred times longer in the
// index than over a list in memory. The process therefore caches the lists that searches
// have used, each with the edition of the index that it corresponds to. A search whose
// transaction sees a later edition updates the list by reading the additions. A search
// that sees an earlier edition ignores the list.
//
//	no list, or items were reindexed ──> read all ────────────> keep
//	a list of an earlier edition ──────> read the additions ──> keep
//	of the same edition ───────────────> use it
//	of a later edition ────────────────> read all
//
// Items that the index has lost since remain in a list: a search notices when it reads
// the items that they are gone. A list that has grown to more than twice its length is
// read again completely.

// An edition is a state of the word index. Committed editions only grow.
type edition struct {
	reworded int64 // grows when items are reindexed
	folded   int64 // the index covers the items up to this number; it loses items only when this grows
	newest   int64 // the greatest number in the index
}

// after reports whether e is later than other.
func (e edition) after(other edition) bool {
	return e.reworded > other.reworded || e.folded > other.folded
}

// editionOf returns the edition of the index in this transaction.
func editionOf(c *database.Conn) (e edition, err error) {
	if e.folded, _, err = storeState(c); err != nil {
		return e, err
	}
	_, err = c.Row("SELECT (SELECT seq FROM sqlite_sequence WHERE name='store_stamp'), (SELECT max(rowid) FROM store_words)", nil,
		&e.reworded, &e.newest)
	return e, err
}

// A seqList contains the numbers of the items that a query of the index finds. It is
// immutable.
type seqList struct {
	query  string
	of     edition
	blocks []seqBlock // in ascending order
	n      int
	whole  int // length when the list was last read completely
}

// A seqBlock contains the numbers of a list from at*blockSize up to the next block. A
// dense block is a bitmap.
type seqBlock struct {
	at   int64
	n    int
	low  []uint16 // in ascending order
	bits []uint64
}

const (
	blockSize = 1 << 16
	lowMost   = blockSize / 16 // above this, a bitmap is smaller
)

// add adds a number that is greater than all others in the block.
func (b *seqBlock) add(low uint16) {
	b.n++
	if b.bits == nil && len(b.low) == lowMost {
		b.bits = make([]uint64, blockSize/64)
		for _, l := range b.low {
			b.bits[l/64] |= 1 << (l % 64)
		}
		b.low = nil
	}
	if b.bits != nil {
		b.bits[low/64] |= 1 << (low % 64)
		return
	}
	b.low = append(b.low, low)
}

// with returns the list extended by the numbers in a text, which must be greater than
// those in the list.
func (s *seqList) with(of edition, text string) (*seqList, error) {
	longer := *s
	longer.of = of
	if text != "" {
		longer.blocks = slices.Clone(s.blocks)
		if n := len(longer.blocks); n > 0 { // only the last block may change
			b := &longer.blocks[n-1]
			b.low, b.bits = slices.Clone(b.low), slices.Clone(b.bits)
		}
	}
	for len(text) > 0 {
		number, rest, _ := strings.Cut(text, ",")
		text = rest
		seq, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, err
		}
		if n := len(longer.blocks); n == 0 || longer.blocks[n-1].at != seq/blockSize {
			longer.blocks = append(longer.blocks, seqBlock{at: seq / blockSize})
		}
		longer.blocks[len(longer.blocks)-1].add(uint16(seq % blockSize))
		longer.n++
	}
	return &longer, nil
}

// spent reports whether the list has grown so much that most of its items may be gone.
func (s *seqList) spent() bool { return s.n > 2*s.whole+foldEvery }

// size returns the approximate size of the list in memory.
func (s *seqList) size() int {
	size := 64*cap(s.blocks) + 2*len(s.query) + 256
	for _, b := range s.blocks {
		size += 2*cap(b.low) + 8*cap(b.bits)
	}
	return size
}

// listBytes limits the size of the lists. The lists of all words of a hundred thousand
// memories take a sixth of it.
const listBytes = 32 << 20

// seqLists caches the most recently used lists.
type seqLists struct {
	most int // maximum size in bytes

	mu      sync.Mutex
	byQuery map[string]*linked.Element // elements hold a *seqList
	order   linked.List                // most recently used first
	bytes   int
}

// get returns the list of a query, or nil.
func (s *seqLists) get(query string) *seqList {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byQuery[query]
	if e == nil {
		return nil
	}
	s.order.MoveToFront(e)
	return e.Value.(*seqList)
}

// keep caches a list, unless a list of a later edition is cached.
func (s *seqLists) keep(l *seqList) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.byQuery[l.query]; e != nil {
		if e.Value.(*seqList).of.after(l.of) {
			return
		}
		s.drop(e)
	}
	if s.byQuery == nil {
		s.byQuery = map[string]*linked.Element{}
	}
	s.byQuery[l.query] = s.order.PushFront(l)
	s.bytes += l.size()
	for s.bytes > s.most {
		s.drop(s.order.Back())
	}
}

// drop removes a list. The caller must hold the lock.
func (s *seqLists) drop(e *linked.Element) {
	l := s.order.Remove(e).(*seqList)
	delete(s.byQuery, l.query)
	s.bytes -= l.size()
}

// having returns the list of the items that a query of the index finds.
func (l *look) having(query string, now edition) (*seqList, error) {
	from := &seqList{query: query}
	switch known := l.lists.get(query); {
	case known == nil || known.of.after(now):
	case known.of == now:
		return known, nil
	case known.of.reworded == now.reworded && !known.spent():
		from = known
	}
	read, err := l.readList(from, now)
	if err == nil && !l.indexes.tentative {
		l.lists.keep(read)
	}
	return read, err
}

// readList returns a list extended by the index's additions since its edition. The
// numbers are read as one text, because reading rows would take three times as long.
func (l *look) readList(s *seqList, now edition) (*seqList, error) {
	var text string
	if s.of.folded < now.newest { // otherwise, no item added since has words
		_, err := l.c.Row("SELECT group_concat(rowid) FROM (SELECT rowid FROM store_words WHERE store_words MATCH ? AND rowid>? ORDER BY rowid)", []any{s.query, s.of.folded}, &text)
		if err != nil {
			return nil, err
		}
	}
	longer, err := s.with(now, text)
	if err == nil && s.n == 0 {
		longer.whole = longer.n
	}
	return longer, err
}
