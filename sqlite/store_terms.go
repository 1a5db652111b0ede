package sqlite

import "sync"

// Of each search by words a thousand items are ranked, for which their words are
// counted. They are kept in the process, since reading them means as many pages
// all over the file, and SQLite forgets its pages at every commit of others.

// itemTerms are the words of an item: its record's, which has others only if
// that is told by the edition of the index.
type itemTerms struct {
	words int // how many, repetitions included
	data  []byte
}

func (t itemTerms) size() int { return len(t.data) + 64 }

// termsBytes bounds what the words of items take. A hundred thousand memories
// have less.
const termsBytes = 32 << 20

// keptTerms are the words of the items that were ranked last: a new generation
// begins when one has taken half of the bytes, and what is still wanted of the
// one before goes over to it.
type keptTerms struct {
	most int // bytes

	mu         sync.Mutex
	reworded   int64 // of the edition
	young, old map[int64]itemTerms
	bytes      int // of the young
}

// get are the words of those items that it has, and which it does not have.
func (k *keptTerms) get(seqs []int64, of edition) (terms map[int64]itemTerms, missing []int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	terms = make(map[int64]itemTerms, len(seqs))
	if of.reworded != k.reworded {
		return terms, seqs
	}
	for _, seq := range seqs {
		t, ok := k.young[seq]
		if !ok {
			if t, ok = k.old[seq]; ok {
				k.add(seq, t)
			}
		}
		if !ok {
			missing = append(missing, seq)
			continue
		}
		terms[seq] = t
	}
	return terms, missing
}

// keep keeps what was read of items, unless it is out of date.
func (k *keptTerms) keep(seqs []int64, terms map[int64]itemTerms, of edition) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if of.reworded < k.reworded {
		return
	}
	if of.reworded > k.reworded {
		k.reworded, k.young, k.old, k.bytes = of.reworded, nil, nil, 0
	}
	for _, seq := range seqs {
		k.add(seq, terms[seq])
	}
}

// add is called with the lock held.
func (k *keptTerms) add(seq int64, t itemTerms) {
	if k.young == nil || k.bytes+t.size() > k.most/2 {
		k.young, k.old, k.bytes = map[int64]itemTerms{}, k.young, 0
	}
	if _, ok := k.young[seq]; !ok {
		k.bytes += t.size()
	}
	k.young[seq] = t
}

// termsOf are the words of items.
func (l *look) termsOf(seqs []int64, now edition) (map[int64]itemTerms, error) {
	terms, missing := l.terms.get(seqs, now)
	if len(missing) == 0 {
		return terms, nil
	}
	err := l.c.each("SELECT r.seq, r.words, r.terms FROM json_each(?) j CROSS JOIN store_record r WHERE r.seq=j.value", []any{list(missing)},
		func(scan func(...any) error) error {
			var seq int64
			var t itemTerms
			err := scan(&seq, &t.words, &t.data)
			if err == nil {
				t.data, err = l.c.openTerms(seq, t.words, t.data)
			}
			terms[seq] = t
			return err
		})
	for _, seq := range missing {
		if _, ok := terms[seq]; !ok && err == nil {
			err = missingRecord(seq)
		}
	}
	if err == nil && !l.indexes.tentative {
		l.terms.keep(missing, terms, now)
	}
	return terms, err
}
