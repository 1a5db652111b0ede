package items

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/sqlite/internal/database"
	"github.com/treadle-go/treadle/store"
)

// What is asked for again and again stays, and all together take no more than
// they may.
func TestUsedItemsStayCached(t *testing.T) {
	t.Parallel()
	one := &keptItem{words: 1, data: []byte("x")}
	k := keptItems{most: 20 * one.size()}
	have := func(seq int64) bool {
		items, _ := k.get([]int64{seq}, edition{}, "", 0)
		return items[0] != nil
	}
	for seq := range int64(200) {
		k.keep(map[int64]*keptItem{seq: one}, edition{}, 0)
		if !have(0) {
			t.Fatalf("after %d others an item is gone that was asked for each time", seq)
		}
		if n := len(k.young.items) + len(k.old.items); n > 20 || k.bytes != len(k.young.items)*one.size() {
			t.Fatalf("it has %d items, with %d bytes of the %d youngest", n, k.bytes, len(k.young.items))
		}
	}
	if have(1) || !have(199) {
		t.Errorf("it has item 1 (%v) and not item 199 (%v)", have(1), !have(199))
	}
}

// The words of an item that got others are those of the edition that is asked for,
// or none.
func TestCachedTermsMatchEdition(t *testing.T) {
	t.Parallel()
	k := keptItems{most: keptBytes}
	keep := func(words int, of int64) {
		k.keep(map[int64]*keptItem{1: {words: words}}, edition{reworded: of}, 0)
	}
	keep(1, 1)
	keep(2, 2)
	keep(1, 1) // by a transaction that began long ago
	for of, want := range map[int64]int{1: 0, 2: 2, 3: 0} {
		items, _ := k.get([]int64{1}, edition{reworded: of}, "", 0)
		if got := items[0]; (got != nil) != (want != 0) || got != nil && got.words != want {
			t.Errorf("edition %d has %v", of, got)
		}
	}
}

// Who looks at an older state than the one that is known asks the file, and so does who
// has read something that is not so any more.
func TestCachedItemsMatchSnapshot(t *testing.T) {
	t.Parallel()
	k := keptItems{most: keptBytes}
	k.ended(0, 5, nil, true)
	one := func() *keptItem { return &keptItem{key: itemKey{1, 2}, name: "a", live: true} }
	check := func(last int64, seq int64, want knowledge) {
		t.Helper()
		if got := k.where([]int64{seq}, "a", last)[0]; got != want {
			t.Errorf("of item %d after record %d it knows %d, want %d", seq, last, got, want)
		}
	}
	k.keep(map[int64]*keptItem{3: one()}, edition{}, 5)
	check(5, 3, isThere)
	check(4, 3, unknown)
	check(6, 3, unknown)
	k.keep(map[int64]*keptItem{4: one()}, edition{}, 5) // another key with the same hash
	check(5, 4, unknown)
	k.ended(5, 6, map[itemKey]int64{{1, 2}: 6}, false)
	check(6, 3, unknown)
	k.keep(map[int64]*keptItem{3: one()}, edition{}, 5) // by a transaction that began before
	check(6, 3, unknown)
	k.ended(5, 7, nil, true) // somebody else was faster
	k.keep(map[int64]*keptItem{6: one()}, edition{}, 6)
	check(6, 6, isThere)
}

// An item that is not in the index yet is ranked by the words it has now.
func TestReindexedWordsReplaceCachedWords(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	reader, writer := open(t, path, nil), open(t, path, nil)
	eager(reader.items)
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

// An item that was indexed in another way is not found by the vectors that it had.
func TestReplacedVectorsAreNotCompared(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	reader, writer := open(t, path, nil), open(t, path, nil)
	eager(reader.items)
	ways := func(field string) *store.Options {
		return &store.Options{Fields: []string{field}, Embedder: store.NewHashEmbedder(16)}
	}
	put(t, storeOf(t, writer, ways("old")), ada, "first", value{"old": "acorn", "new": "oak"}, nil)
	batch := func() *store.Batch {
		vectors, err := storeOf(t, reader, ways("old")).Embed(t.Context(), "acorn")
		if err != nil {
			t.Fatal(err)
		}
		var stamp string
		err = reader.conn.Read(t.Context(), func(c *database.Conn) error {
			_, err := c.Row("SELECT text FROM store_stamp ORDER BY id LIMIT 1", nil, &stamp)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return &store.Batch{Now: time.Now(), Searches: []*store.Query{{Prefix: ada, Limit: 10, Depth: 10, Stamp: stamp, Vector: vectors[0]}}}
	}
	found := func() int {
		out, err := reader.items.Do(t.Context(), batch())
		if err != nil {
			t.Fatal(err)
		}
		return len(out.Searches[0])
	}
	if n := found(); n != 1 || reader.items.vectors.byID.Len() != 1 {
		t.Fatalf("found %d items, and kept %d vectors", n, reader.items.vectors.byID.Len())
	}
	if _, err := storeOf(t, writer, ways("new")).Reindex(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := found(); n != 0 {
		t.Errorf("found %d items by vectors that are gone", n)
	}
}

// However items end, and whichever handle of the file ends them, a search that knew them
// as live does not find them, and finds all others: it finds what a store in memory does.
func TestEndedCachedItemsAreNotFound(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	dbs := []*testDB{open(t, path, nil), open(t, path, nil)}
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	var stores []*store.Store
	for _, b := range []store.Backend{eager(dbs[0].items), eager(dbs[1].items), store.NewMemoryBackend()} {
		s, err := store.New(b, &store.Options{Fields: []string{"text"}, Embedder: store.NewHashEmbedder(16), History: 2, HistoryAge: 10 * time.Minute, Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		stores = append(stores, s)
	}
	rnd := rand.New(rand.NewPCG(6, 7))
	known, compared := 0, 0
	for round := range 150 {
		now = now.Add(time.Duration(rnd.IntN(4)) * time.Minute)
		n, key := store.Namespace{"users", fmt.Sprint(rnd.IntN(3))}, fmt.Sprint(2+rnd.IntN(40))
		var puts []store.Op
		for range rnd.IntN(20) {
			o := store.PutOptions{}
			if rnd.IntN(8) == 0 {
				o.TTL = 3 * time.Minute
			}
			puts = append(puts, store.PutOp{Namespace: store.Namespace{"users", fmt.Sprint(rnd.IntN(3))}, Key: fmt.Sprint(rnd.IntN(40)), Value: value{"text": sentence(rnd)}, PutOptions: o})
		}
		change := rnd.IntN(18)
		for _, s := range []*store.Store{stores[round/3%2], stores[2]} {
			var err error
			switch change {
			case 0, 1, 2:
				err = s.Forget(t.Context(), n, key)
			case 3:
				err = s.ForgetAll(t.Context(), n)
			case 4, 5, 6:
				_, err = s.Sweep(t.Context())
			case 7, 8, 9:
				err = s.Delete(t.Context(), n, key, nil)
			case 10:
				_, err = s.Search(t.Context(), n, &store.SearchOptions{Query: "word0 word1"}) // those with a TTL live longer
			case 11, 12: // nothing is left of its end
				_, err = s.Batch(t.Context(), store.DeleteOp{Namespace: n, Key: key}, store.DeleteOp{Namespace: n, Key: "1"})
				at := now
				now = now.Add(time.Hour)
				if err == nil {
					_, err = s.Sweep(t.Context())
				}
				now = at
			default:
				_, err = s.Batch(t.Context(), puts...)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, prefix := range []store.Namespace{nil, {"users"}, {"users", "1"}} {
			o := &store.SearchOptions{Query: "word0 word1 word2 word3", Limit: 1000, Ranking: []store.Ranking{store.Keyword, store.Semantic}[rnd.IntN(2)], NoRefresh: true}
			want := keysOf(t, stores[2], prefix, o)
			for i, s := range stores[:2] {
				if rnd.IntN(3) == 0 {
					continue // it will have more to catch up with
				}
				if d := cmp.Diff(want, keysOf(t, s, prefix, o)); d != "" {
					t.Fatalf("round %d, after change %d: under %v by handle %d (-memory +sqlite):\n%s", round, change, prefix, i, d)
				}
			}
		}
		known += len(dbs[0].items.kept.young.live)
		compared += dbs[0].items.vectors.byID.Len()
	}
	if known == 0 || compared == 0 {
		t.Errorf("%d items were known to be live, and %d vectors were kept", known, compared)
	}
	checkBackend(t, dbs[0])
}
