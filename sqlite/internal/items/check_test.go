package items

import (
	"context"
	"fmt"
	"testing"

	"github.com/treadle-go/treadle/sqlite/internal/database"
	"github.com/treadle-go/treadle/store"
)

// checkBackend checks what must hold of the store's tables after every
// transaction.
func checkBackend(t testing.TB, db *testDB) {
	t.Helper()
	err := db.conn.Write(context.WithoutCancel(t.Context()), func(c *database.Conn) error {
		// This comes first, because it looks whether another process has changed the
		// index. The pragma does not, and takes what it remembers for the truth.
		if err := c.Script("INSERT INTO store_words(store_words) VALUES('integrity-check')"); err != nil {
			return fmt.Errorf("the index of words: %w", err)
		}
		if err := c.Sound(); err != nil {
			return err
		}
		if err := Check(c); err != nil {
			return err
		}
		return checkItems(t, c)
	})
	if err != nil {
		t.Error(err)
	}
}

// checkItems checks where each item is listed, and that the index of words has
// its words and no other item's.
func checkItems(t testing.TB, c *database.Conn) error {
	type item struct {
		seq   int64
		name  string
		terms []byte
		words int
	}
	var all []item
	err := c.Each("SELECT i.seq, s.name, r.words, r.terms FROM "+itemRecords+" i JOIN store_record r ON r.seq=i.seq JOIN store_space s ON s.id=i.space", nil, func(scan func(...any) error) error {
		var i item
		err := scan(&i.seq, &i.name, &i.words, &i.terms)
		if err == nil {
			i.terms, err = openTerms(i.seq, i.words, i.terms)
		}
		all = append(all, i)
		return err
	})
	if err != nil {
		return err
	}
	var folded int64
	if _, err := c.Row("SELECT folded FROM store_state", nil, &folded); err != nil {
		return err
	}
	places := places{c: c}
	for at, i := range all {
		n, err := store.DecodeNamespace(i.name)
		if err != nil {
			return err
		}
		place, err := places.of(n)
		if err != nil {
			return err
		}
		for _, id := range place {
			var one int
			if ok, err := c.Row("SELECT 1 FROM store_under WHERE space=? AND seq=?", []any{-id, i.seq}, &one); err != nil || !ok {
				t.Errorf("item %d is not listed under namespace %d above it: %v", i.seq, id, err)
			}
		}
		if i.seq > folded || at%(len(all)/20+1) != 0 { // each look takes as long as there are items
			continue
		}
		var words []string
		if err := eachTerm(i.terms, func(text []byte, _ int) { words = append(words, string(text)) }); err != nil {
			return err
		}
		for _, w := range words {
			var one int
			query := string(appendSpaceWord([]byte(`"`), place[0])) + `" AND "` + w + `"`
			if ok, err := c.Row("SELECT 1 FROM store_words WHERE store_words MATCH ? AND rowid=?", []any{query, i.seq}, &one); err != nil || !ok {
				t.Errorf("item %d is not found by its word %q: %v", i.seq, w, err)
			}
		}
	}
	return nil
}
