package sqlite

import (
	"context"
	"fmt"
	"testing"

	"github.com/treadle-go/treadle/store"
)

// checkShelf checks what must hold of the store's tables after every
// transaction.
func checkShelf(t testing.TB, db *DB) {
	t.Helper()
	err := db.write(context.WithoutCancel(t.Context()), func(c *conn) error {
		// This comes first, because it looks whether another process has changed the
		// index. The pragma does not, and takes what it remembers for the truth.
		if err := c.script("INSERT INTO store_words(store_words) VALUES('integrity-check')"); err != nil {
			return fmt.Errorf("the index of words: %w", err)
		}
		var verdict string
		if _, err := c.row("PRAGMA integrity_check", nil, &verdict); err != nil || verdict != "ok" {
			return fmt.Errorf("integrity check: %q, %w", verdict, err)
		}
		const current = "(SELECT max(seq) seq FROM store_record WHERE key<>x'' GROUP BY space, key)"
		const items = "(SELECT r.seq, r.space, r.words, r.stamp FROM " + current + " m JOIN store_record r ON r.seq=m.seq WHERE r.kind=1)"
		for what, query := range map[string]string{
			"record without a namespace":            "SELECT seq FROM store_record WHERE space NOT IN (SELECT id FROM store_space)",
			"life of nothing":                       "SELECT seq FROM store_life WHERE seq NOT IN (SELECT seq FROM store_record)",
			"item that has ended":                   "SELECT seq FROM store_life WHERE ended IS NOT NULL AND seq IN (SELECT seq FROM " + items + ")",
			"record of the past that has not ended": "SELECT seq FROM store_record WHERE seq NOT IN (SELECT seq FROM " + items + ") AND seq NOT IN (SELECT seq FROM store_life WHERE ended IS NOT NULL)",
			"item that is not listed at all":        "SELECT seq FROM " + items + " WHERE seq NOT IN (SELECT seq FROM store_under WHERE space=0)",
			"item that is not in its namespace":     "SELECT seq FROM " + items + " i WHERE NOT EXISTS (SELECT 1 FROM store_under WHERE space=i.space AND seq=i.seq)",
			"listing of what is no item":            "SELECT seq FROM store_under WHERE seq NOT IN (SELECT seq FROM " + items + ")",
			"listing in no namespace":               "SELECT seq FROM store_under WHERE space<>0 AND abs(space) NOT IN (SELECT id FROM store_space)",
			"vector of nothing":                     "SELECT seq FROM store_vector WHERE seq NOT IN (SELECT seq FROM store_record)",
			"vector of an item that is history":     "SELECT seq FROM store_vector WHERE id<0 AND seq IN (SELECT seq FROM " + items + ")",
			"vector of history that is an item's":   "SELECT seq FROM store_vector WHERE id>0 AND seq NOT IN (SELECT seq FROM " + items + ")",
			"vector with another stamp":             "SELECT v.seq FROM store_vector v JOIN store_record r ON r.seq=v.seq WHERE v.stamp IS NOT r.stamp",
			"namespace for nothing":                 "SELECT id FROM store_space s WHERE NOT EXISTS (SELECT 1 FROM store_record r JOIN store_space n ON n.id=r.space WHERE substr(n.name,1,length(s.name))=s.name) AND EXISTS (SELECT 1 FROM store_under WHERE space=-s.id)",
		} {
			var seq int64
			if ok, err := c.row(query, nil, &seq); err != nil {
				return fmt.Errorf("%s: %w", what, err)
			} else if ok {
				t.Errorf("there is a %s: %d", what, seq)
			}
		}
		return checkItems(t, c, items)
	})
	if err != nil {
		t.Error(err)
	}
}

// checkItems checks where each item is listed, and that the index of words has
// its words and no other item's.
func checkItems(t testing.TB, c *conn, items string) error {
	type item struct {
		seq   int64
		name  string
		terms []byte
	}
	var all []item
	err := c.each("SELECT i.seq, s.name, r.terms FROM "+items+" i JOIN store_record r ON r.seq=i.seq JOIN store_space s ON s.id=i.space", nil, func(scan func(...any) error) error {
		var i item
		err := scan(&i.seq, &i.name, &i.terms)
		all = append(all, i)
		return err
	})
	if err != nil {
		return err
	}
	var folded int64
	if _, err := c.row("SELECT folded FROM store_state", nil, &folded); err != nil {
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
			if ok, err := c.row("SELECT 1 FROM store_under WHERE space=? AND seq=?", []any{-id, i.seq}, &one); err != nil || !ok {
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
			if ok, err := c.row("SELECT 1 FROM store_words WHERE store_words MATCH ? AND rowid=?", []any{query, i.seq}, &one); err != nil || !ok {
				t.Errorf("item %d is not found by its word %q: %v", i.seq, w, err)
			}
		}
	}
	return nil
}
