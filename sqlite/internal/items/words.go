package items

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"

	"github.com/treadle-go/treadle/internal/saved"
	"github.com/treadle-go/treadle/sqlite/internal/database"
	"github.com/treadle-go/treadle/store"
)

// The encoding of a record's terms is, for each term, its length (uvarint), its bytes,
// and its number of occurrences (uvarint), sorted by the terms' bytes.

// encodeTerms returns the encoded terms and the total number of words.
func encodeTerms(terms []store.Term) (data []byte, words int) {
	for _, t := range terms {
		data = saved.AppendBytes(data, []byte(t.Text))
		data = binary.AppendUvarint(data, uint64(t.Count))
		words += t.Count
	}
	return data, words
}

// sealTerms prefixes the encoded terms of a record with a checksum of four bytes.
func sealTerms(seq int64, words int, data []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(nil, termsSum(seq, words, data)), data...)
}

// openTerms verifies and removes the checksum that sealTerms added.
func openTerms(seq int64, words int, data []byte) ([]byte, error) {
	if len(data) >= 4 && binary.LittleEndian.Uint32(data) == termsSum(seq, words, data[4:]) {
		return data[4:], nil
	}
	return nil, database.Changed("terms of store record %d", seq)
}

// eachTerm calls do for each encoded term.
func eachTerm(data []byte, do func(text []byte, count int)) error {
	r := saved.Reader{Rest: data}
	for len(r.Rest) > 0 && !r.Bad {
		text := r.Bytes()
		do(text, int(r.Int()))
	}
	if r.Bad {
		return fmt.Errorf("%w: unreadable terms", database.ErrDamaged)
	}
	return nil
}

// countTerms returns the number of occurrences of each wanted term in a record, and the
// number of different wanted terms that occur. The wanted terms must be sorted.
func countTerms(data []byte, wanted []string) (counts []int, different int, err error) {
	counts = make([]int, len(wanted))
	different, err = countInto(counts, data, wanted)
	return counts, different, err
}

// countInto is like countTerms, but stores the counts in a slice of zeros.
func countInto(counts []int, data []byte, wanted []string) (different int, err error) {
	i := 0
	for len(data) > 0 && i < len(wanted) {
		// Fast path without function calls for short words with few occurrences, which
		// are nearly all words.
		n := 1 + int(data[0])
		if n > 0x80 || n >= len(data) || data[n] >= 0x80 {
			break
		}
		for i < len(wanted) && wanted[i] < string(data[1:n]) {
			i++
		}
		if i < len(wanted) && wanted[i] == string(data[1:n]) {
			counts[i] = int(data[n])
			different++
			i++
		}
		data = data[n+1:]
	}
	r := saved.Reader{Rest: data}
	for len(r.Rest) > 0 && !r.Bad && i < len(wanted) {
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
		return 0, fmt.Errorf("%w: unreadable terms", database.ErrDamaged)
	}
	return different, nil
}

// foldEvery is the number of records after which their words are added to the index
// together: a commit that changes the index costs as much as twenty that do not. Searches
// scan the records in between one by one.
const foldEvery = 64

// fold updates the word index if that is due.
func (w *writing) fold() error {
	if w.first == 0 || w.last/foldEvery == (w.first-1)/foldEvery {
		return nil
	}
	folded, compacted, err := storeState(w.c)
	if err != nil {
		return err
	}
	// These are few, or were written by this batch.
	items, err := folding(w.c, folded)
	if err != nil {
		return err
	}
	for _, i := range slices.Backward(items) {
		if err := w.addLeavesOf(i); err != nil {
			return err
		}
	}
	for _, i := range items {
		if len(i.terms) == 0 {
			continue
		}
		if err := w.addWords(i.seq, i.space, i.terms); err != nil {
			return err
		}
	}
	if _, err := w.dropWords(); err != nil {
		return err
	}
	return setStoreState(w.c, w.last, compacted)
}

// A foldedItem is an item to be added to the index.
type foldedItem struct {
	seq, space   int64
	terms, value []byte
}

// folding returns the items after a number, in ascending order.
func folding(c *database.Conn, after int64) (items []foldedItem, err error) {
	err = c.Each("SELECT r.seq, r.space, r.words, r.terms, r.value FROM store_under u CROSS JOIN store_record r WHERE r.seq=u.seq AND u.space=0 AND u.seq>? ORDER BY u.seq", []any{after},
		func(scan func(...any) error) error {
			var i foldedItem
			var words int
			err := scan(&i.seq, &i.space, &words, &i.terms, &i.value)
			if err == nil && words == 0 {
				i.terms = nil
			} else if err == nil {
				i.terms, err = openTerms(i.seq, words, i.terms)
			}
			items = append(items, i)
			return err
		})
	return items, err
}

// dropWords removes the words of removed items from the index. It reports whether the
// index contained any, apart from the hashes of their values.
func (w *writing) dropWords() (had bool, err error) {
	n, err := w.c.Change("DELETE FROM store_words WHERE rowid IN (SELECT item FROM store_unword)")
	if err != nil {
		return false, err
	}
	if _, err := w.c.Change("DELETE FROM store_words WHERE rowid IN (SELECT -item FROM store_unword)"); err != nil {
		return false, err
	}
	_, err = w.c.Change("DELETE FROM store_unword")
	return n > 0, err
}

// unword removes the words of forgotten items. It also merges the segments of the index,
// because the index otherwise only marks the words as deleted.
func (w *writing) unword() error {
	if had, err := w.dropWords(); err != nil || !had {
		return err
	}
	_, err := w.c.Change("INSERT INTO store_words(store_words) VALUES('optimize')")
	return err
}

// placeOf returns the IDs of a namespace and its ancestors.
func (w *writing) placeOf(space int64) ([]int64, error) {
	if place, ok := w.placeByID[space]; ok {
		return place, nil
	}
	var name string
	if _, err := w.c.Row("SELECT name FROM store_space WHERE id=?", []any{space}, &name); err != nil {
		return nil, err
	}
	n, err := store.DecodeNamespace(name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", database.ErrDamaged, err)
	}
	place, err := w.places.of(n)
	if err == nil {
		if w.placeByID == nil {
			w.placeByID = map[int64][]int64{}
		}
		w.placeByID[space] = place
	}
	return place, err
}

// addWords adds the words of an item to the index.
func (w *writing) addWords(seq, space int64, terms []byte) error {
	place, err := w.placeOf(space)
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
	_, err = w.c.Change("INSERT INTO store_words(rowid,words) VALUES(?,?)", seq, string(b))
	return err
}

// appendSpaceWord appends the word that marks all items under a namespace. No other word
// starts with the same character.
func appendSpaceWord(b []byte, id int64) []byte { return strconv.AppendInt(append(b, '_'), id, 10) }
