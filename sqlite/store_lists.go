package sqlite

import (
	linked "container/list"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// To go through the items that have a frequent word takes the index a hundred
// times as long as it takes the process that has them as a list. So it keeps the
// lists that searches have asked for, each with the edition of the index that it
// is of. A search whose transaction sees a later edition brings the list up to
// date by reading what was added, and one that sees an earlier edition leaves it
// alone.
//
//	no list, or items have got other words ──> read all ─────────> keep
//	a list of an earlier edition ────────────> read what is new ─> keep
//	of the same ─────────────────────────────> use it
//	of a later one ──────────────────────────> read all
//
// What the index has lost since stays in a list: a search sees of the items
// themselves that they are gone. A list that has grown to more than twice its
// length is read as a whole again.

// An edition is a state of the index of words. Those that are committed only
// grow.
type edition struct {
	reworded int64 // grows when items get other words
	folded   int64 // it has the items up to this one; it loses some only when this grows
	newest   int64 // the greatest number that it has
}

// after reports whether e is not the same as other and not an earlier one.
func (e edition) after(other edition) bool {
	return e.reworded > other.reworded || e.folded > other.folded
}

// edition is that of the index in this transaction.
func (c *conn) edition() (e edition, err error) {
	if e.folded, _, err = c.storeState(); err != nil {
		return e, err
	}
	_, err = c.row("SELECT (SELECT seq FROM sqlite_sequence WHERE name='store_stamp'), (SELECT max(rowid) FROM store_words)", nil,
		&e.reworded, &e.newest)
	return e, err
}

// A seqList is the numbers of the items that a query of the index finds. It is
// never changed.
type seqList struct {
	query  string
	of     edition
	blocks []seqBlock // in order
	n      int
	whole  int // how many there were when it was last read as a whole
}

// A seqBlock is the numbers of a list from at*blockSize on, up to the next block. If
// they are many each is a bit.
type seqBlock struct {
	at   int64
	n    int
	low  []uint16 // in order
	bits []uint64
}

const (
	blockSize = 1 << 16
	lowMost   = blockSize / 16 // from there on bits take less
)

// add adds a number that is greater than all that the block has.
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

// with is the list with the numbers in a text, which come after those it has.
func (s *seqList) with(of edition, text string) (*seqList, error) {
	longer := *s
	longer.of = of
	if text != "" {
		longer.blocks = slices.Clone(s.blocks)
		if n := len(longer.blocks); n > 0 { // the one that may change
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

// spent reports whether so much has been added to the list that most of it may be
// gone.
func (s *seqList) spent() bool { return s.n > 2*s.whole+foldEvery }

// size is what the list takes in memory, about.
func (s *seqList) size() int {
	size := 64*cap(s.blocks) + 2*len(s.query) + 256
	for _, b := range s.blocks {
		size += 2*cap(b.low) + 8*cap(b.bits)
	}
	return size
}

// listBytes bounds what the lists take. Those of all words of a hundred thousand
// memories take a sixth of it.
const listBytes = 32 << 20

// seqLists are the lists that were last used.
type seqLists struct {
	most int // bytes

	mu      sync.Mutex
	byQuery map[string]*linked.Element // of a *seqList
	order   linked.List                // the one used last is in front
	bytes   int
}

// get is the list of a query, or nil.
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

// keep keeps a list, unless there is one of a later edition.
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

// drop is called with the lock held.
func (s *seqLists) drop(e *linked.Element) {
	l := s.order.Remove(e).(*seqList)
	delete(s.byQuery, l.query)
	s.bytes -= l.size()
}

// having is the list of the items that a query of the index finds.
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

// readList adds what the index has after the edition of a list. The numbers come
// as one text: as rows they would take three times as long.
func (l *look) readList(s *seqList, now edition) (*seqList, error) {
	var text string
	if s.of.folded < now.newest { // else all that was folded has no words
		_, err := l.c.row("SELECT group_concat(rowid) FROM (SELECT rowid FROM store_words WHERE store_words MATCH ? AND rowid>? ORDER BY rowid)", []any{s.query, s.of.folded}, &text)
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
