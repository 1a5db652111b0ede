package items

import (
	"slices"
	"strings"
	"sync"

	"github.com/treadle-go/treadle/sqlite/internal/database"
)

// Each keyword search ranks about a thousand items by counting their words. The process
// caches these items, because reading them touches as many pages all over the file, and
// SQLite discards its cached pages after every commit by another connection.
//
// The cache also records which items are live and their namespace. An item ends only
// through a record with a greater number for its key or for its whole namespace. Items
// that ended since the last update are therefore found among the records written since,
// unless a sweep has dropped one of these, which store_state shows.
//
//	the transaction sees the last record in the cache ──> use the cache
//	it sees a greater number ──> read the records after that, remove ended items ──> use the cache
//	it sees a lesser number  ──> read from the file
//
// Items with a TTL are not cached as live: they may have expired, or their lifetime may
// be extended without a new record.

// A keptItem is a ranked item. Its words are those of its record, which change only
// together with the edition of the index.
type keptItem struct {
	words int // number of words, including repetitions
	data  []byte
	key   itemKey
	name  string // of its namespace
	ttl   bool   // the item has a TTL
	live  bool   // known to be live; guarded by the lock
}

// An itemKey consists of the ID of a namespace and the hash of a key.
type itemKey struct{ space, hash int64 }

func (i *keptItem) size() int { return len(i.data) + 160 }

// keptBytes limits the size of the cached items. A hundred thousand chunks of a hundred
// words each take less.
const keptBytes = 96 << 20

// keptItems caches the most recently ranked items in two generations. A new generation
// starts when the current one reaches half of the size limit, and items of the previous
// generation that are still used move to it.
type keptItems struct {
	most int // maximum size in bytes

	mu         sync.Mutex
	reworded   int64 // from the edition
	last       int64 // the greatest record number at the last update
	young, old keptGeneration
	bytes      int              // size of the young generation
	names      map[int64]string // names of the young generation's namespaces
}

type keptGeneration struct {
	items map[int64]*keptItem
	live  map[itemKey]int64 // live items by key
}

// knowledge is what the cache knows about an item.
type knowledge byte

const (
	unknown knowledge = iota
	isThere           // live and in scope
	isElsewhere
)

// at returns what the cache knows about an item under a namespace, as of record last.
func (k *keptItems) at(i *keptItem, name string, last int64) knowledge {
	switch {
	case !i.live || k.last != last:
		return unknown
	case strings.HasPrefix(i.name, name):
		return isThere
	}
	return isElsewhere
}

// get returns the cached items among seqs and what the cache knows about each.
func (k *keptItems) get(seqs []int64, of edition, name string, last int64) ([]*keptItem, []knowledge) {
	items, known := make([]*keptItem, len(seqs)), make([]knowledge, len(seqs))
	k.mu.Lock()
	defer k.mu.Unlock()
	if of.reworded != k.reworded {
		return items, known
	}
	for j, seq := range seqs {
		i, ok := k.young.items[seq]
		if !ok {
			if i, ok = k.old.items[seq]; !ok {
				continue
			}
			k.add(seq, i)
		}
		items[j], known[j] = i, k.at(i, name, last)
	}
	return items, known
}

// where returns what the cache knows about items, regardless of their words.
func (k *keptItems) where(seqs []int64, name string, last int64) []knowledge {
	known := make([]knowledge, len(seqs))
	k.mu.Lock()
	defer k.mu.Unlock()
	for j, seq := range seqs {
		i, ok := k.young.items[seq]
		if !ok {
			i, ok = k.old.items[seq]
		}
		if ok {
			known[j] = k.at(i, name, last)
		}
	}
	return known
}

// keep caches items that were read as of record last. It ignores outdated items.
func (k *keptItems) keep(read map[int64]*keptItem, of edition, last int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if of.reworded < k.reworded {
		return
	}
	if of.reworded > k.reworded {
		k.reworded = of.reworded
		k.young = keptGeneration{}
		k.old = keptGeneration{}
		k.bytes = 0
	}
	for seq, i := range read {
		if other, ok := k.holder(i.key); last != k.last || ok && other != seq {
			i.live = false
		}
		k.add(seq, i)
	}
}

// holder returns the live item of a key.
func (k *keptItems) holder(key itemKey) (seq int64, ok bool) {
	if seq, ok = k.young.live[key]; !ok {
		seq, ok = k.old.live[key]
	}
	return seq, ok
}

// add adds an item. The caller must hold the lock.
func (k *keptItems) add(seq int64, i *keptItem) {
	if k.young.items == nil || k.bytes+i.size() > k.most/2 {
		k.young, k.old, k.bytes = keptGeneration{map[int64]*keptItem{}, map[itemKey]int64{}}, k.young, 0
		k.names = map[int64]string{}
	}
	if had, ok := k.young.items[seq]; ok {
		k.bytes -= had.size()
	}
	k.bytes += i.size()
	if name, ok := k.names[i.key.space]; ok {
		i.name = name // share one string
	} else {
		k.names[i.key.space] = i.name
	}
	k.young.items[seq] = i
	if i.live {
		k.young.live[i.key] = seq
	}
}

// state returns the number of the last record in the cache and whether it has no live
// items.
func (k *keptItems) state() (last int64, empty bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last, len(k.young.live)+len(k.old.live) == 0
}

// ended removes the items that ended between the records before and last: for each of the
// keys, the item with a number less than the given one, or all items.
func (k *keptItems) ended(before, last int64, keys map[itemKey]int64, all bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last != before { // another goroutine was faster
		return
	}
	k.last = last
	for _, g := range []keptGeneration{k.young, k.old} {
		if all {
			for _, seq := range g.live {
				g.items[seq].live = false
			}
			clear(g.live)
			continue
		}
		for key, seq := range keys {
			if old, ok := g.live[key]; ok && old < seq {
				g.items[old].live = false
				delete(g.live, key)
			}
		}
	}
}

// catchUpMost is the maximum number of records to read to find ended items.
const catchUpMost = 4096

// last updates the cached items to the transaction's snapshot and returns the number of
// the last record in that snapshot.
func (l *look) last() (int64, error) {
	if l.seen != 0 {
		return l.seen, nil
	}
	last, err := lastSeq(l.c)
	if err != nil {
		return 0, err
	}
	if before, empty := l.kept.state(); before < last && !l.indexes.tentative {
		var keys map[itemKey]int64
		if !empty {
			if keys, empty, err = writtenSince(l.c, before, last); err != nil {
				return 0, err
			}
		}
		l.kept.ended(before, last, keys, empty)
	}
	l.seen = last
	return last, nil
}

// writtenSince returns the keys of the records after a number, with the greatest number of
// each. The result all reports whether any other key may have ended.
func writtenSince(c *database.Conn, after, last int64) (keys map[itemKey]int64, all bool, err error) {
	_, compacted, err := storeState(c)
	if err != nil || compacted > after || last-after > catchUpMost {
		return nil, true, err
	}
	keys = map[itemKey]int64{}
	err = c.Each("SELECT seq, space, key FROM store_record WHERE seq>? ORDER BY seq", []any{after}, func(scan func(...any) error) error {
		var seq, space int64
		var key string
		err := scan(&seq, &space, &key)
		if key == "" { // a whole namespace was forgotten
			all = true
		}
		keys[itemKey{space, keyHash(key)}] = seq
		return err
	})
	return keys, all, err
}

// items returns the given items that are live and in scope, in order.
func (l *look) items(s scope, seqs []int64, now edition) (there []int64, items []*keptItem, err error) {
	last, err := l.last()
	if err != nil {
		return nil, nil, err
	}
	items, known := l.kept.get(seqs, now, s.name, last)
	var ask, mortal []int64
	for j, seq := range seqs {
		switch {
		case known[j] != unknown:
		case items[j] != nil && items[j].ttl:
			mortal = append(mortal, seq)
		default:
			ask = append(ask, seq)
		}
	}
	read, err := l.readItems(s, ask)
	if err != nil {
		return nil, nil, err
	}
	others, err := l.others(s, mortal)
	if err != nil {
		return nil, nil, err
	}
	there = make([]int64, 0, len(seqs))
	kept := items[:0]
	for j, seq := range seqs {
		i := items[j]
		if known[j] == unknown && (i == nil || !i.ttl) {
			i = read[seq]
		}
		if i != nil && known[j] != isElsewhere && !others[seq] {
			there, kept = append(there, seq), append(kept, i)
		}
	}
	if len(read) > 0 && !l.indexes.tentative {
		l.kept.keep(read, now, last)
	}
	return there, kept, nil
}

// readItems reads the given items that are live and in scope.
func (l *look) readItems(s scope, seqs []int64) (map[int64]*keptItem, error) {
	read := make(map[int64]*keptItem, len(seqs))
	if len(seqs) == 0 {
		return read, nil
	}
	slices.Sort(seqs) // read the file in page order
	// Only items with a TTL have an expiration time.
	err := l.c.Each(`SELECT u.seq, r.seq, r.space, r.key, r.lifetime, r.words, r.terms, n.name, n.sum FROM json_each(?) j CROSS JOIN store_under u
		LEFT JOIN store_record r ON r.seq=u.seq LEFT JOIN store_space n ON n.id=r.space LEFT JOIN store_life l ON l.seq=iif(r.lifetime=0,NULL,r.seq)
		WHERE u.space=? AND u.seq=j.value AND `+isLive, []any{list(seqs), -s.id, l.at},
		func(scan func(...any) error) error {
			var seq, there, ttl int64
			var key string
			var named int64
			i := &keptItem{}
			err := scan(&seq, &there, &i.key.space, &key, &ttl, &i.words, &i.data, &i.name, &named)
			if err == nil && there == 0 {
				err = missingRecord(seq)
			}
			if err == nil {
				i.data, err = openTerms(seq, i.words, i.data)
			}
			i.key.hash = keyHash(key)
			i.ttl = ttl != 0
			i.live = !i.ttl && i.name != "" && database.Intact(named, database.NameSum(i.key.space, []byte(i.name)))
			read[seq] = i
			return err
		})
	return read, err
}
