package items

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/treadle-go/treadle/store"
)

// matching returns the items that contain words of a query.
func (l *look) matching(q *store.Query, s scope) ([]store.Candidate, error) {
	if l.past {
		return l.matchingThen(q, s)
	}
	few := s.few
	if few == nil {
		var err error
		if few, err = l.few(s); err != nil {
			return nil, err
		}
	}
	if few != nil {
		s.past = few // no index needed
		return l.matchingThen(q, s)
	}
	now, err := editionOf(l.c)
	if err != nil {
		return nil, err
	}
	matches, err := l.matches(q, s, now)
	if err != nil {
		return nil, err
	}
	all := make([]store.Candidate, 0, store.MaxMatches)
	left := store.MaxMatches
	for page := range matches.best(store.MaxMatches) {
		if l.decision != nil {
			page = slices.DeleteFunc(slices.Clone(page), func(seq int64) bool { return !l.decision.pass(seq) })
		} else if l.filters(q) { // often, only few items pass
			if page, err = l.among(q, s, page); err != nil {
				return nil, err
			}
		}
		page, items, err := l.items(s, page, now)
		if err != nil {
			return nil, err
		}
		page = page[:min(left, len(page))]
		some, err := counted(q, page, items)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
		left -= len(page)
		if left == 0 {
			break
		}
	}
	return all, nil
}

// among returns the given items, in order, that are in scope, live, and pass the filter:
// the index may contain others.
func (l *look) among(q *store.Query, s scope, seqs []int64) ([]int64, error) {
	if err := l.ended(); err != nil {
		return nil, err
	}
	last, err := l.last()
	if err != nil {
		return nil, err
	}
	others := map[int64]bool{}
	var ask []int64
	for j, known := range l.kept.where(seqs, s.name, last) {
		switch known {
		case unknown:
			ask = append(ask, seqs[j])
		case isElsewhere:
			others[seqs[j]] = true
		}
	}
	asked, err := l.others(s, ask)
	if err != nil {
		return nil, err
	}
	maps.Copy(others, asked)
	there := slices.DeleteFunc(slices.Clone(seqs), func(seq int64) bool { return others[seq] })
	if !l.filters(q) {
		return there, nil
	}
	var passed []int64
	err = l.values(there, func(seq int64, value, meta []byte) error {
		passes, err := l.passes(q, value, meta)
		if passes {
			passed = append(passed, seq)
		}
		return err
	})
	return passed, err
}

// others returns the given items that are not live or not in scope.
func (l *look) others(s scope, seqs []int64) (map[int64]bool, error) {
	others := map[int64]bool{}
	if len(seqs) == 0 {
		return others, nil
	}
	slices.Sort(seqs) // read the file in page order
	// There are few such items, so the query selects these.
	err := l.c.Each("SELECT j.value FROM json_each(?) j LEFT JOIN store_under u ON u.space=? AND u.seq=j.value LEFT JOIN store_life l ON l.seq=j.value"+
		" WHERE u.seq IS NULL OR NOT "+isLive, []any{list(seqs), -s.id, l.at}, func(scan func(...any) error) error {
		var seq int64
		err := scan(&seq)
		others[seq] = true
		return err
	})
	return others, err
}

// counted returns items with the number of occurrences of each query word.
func counted(q *store.Query, seqs []int64, items []*keptItem) ([]store.Candidate, error) {
	all := make([]store.Candidate, 0, len(seqs))
	room := make([]int, len(seqs)*len(q.Terms))
	for j, seq := range seqs {
		counts := room[:len(q.Terms):len(q.Terms)]
		room = room[len(q.Terms):]
		different, err := countInto(counts, items[j].data, q.Terms)
		if err != nil {
			return nil, err
		}
		if different > 0 {
			all = append(all, store.Candidate{Seq: seq, Counts: counts, Length: items[j].words})
		}
	}
	return all, nil
}

// few returns the live items in scope, newest first, if they are few. Otherwise it
// returns nil.
func (l *look) few(s scope) ([]int64, error) {
	var one int
	many, err := l.c.Row("SELECT 1 FROM store_under WHERE space=? LIMIT 1 OFFSET ?", []any{-s.id, max(l.limits.few, 0)}, &one)
	if err != nil || many || l.limits.few < 0 {
		return nil, err
	}
	seqs, err := l.newestOfAll(&store.Query{Limit: l.limits.few + 1}, s)
	return append([]int64{}, seqs...), err
}

// candidates calls do for the selected records that pass the filter and contain query
// words.
func (l *look) candidates(q *store.Query, from string, args []any, do func(c store.Candidate, different int)) error {
	columns, filtered := "SELECT j.value, r.seq, r.words, r.terms ", l.filters(q)
	if filtered {
		columns += ", r.value, r.meta, r.sum "
	}
	return l.c.Each(columns+from, args, func(scan func(...any) error) error {
		var c store.Candidate
		var terms, value, meta []byte
		var sum int64
		var there int64
		dest := []any{&c.Seq, &there, &c.Length, &terms, &value, &meta, &sum}
		if !filtered {
			dest = dest[:4]
		}
		if err := scan(dest...); err != nil {
			return err
		}
		if there == 0 {
			return missingRecord(c.Seq)
		}
		if filtered {
			if err := l.verifyValue(c.Seq, true, value, meta, sum); err != nil {
				return err
			}
		}
		passes, err := l.passes(q, value, meta)
		if err != nil || !passes {
			return err
		}
		if terms, err = openTerms(c.Seq, c.Length, terms); err != nil {
			return err
		}
		var different int
		if c.Counts, different, err = countTerms(terms, q.Terms); err == nil && different > 0 {
			do(c, different)
		}
		return err
	})
}

// matchingThen is like matching, but scans the records in s.past. It serves past states,
// which have no index, and small scopes.
func (l *look) matchingThen(q *store.Query, s scope) ([]store.Candidate, error) {
	type counted struct {
		store.Candidate
		different int
	}
	var all []counted
	for page := range slices.Chunk(s.past, pageSize) {
		err := l.candidates(q, "FROM json_each(?) j LEFT JOIN store_record r ON r.seq=j.value ORDER BY j.id", []any{list(page)},
			func(c store.Candidate, different int) { all = append(all, counted{c, different}) })
		if err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(all, func(a, b counted) int { return cmp.Compare(b.different, a.different) })
	out := make([]store.Candidate, min(len(all), store.MaxMatches))
	for i := range out {
		out[i] = all[i].Candidate
	}
	return out, nil
}

// matches counts the query words of all items in scope that contain any. Some of the
// items may have ended or be out of scope.
func (l *look) matches(q *store.Query, s scope, now edition) (*tally, error) {
	within, err := l.narrow(s)
	if err != nil {
		return nil, err
	}
	lists := make([]*seqList, len(q.Terms))
	for i, t := range q.Terms {
		if lists[i], err = l.having(within+`"`+t+`"`, now); err != nil {
			return nil, err
		}
	}
	matches := tallied(lists)
	return matches, l.lateWords(q, s, now, matches)
}

// lateWords adds the matches that are not in the index yet.
func (l *look) lateWords(q *store.Query, s scope, now edition, matches *tally) error {
	return l.c.Each(`SELECT u.seq, r.seq, r.words, r.terms FROM store_under u LEFT JOIN store_record r ON r.seq=u.seq
		WHERE u.space=? AND u.seq>? AND (r.words>0 OR r.seq IS NULL) ORDER BY u.seq`, []any{-s.id, now.folded},
		func(scan func(...any) error) error {
			var seq, there int64
			var words int
			var terms []byte
			err := scan(&seq, &there, &words, &terms)
			if err == nil && there == 0 {
				err = missingRecord(seq)
			}
			if err == nil {
				terms, err = openTerms(seq, words, terms)
			}
			if err != nil {
				return err
			}
			_, different, err := countTerms(terms, q.Terms)
			if different > 0 {
				matches.add(seq, int32(different))
			}
			return err
		})
}

const (
	// probes is the number of items sampled to estimate the size of a namespace.
	probes = 32
	// narrowBelow is the number of probes in a namespace below which the namespace counts
	// as small.
	narrowBelow = 8
)

// narrow returns the prefix that restricts a query of the index to the scope. It is empty
// if the scope contains a large share of all items, because skipping the others is then
// faster than intersecting in the index.
func (l *look) narrow(s scope) (string, error) {
	if s.id == 0 {
		return "", nil
	}
	last, err := l.last()
	if err != nil {
		return "", err
	}
	if within, ok := l.narrowed.get(s.id, last); ok {
		return within, nil
	}
	at := make([]int64, probes)
	for i := range at {
		at[i] = last / probes * int64(i)
	}
	var n int
	_, err = l.c.Row(`SELECT count(*) FROM json_each(?) j CROSS JOIN store_under u
		WHERE u.space=? AND u.seq=(SELECT min(seq) FROM store_under WHERE space=0 AND seq>=j.value)`, []any{list(at), -s.id}, &n)
	within := ""
	if n < narrowBelow {
		within = string(append(appendSpaceWord([]byte(`"`), s.id), `" AND `...))
	}
	if err == nil {
		l.narrowed.set(s.id, last, within)
	}
	return within, err
}

// narrowings caches the prefixes last used for each namespace. They only affect speed, so
// they may be slightly outdated.
type narrowings struct {
	mu sync.Mutex
	by map[int64]narrowing
}

type narrowing struct {
	last   int64 // the number of the last record at that time
	within string
}

// narrowedMost is the maximum number of cached namespaces.
const narrowedMost = 1024

func (n *narrowings) get(space, last int64) (within string, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	was, ok := n.by[space]
	return was.within, ok && last >= was.last && last-was.last <= was.last/16
}

func (n *narrowings) set(space, last int64, within string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.by == nil || len(n.by) >= narrowedMost {
		n.by = map[int64]narrowing{}
	}
	n.by[space] = narrowing{last, within}
}
