package sqlite

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/treadle-go/treadle/store"
)

// The terms of a record are, for each, its length (uvarint), its bytes and how
// often it occurs (uvarint), in the order of their bytes.

// encodeTerms returns them, and how many words they are in all.
func encodeTerms(terms []store.Term) (data []byte, words int) {
	for _, t := range terms {
		data = appendBytes(data, []byte(t.Text))
		data = binary.AppendUvarint(data, uint64(t.Count))
		words += t.Count
	}
	return data, words
}

// eachTerm calls do with the terms of a record.
func eachTerm(data []byte, do func(text []byte, count int)) error {
	r := reader{rest: data}
	for len(r.rest) > 0 && !r.bad {
		text := r.bytes()
		do(text, int(r.int()))
	}
	if r.bad {
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

// A match is an item that has words of a query.
type match struct {
	seq       int64
	different int // how many of the words
}

// matching are the items that have words of a query.
func (l *look) matching(q *store.Query, s scope) ([]store.Candidate, error) {
	if l.past {
		return l.matchingThen(q, s)
	}
	matches, err := l.matches(q, s)
	if err != nil {
		return nil, err
	}
	var all []store.Candidate
	for page := range slices.Chunk(matches, pageSize) {
		seqs := make([]int64, len(page))
		for i, m := range page {
			seqs[i] = m.seq
		}
		// The index may have items that have ended, which are not under anything.
		err := l.candidates(q, "FROM json_each(?) j CROSS JOIN "+recordTables+" WHERE r.seq=j.value AND l.ended IS NULL AND "+isLive+" ORDER BY j.id", []any{list(seqs), l.at},
			func(c store.Candidate, _ int) { all = append(all, c) })
		if err != nil {
			return nil, err
		}
		if len(all) >= store.MaxMatches {
			return all[:store.MaxMatches], nil
		}
	}
	return all, nil
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
		if filtered && !q.Match(value, meta) {
			return nil
		}
		var different int
		var err error
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

// matches are all items in scope that have words of a query, those with the most
// first, equal ones newest first. Some of them may have ended.
func (l *look) matches(q *store.Query, s scope) ([]match, error) {
	var folded int64
	if _, err := l.c.row("SELECT folded FROM store_state", nil, &folded); err != nil {
		return nil, err
	}
	// What the index does not have yet.
	var matches []match
	err := l.c.each("SELECT r.seq, r.terms FROM store_under u CROSS JOIN store_record r WHERE r.seq=u.seq AND u.space=? AND u.seq>? AND r.words>0", []any{-s.id, folded},
		func(scan func(...any) error) error {
			var seq int64
			var terms []byte
			if err := scan(&seq, &terms); err != nil {
				return err
			}
			_, different, err := countTerms(terms, q.Terms)
			if different > 0 {
				matches = append(matches, match{seq, different})
			}
			return err
		})
	if err != nil {
		return nil, err
	}
	var indexed []int64
	for _, t := range q.Terms {
		seqs, err := l.having(t, s)
		if err != nil {
			return nil, err
		}
		indexed = append(indexed, seqs...)
	}
	slices.Sort(indexed)
	for i := 0; i < len(indexed); {
		n := 1
		for i+n < len(indexed) && indexed[i+n] == indexed[i] {
			n++
		}
		matches = append(matches, match{indexed[i], n})
		i += n
	}
	slices.SortFunc(matches, func(a, b match) int {
		return cmp.Or(cmp.Compare(b.different, a.different), cmp.Compare(b.seq, a.seq))
	})
	return matches, nil
}

// having are the items in scope that have a word, by the index. They come as one
// text: as rows they would take three times as long.
func (l *look) having(term string, s scope) ([]int64, error) {
	var query []byte
	if s.id != 0 {
		query = append(query, '"')
		query = append(appendSpaceWord(query, s.id), `" AND `...)
	}
	query = append(append(append(query, '"'), term...), '"')
	var joined string
	if _, err := l.c.row("SELECT group_concat(rowid) FROM store_words WHERE store_words MATCH ?", []any{string(query)}, &joined); err != nil || joined == "" {
		return nil, err
	}
	seqs := make([]int64, 0, strings.Count(joined, ",")+1)
	for number := range strings.SplitSeq(joined, ",") {
		seq, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, err
		}
		seqs = append(seqs, seq)
	}
	return seqs, nil
}
