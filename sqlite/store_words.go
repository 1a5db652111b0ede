package sqlite

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"

	"github.com/treadle-go/treadle/internal/saved"
	"github.com/treadle-go/treadle/store"
)

// The terms of a record are, for each, its length (uvarint), its bytes and how
// often it occurs (uvarint), in the order of their bytes.

// encodeTerms returns them, and how many words they are in all.
func encodeTerms(terms []store.Term) (data []byte, words int) {
	for _, t := range terms {
		data = saved.AppendBytes(data, []byte(t.Text))
		data = binary.AppendUvarint(data, uint64(t.Count))
		words += t.Count
	}
	return data, words
}

// eachTerm calls do with the terms of a record.
func eachTerm(data []byte, do func(text []byte, count int)) error {
	r := saved.Reader{Rest: data}
	for len(r.Rest) > 0 && !r.Bad {
		text := r.Bytes()
		do(text, int(r.Int()))
	}
	if r.Bad {
		return fmt.Errorf("%w: the terms of an item are unreadable", ErrDamaged)
	}
	return nil
}

// countTerms says how often a record has each of the wanted terms, which are
// sorted, and how many of them it has.
func countTerms(data []byte, wanted []string) (counts []int, different int, err error) {
	counts = make([]int, len(wanted))
	i := 0
	err = eachTerm(data, func(text []byte, count int) {
		for i < len(wanted) && wanted[i] < string(text) {
			i++
		}
		if i < len(wanted) && wanted[i] == string(text) {
			counts[i] = count
			different++
		}
	})
	return counts, different, err
}

// foldEvery is how many records are written before their words go into the index
// together: a commit that changes the index costs as much as twenty that do not.
// Those in between are looked through one by one.
const foldEvery = 64

// fold brings the index of words up to date if it is time.
func (w *writing) fold() error {
	if w.first == 0 || w.last/foldEvery == (w.first-1)/foldEvery {
		return nil
	}
	var folded int64
	if _, err := w.c.row("SELECT folded FROM store_state", nil, &folded); err != nil {
		return err
	}
	// They are few, or were in this batch.
	type item struct {
		seq, space int64
		terms      []byte
	}
	var items []item
	err := w.c.each("SELECT r.seq, r.space, r.terms FROM store_under u CROSS JOIN store_record r WHERE r.seq=u.seq AND u.space=0 AND u.seq>? AND r.words>0", []any{folded},
		func(scan func(...any) error) error {
			var i item
			err := scan(&i.seq, &i.space, &i.terms)
			items = append(items, i)
			return err
		})
	if err != nil {
		return err
	}
	for _, i := range items {
		if err := w.addWords(i.seq, i.space, i.terms); err != nil {
			return err
		}
	}
	for _, q := range []string{"DELETE FROM store_words WHERE rowid IN (SELECT seq FROM store_unword)", "DELETE FROM store_unword"} {
		if _, err := w.c.change(q); err != nil {
			return err
		}
	}
	_, err = w.c.change("UPDATE store_state SET folded=?", w.last)
	return err
}

// addWords adds the words of an item to the index.
func (w *writing) addWords(seq, space int64, terms []byte) error {
	var name string
	if _, err := w.c.row("SELECT name FROM store_space WHERE id=?", []any{space}, &name); err != nil {
		return err
	}
	n, err := store.DecodeNamespace(name)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	place, err := w.places.of(n)
	if err != nil {
		return err
	}
	var b []byte
	for _, id := range place {
		b = append(appendSpaceWord(b, id), ' ')
	}
	if err := eachTerm(terms, func(text []byte, _ int) { b = append(append(b, text...), ' ') }); err != nil {
		return err
	}
	_, err = w.c.change("INSERT INTO store_words(rowid,words) VALUES(?,?)", seq, string(b))
	return err
}

// appendSpaceWord is the word that all items under a namespace have. No other
// word begins like this.
func appendSpaceWord(b []byte, id int64) []byte { return strconv.AppendInt(append(b, '_'), id, 10) }

// matching are the items that have words of a query.
func (l *look) matching(q *store.Query, s scope) ([]store.Candidate, error) {
	if l.past {
		return l.matchingThen(q, s)
	}
	few, err := l.few(s)
	if err != nil {
		return nil, err
	}
	if few != nil {
		s.past = few // there is no need for an index
		return l.matchingThen(q, s)
	}
	matches, err := l.matches(q, s)
	if err != nil {
		return nil, err
	}
	// The index may have items that have ended, and those of other namespaces.
	from, to := saved.Span(s.name)
	const selected = "FROM json_each(?) j CROSS JOIN store_record r LEFT JOIN store_life l ON l.seq=r.seq WHERE r.seq=j.value AND l.ended IS NULL AND " + isLive +
		" AND (r.space=? OR EXISTS (SELECT 1 FROM store_space s WHERE s.id=r.space AND s.name>=? AND s.name<?))"
	var all []store.Candidate
	for page := range matches.best() {
		before := len(all)
		err := l.candidates(q, selected, []any{list(page), l.at, s.id, from, to}, func(c store.Candidate, _ int) { all = append(all, c) })
		if err != nil {
			return nil, err
		}
		if len(all) > store.MaxMatches { // only now their order matters
			inOrder(all[before:], page)
		}
		if len(all) >= store.MaxMatches {
			return all[:store.MaxMatches], nil
		}
	}
	return all, nil
}

// inOrder puts candidates in the order of a page that they are of. It is cheaper
// than an ORDER BY, which would have the terms of all go through a sorter.
func inOrder(some []store.Candidate, page []int64) {
	at := make(map[int64]int, len(page))
	for i, seq := range page {
		at[seq] = i
	}
	slices.SortFunc(some, func(a, b store.Candidate) int { return cmp.Compare(at[a.Seq], at[b.Seq]) })
}

// few are the live items in scope, newest first, if they are few. Otherwise it
// is nil.
func (l *look) few(s scope) ([]int64, error) {
	var one int
	many, err := l.c.row("SELECT 1 FROM store_under WHERE space=? LIMIT 1 OFFSET ?", []any{-s.id, max(l.limits.few, 0)}, &one)
	if err != nil || many || l.limits.few < 0 {
		return nil, err
	}
	seqs, err := l.newestOfAll(&store.Query{Limit: l.limits.few + 1}, s)
	return slices.Concat([]int64{}, seqs), err
}

// candidates reads those of the selected records that pass the filter.
func (l *look) candidates(q *store.Query, from string, args []any, do func(c store.Candidate, different int)) error {
	columns, filtered := "SELECT r.seq, r.words, r.terms ", q.Filter().Op != ""
	if filtered {
		columns += ", r.value, r.meta "
	}
	return l.c.each(columns+from, args, func(scan func(...any) error) error {
		var c store.Candidate
		var terms, value, meta []byte
		dest := []any{&c.Seq, &c.Length, &terms, &value, &meta}
		if !filtered {
			dest = dest[:3]
		}
		if err := scan(dest...); err != nil {
			return err
		}
		passes, err := l.passes(q, value, meta)
		if err != nil || !passes {
			return err
		}
		var different int
		if c.Counts, different, err = countTerms(terms, q.Terms); err == nil && different > 0 {
			do(c, different)
		}
		return err
	})
}

// matchingThen is matching at a time in the past, which has no index.
func (l *look) matchingThen(q *store.Query, s scope) ([]store.Candidate, error) {
	type counted struct {
		store.Candidate
		different int
	}
	var all []counted
	for page := range slices.Chunk(s.past, pageSize) {
		err := l.candidates(q, "FROM json_each(?) j CROSS JOIN store_record r WHERE r.seq=j.value ORDER BY j.id", []any{list(page)},
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

// matches are all items in scope that have words of a query, with how many they
// have. Some of them may have ended or be elsewhere.
func (l *look) matches(q *store.Query, s scope) (*tally, error) {
	within, err := l.narrow(s)
	if err != nil {
		return nil, err
	}
	now, err := l.c.edition()
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

// lateWords adds the matches that the index does not have yet.
func (l *look) lateWords(q *store.Query, s scope, now edition, matches *tally) error {
	return l.c.each(`SELECT r.seq, r.terms FROM store_under u CROSS JOIN store_record r
		WHERE r.seq=u.seq AND u.space=? AND u.seq>? AND r.words>0 ORDER BY u.seq`, []any{-s.id, now.folded},
		func(scan func(...any) error) error {
			var seq int64
			var terms []byte
			if err := scan(&seq, &terms); err != nil {
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
	// probes is how many items are looked at to see how large a namespace is.
	probes = 32
	// narrowBelow is how many of them are in it if it is not.
	narrowBelow = 8
)

// narrow is what to add to a query of the index to get only what is in scope:
// nothing if that is a good part of all, since then it is faster to pass over
// the rest than to have the index intersect.
func (l *look) narrow(s scope) (string, error) {
	if s.id == 0 {
		return "", nil
	}
	last, err := l.c.lastSeq()
	if err != nil {
		return "", err
	}
	at := make([]int64, probes)
	for i := range at {
		at[i] = last / probes * int64(i)
	}
	var n int
	_, err = l.c.row(`SELECT count(*) FROM json_each(?) j CROSS JOIN store_under u
		WHERE u.space=? AND u.seq=(SELECT min(seq) FROM store_under WHERE space=0 AND seq>=j.value)`, []any{list(at), -s.id}, &n)
	if err != nil || n >= narrowBelow {
		return "", err
	}
	return string(append(appendSpaceWord([]byte(`"`), s.id), `" AND `...)), nil
}
