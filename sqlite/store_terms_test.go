package sqlite

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/treadle-go/treadle/store"
)

// What is asked for again and again stays, and all together take no more than
// they may.
func TestTermsThatAreWantedStay(t *testing.T) {
	t.Parallel()
	one := itemTerms{words: 1, data: []byte("x")}
	k := keptTerms{most: 20 * one.size()}
	for seq := range int64(200) {
		k.keep([]int64{seq}, map[int64]itemTerms{seq: one}, edition{})
		if _, missing := k.get([]int64{0}, edition{}); missing != nil {
			t.Fatalf("after %d others the words of an item are gone that was asked for each time", seq)
		}
		if n := len(k.young) + len(k.old); n > 20 || k.bytes != len(k.young)*one.size() {
			t.Fatalf("it has the words of %d items, with %d bytes of the %d youngest", n, k.bytes, len(k.young))
		}
	}
	if found, missing := k.get([]int64{1, 199}, edition{}); !slices.Equal(missing, []int64{1}) || len(found) != 1 {
		t.Errorf("it has %v and lacks %v", found, missing)
	}
}

// The words of an item that got others are those of the edition that is asked for,
// or none.
func TestTermsAreOfTheirEdition(t *testing.T) {
	t.Parallel()
	k := keptTerms{most: termsBytes}
	keep := func(words int, of int64) {
		k.keep([]int64{1}, map[int64]itemTerms{1: {words: words}}, edition{reworded: of})
	}
	keep(1, 1)
	keep(2, 2)
	keep(1, 1) // by a transaction that began long ago
	for of, want := range map[int64]int{1: 0, 2: 2, 3: 0} {
		found, missing := k.get([]int64{1}, edition{reworded: of})
		if found[1].words != want || len(found)+len(missing) != 1 {
			t.Errorf("edition %d has %v and lacks %v", of, found, missing)
		}
	}
}

// An item that is not in the index yet is ranked by the words it has now.
func TestNewWordsOfALateItemCount(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	reader, writer := open(t, path, nil), open(t, path, nil)
	eager(reader.backend)
	oldWays := &store.Options{Fields: []string{"old"}}
	renewed := storeOf(t, writer, &store.Options{Fields: []string{"new"}})
	put(t, renewed, ada, "first", value{"new": "nothing"}, nil)
	put(t, storeOf(t, writer, oldWays), ada, "second", value{"old": "acorn", "new": "oak oak acorn"}, nil)
	s := storeOf(t, reader, oldWays)
	score := func() float64 {
		items, err := s.Search(t.Context(), ada, &store.SearchOptions{Query: "acorn oak"})
		if err != nil || len(items) != 1 || items[0].Key != "second" {
			t.Fatalf("found %v, %v", items, err)
		}
		return items[0].Score
	}
	before := score()
	if _, err := renewed.Reindex(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := score(); after <= before {
		t.Errorf("with two words of the query its score is %v, with one it was %v", after, before)
	}
}
