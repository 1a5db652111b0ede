package items

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/treadle-go/treadle/internal/saved"
	"github.com/treadle-go/treadle/postgres/internal/database"
	"github.com/treadle-go/treadle/store"
)

// The encoding of a record's terms is, for each term, its length (uvarint), its bytes,
// and its number of occurrences (uvarint), sorted by the terms' bytes.

// encodeTerms returns the encoded terms and the total number of words.
func encodeTerms(terms []store.Term) (data []byte, words int) {
	for _, t := range terms {
		data = saved.AppendBytes(data, t.Text)
		data = binary.AppendUvarint(data, uint64(t.Count))
		words += t.Count
	}
	return data, words
}

// countTerms returns the number of occurrences of each wanted term in a record, and the
// number of different wanted terms that occur. The wanted terms must be sorted.
func countTerms(data []byte, wanted []string) (counts []int, different int, err error) {
	counts = make([]int, len(wanted))
	r := saved.Reader{Rest: data}
	for i := 0; len(r.Rest) > 0 && !r.Bad; {
		text := r.Bytes()
		count := int(r.Int())
		for i < len(wanted) && wanted[i] < string(text) {
			i++
		}
		if i < len(wanted) && wanted[i] == string(text) {
			counts[i] = count
			different++
		}
	}
	if r.Bad {
		return nil, 0, fmt.Errorf("%w: unreadable terms of an item", database.ErrDamaged)
	}
	return counts, different, nil
}

// A match is an item that contains words of a query.
type match struct {
	store.Candidate
	different int // number of different query words
}

// matching returns the items that contain words of a query, those with the most different
// words first. The word index finds the items of each word (lists.go), and the
// words are counted from these lists.
func (l *look) matching(q *store.Query, s scope) ([]store.Candidate, error) {
	if l.past {
		return l.wordsOf(q, "FROM {schema}.store_record r WHERE r.seq = ANY ($1) AND r.words > 0 ORDER BY r.seq DESC", s.past)
	}
	few, err := l.fewItems(s)
	if err != nil {
		return nil, err
	}
	if few {
		return l.wordsOf(q, "FROM {schema}.store_item i JOIN "+recordTables+" ON r.seq = i.seq WHERE i.name >= $2 AND i.name < $3 AND r.words > 0 AND "+
			isLive+s.narrowed(4)+" ORDER BY r.seq DESC", append([]any{l.at, s.from, s.to}, s.args...)...)
	}
	if s.sql != "" {
		return l.matchingFew(q, s)
	}
	counts, err := l.tallied(q.Terms, s)
	if err != nil {
		return nil, err
	}
	var all []store.Candidate
	for page := range counts.best(store.MaxMatches) {
		rows := 0
		err := l.candidates(q, `FROM unnest($2::bigint[]) WITH ORDINALITY AS m(seq, n) JOIN {schema}.store_item i ON i.seq = m.seq JOIN `+recordTables+
			" ON r.seq = m.seq WHERE i.name >= $3 AND i.name < $4 AND "+isLive+" ORDER BY m.n", []any{l.at, page, s.from, s.to}, &rows, func(m match) {
			all = append(all, m.Candidate)
		})
		if err != nil {
			return nil, err
		}
		if rows < len(page)/2 {
			l.p.backend.lists.clear() // most of their items are gone
		}
		if len(all) >= store.MaxMatches {
			break
		}
	}
	return all[:min(len(all), store.MaxMatches)], nil
}

// matchingFew is like matching, but for a filter that the value index can narrow, so few
// items remain.
func (l *look) matchingFew(q *store.Query, s scope) ([]store.Candidate, error) {
	terms := make([][]byte, len(q.Terms))
	for i, t := range q.Terms {
		terms[i] = []byte(t)
	}
	var all []store.Candidate
	// With a filter, the first limit may be too low; then read all.
	for _, limit := range []any{store.MaxMatches, nil} {
		rows := 0
		all = nil
		err := l.candidates(q, `FROM (SELECT i.seq, count(*) AS n FROM unnest($2::bytea[]) AS t(word) JOIN {schema}.store_item i ON i.words @> ARRAY[t.word]
				LEFT JOIN {schema}.store_life l ON l.seq = i.seq WHERE i.name >= $3 AND i.name < $4 AND `+isLive+s.narrowed(6)+`
				GROUP BY i.seq ORDER BY n DESC, i.seq DESC LIMIT $5) m JOIN {schema}.store_record r ON r.seq = m.seq ORDER BY m.n DESC, m.seq DESC`,
			append([]any{l.at, terms, s.from, s.to, limit}, s.args...), &rows, func(m match) { all = append(all, m.Candidate) })
		if err != nil {
			return nil, err
		}
		if rows < store.MaxMatches || len(all) >= store.MaxMatches {
			break
		}
	}
	return all[:min(len(all), store.MaxMatches)], nil
}

// candidates calls do for the selected records that pass the filter and contain query
// words. It adds the number of all selected records to rows.
func (l *look) candidates(q *store.Query, from string, args []any, rows *int, do func(match)) error {
	var m match
	var terms, value, meta []byte
	columns, dest := "SELECT r.seq, r.words, r.terms ", []any{&m.Seq, &m.Length, &terms}
	filtered := q.Filter().Op != ""
	if filtered {
		columns, dest = columns+", r.value, r.meta ", append(dest, &value, &meta)
	}
	return l.each(columns+from, args, dest, func() (err error) {
		*rows++
		if filtered && !q.Match(value, meta) {
			return nil
		}
		if m.Counts, m.different, err = countTerms(terms, q.Terms); err == nil && m.different > 0 {
			do(m)
		}
		return err
	})
}

// fewItems is the maximum number of items to scan one by one instead of using the word
// index.
const fewItems = 1000

func (l *look) fewItems(s scope) (bool, error) {
	if l.p.backend.few != nil {
		return false, nil // in tests
	}
	var n int
	err := l.q.QueryRow(l.ctx, l.p.backend.db.In("SELECT count(*) FROM (SELECT FROM {schema}.store_item i WHERE i.name >= $1 AND i.name < $2 LIMIT $3) i"), s.from, s.to, fewItems+1).Scan(&n)
	return n <= fewItems, err
}

// wordsOf is like matching, but scans the selected records, which must be ordered newest
// first. It serves past states, which have no index, and small scopes.
func (l *look) wordsOf(q *store.Query, from string, args ...any) ([]store.Candidate, error) {
	var all []match
	rows := 0
	if err := l.candidates(q, from, args, &rows, func(m match) { all = append(all, m) }); err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b match) int { return cmp.Compare(b.different, a.different) })
	out := make([]store.Candidate, min(len(all), store.MaxMatches))
	for i := range out {
		out[i] = all[i].Candidate
	}
	return out, nil
}
