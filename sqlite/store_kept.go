package sqlite

import (
	"slices"
	"strings"
	"sync"
)

// Of each search by words a thousand items are ranked, for which their words are
// counted. They are kept in the process, since reading them means as many pages
// all over the file, and SQLite forgets its pages at every commit of others.
//
// It also keeps which of them are live and where they are. An item ends only with a
// record of its key that has a greater number, or of all of a namespace. So what ended
// since is found among the records that were written since, unless a sweep has dropped
// one of these, which store_state says.
//
//	the transaction sees the last record that it knows ──> use it
//	one with a greater number ──> read the records after it, take out what ended ──> use it
//	one with a lesser number  ──> ask the file
//
// Items with a TTL are not kept as live: their time may be up, or be extended without
// a record.

// A keptItem is an item that was ranked. Its words are its record's, which has others
// only if that is told by the edition of the index.
type keptItem struct {
	words int // how many, repetitions included
	data  []byte
	key   itemKey
	name  string // of the namespace
	ttl   bool   // it has one
	live  bool   // it is known to be; whoever holds the lock may use it
}

// An itemKey is the id of a namespace and the hash of a key.
type itemKey struct{ space, hash int64 }

func (i *keptItem) size() int { return len(i.data) + 160 }

// keptBytes bounds what the items take. A hundred thousand memories of a sentence
// have less.
const keptBytes = 32 << 20

// keptItems are the items that were ranked last: a new generation begins when one has
// taken half of the bytes, and what is still wanted of the one before goes over to it.
type keptItems struct {
	most int // bytes

	mu         sync.Mutex
	reworded   int64 // of the edition
	last       int64 // the greatest number of a record when it was last brought up to date
	young, old keptGeneration
	bytes      int              // of the young
	names      map[int64]string // of the namespaces of the young
}

type keptGeneration struct {
	items map[int64]*keptItem
	live  map[itemKey]int64 // the live ones
}

// What is known of an item.
type knowledge byte

const (
	unknown knowledge = iota
	isThere           // it is live and in scope
	isElsewhere
)

// at says what is known of an item under a name, in the state after a record.
func (k *keptItems) at(i *keptItem, name string, last int64) knowledge {
	switch {
	case !i.live || k.last != last:
		return unknown
	case strings.HasPrefix(i.name, name):
		return isThere
	}
	return isElsewhere
}

// get returns those items that it has, and what it knows of them.
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

// where says what is known of items, whatever their words are.
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

// keep keeps what was read of items in the state after a record. What is out of date
// is not kept.
func (k *keptItems) keep(read map[int64]*keptItem, of edition, last int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if of.reworded < k.reworded {
		return
	}
	if of.reworded > k.reworded {
		k.reworded, k.young, k.old, k.bytes = of.reworded, keptGeneration{}, keptGeneration{}, 0
	}
	for seq, i := range read {
		if other, ok := k.holder(i.key); last != k.last || ok && other != seq {
			i.live = false
		}
		k.add(seq, i)
	}
}

// holder is the live item of a key.
func (k *keptItems) holder(key itemKey) (seq int64, ok bool) {
	if seq, ok = k.young.live[key]; !ok {
		seq, ok = k.old.live[key]
	}
	return seq, ok
}

// add is called with the lock held.
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
		i.name = name // one string for all
	} else {
		k.names[i.key.space] = i.name
	}
	k.young.items[seq] = i
	if i.live {
		k.young.live[i.key] = seq
	}
}

// state is the number of the last record that it knows, and whether it has no items.
func (k *keptItems) state() (last int64, empty bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last, len(k.young.live)+len(k.old.live) == 0
}

// ended takes out what ended between the states after two records: an item of each of
// the keys, before the given number, or all.
func (k *keptItems) ended(before, last int64, keys map[itemKey]int64, all bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last != before { // somebody else was faster
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

// catchUpMost is up to how many records are read to see what ended.
const catchUpMost = 4096

// last brings the kept items up to date with the transaction, and returns the number of
// the last record that it sees.
func (l *look) last() (int64, error) {
	if l.seen != 0 {
		return l.seen, nil
	}
	last, err := l.c.lastSeq()
	if err != nil {
		return 0, err
	}
	if before, empty := l.kept.state(); before < last && !l.indexes.tentative {
		var keys map[itemKey]int64
		if !empty {
			if keys, empty, err = l.c.written(before, last); err != nil {
				return 0, err
			}
		}
		l.kept.ended(before, last, keys, empty)
	}
	l.seen = last
	return last, nil
}

// written are the keys of the records after one, with the greatest number of each. all
// is whether any other key may have ended.
func (c *conn) written(after, last int64) (keys map[itemKey]int64, all bool, err error) {
	_, compacted, err := c.storeState()
	if err != nil || compacted > after || last-after > catchUpMost {
		return nil, true, err
	}
	keys = map[itemKey]int64{}
	err = c.each("SELECT seq, space, key FROM store_record WHERE seq>? ORDER BY seq", []any{after}, func(scan func(...any) error) error {
		var seq, space int64
		var key string
		err := scan(&seq, &space, &key)
		if key == "" { // all of a namespace were forgotten
			all = true
		}
		keys[itemKey{space, keyHash(key)}] = seq
		return err
	})
	return keys, all, err
}

// items are those of some that are live and in scope, in their order.
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

// readItems reads items that are live and in scope.
func (l *look) readItems(s scope, seqs []int64) (map[int64]*keptItem, error) {
	read := make(map[int64]*keptItem, len(seqs))
	if len(seqs) == 0 {
		return read, nil
	}
	slices.Sort(seqs) // page after page of the file
	// Only items with a TTL have a time at which they end.
	err := l.c.each(`SELECT u.seq, r.seq, r.space, r.key, r.lifetime, r.words, r.terms, n.name, n.sum FROM json_each(?) j CROSS JOIN store_under u
		LEFT JOIN store_record r ON r.seq=u.seq LEFT JOIN store_space n ON n.id=r.space LEFT JOIN store_life l ON l.seq=iif(r.lifetime=0,NULL,r.seq)
		WHERE u.space=? AND u.seq=j.value AND `+isLive, []any{list(seqs), -s.id, l.at},
		func(scan func(...any) error) error {
			var seq, there, ttl int64
			var key string
			var named sum
			i := &keptItem{}
			err := scan(&seq, &there, &i.key.space, &key, &ttl, &i.words, &i.data, &i.name, &named)
			if err == nil && there == 0 {
				err = missingRecord(seq)
			}
			if err == nil {
				i.data, err = l.c.openTerms(seq, i.words, i.data)
			}
			i.key.hash = keyHash(key)
			i.ttl = ttl != 0
			i.live = !i.ttl && i.name != "" && l.c.intact(named, nameSum(i.key.space, []byte(i.name)))
			read[seq] = i
			return err
		})
	return read, err
}
