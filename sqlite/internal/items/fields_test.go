package items

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/treadle-go/treadle/store"
)

// randomFilter returns a filter of any kind.
func randomFilter(rnd *rand.Rand, depth int) store.Filter {
	path := []string{"x", "x.a", "x.0", "n", "missing"}[rnd.IntN(5)]
	value := func() json.RawMessage { return json.RawMessage(randomJSON(rnd, 1)) }
	if depth > 0 {
		switch rnd.IntN(8) {
		case 0, 1:
			return store.And(randomFilter(rnd, depth-1), randomFilter(rnd, depth-1))
		case 2, 3:
			return store.Or(randomFilter(rnd, depth-1), randomFilter(rnd, depth-1))
		case 4:
			return store.Not(randomFilter(rnd, depth-1))
		case 5:
			return store.Meta(randomFilter(rnd, depth-1))
		}
	}
	switch rnd.IntN(6) {
	case 0:
		return store.Eq(path, value())
	case 1:
		return store.Ne(path, value())
	case 2:
		return store.Exists(path)
	case 3:
		return store.And(store.Gte("n", rnd.IntN(20)), store.Lt("n", rnd.IntN(20)))
	case 4:
		return store.In(path, value(), value())
	}
	return store.Gt("n", rnd.IntN(20))
}

// Searches whose filters are decided by cached fields find the same as in memory, while two
// processes write items, replace, delete, and forget them.
func TestDecidedFiltersMatchMemory(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	o := &store.Options{Fields: []string{"text"}, Embedder: store.NewHashEmbedder(32), Ranking: store.Hybrid}
	path := filepath.Join(t.TempDir(), "test.db")
	memory, err := store.NewMemory(o)
	if err != nil {
		t.Fatal(err)
	}
	var processes []*store.Store
	var dbs []*testDB
	for i := range 2 {
		db := open(t, path, nil)
		eager(db.items).limits.compared = 5000
		db.items.limits.rare = []int{1000, 3}[i]
		dbs, processes = append(dbs, db), append(processes, storeOf(t, db, o))
	}
	for i := range 700 {
		n, key := store.Namespace{"n", fmt.Sprint(rnd.IntN(3))}, fmt.Sprint(rnd.IntN(50))
		v := json.RawMessage(fmt.Sprintf(`{"text":"word%d of all","n":%d,"x":%s}`, rnd.IntN(9), rnd.IntN(20), randomJSON(rnd, 2)))
		meta := map[string]any{"n": rnd.IntN(20), "x": json.RawMessage(randomJSON(rnd, 1))}
		change := rnd.IntN(10)
		for _, s := range []*store.Store{memory, processes[rnd.IntN(2)]} {
			switch change {
			case 0:
				err = s.Delete(t.Context(), n, key, nil)
			case 1:
				err = s.Forget(t.Context(), n, key)
			default:
				err = s.Put(t.Context(), n, key, v, &store.PutOptions{Meta: meta})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		search := store.SearchOptions{Filter: randomFilter(rnd, 2), Limit: 1 + rnd.IntN(20), Offset: rnd.IntN(3), Query: []string{"", "word1 of", "word3 word2"}[rnd.IntN(3)],
			Ranking: []store.Ranking{store.Hybrid, store.Semantic, store.Keyword}[rnd.IntN(3)]}
		prefix := store.Namespace{"n", "1"}[:rnd.IntN(3)]
		want := fmt.Sprint(keysOf(t, memory, prefix, &search))
		for j, s := range processes {
			if got := fmt.Sprint(keysOf(t, s, prefix, &search)); got != want {
				t.Fatalf("%d: process %d: %+v under %q finds %s, want %s", i, j, search, prefix, got, want)
			}
		}
	}
	// A search of the whole store omits the items of branches.
	for _, s := range append(processes[:1:1], memory) {
		branching, err := s.Fork(t.Context(), 1, store.BranchInfo{})
		if err != nil {
			t.Fatal(err)
		}
		put(t, branching, store.Namespace{"n", "1"}, "in branch", value{"text": "word1 of", "n": 5}, nil)
	}
	for _, query := range []string{"", "word1 of"} {
		search := store.SearchOptions{Filter: store.And(store.Gte("n", 5), store.Lt("n", 6)), Limit: 100, Query: query}
		if got, want := fmt.Sprint(keysOf(t, processes[0], nil, &search)), fmt.Sprint(keysOf(t, memory, nil, &search)); got != want {
			t.Errorf("%q finds %s, want %s", query, got, want)
		}
	}
	for _, db := range dbs {
		if len(db.items.fields.tables) == 0 || db.items.fields.bytes == 0 {
			t.Error("no fields are cached")
		}
	}
	checkBackend(t, dbs[0])
}

// Fields that exceed the limit are not cached, and filters find the same.
func TestFieldsStayWithinLimit(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "test.db"), nil)
	s := storeOf(t, db, &store.Options{Fields: []string{"text"}})
	eager(db.items).fields.most = 40_000
	for i := range 200 {
		put(t, s, store.Namespace{"n"}, fmt.Sprint(i), value{"text": "word", "n": i, "k": fmt.Sprintf("%0300d", i)}, nil)
	}
	for range 2 {
		for filter, want := range map[string]int{"n": 5, "k": 7} {
			f := store.Lt("n", 5)
			if filter == "k" {
				f = store.Lt("k", fmt.Sprintf("%0300d", 7))
			}
			for _, query := range []string{"", "word"} {
				if got := keysOf(t, s, nil, &store.SearchOptions{Filter: f, Limit: 50, Query: query}); len(got) != want {
					t.Errorf("%s finds %q, want %d", filter, got, want)
				}
			}
		}
	}
	if db.items.fields.bytes > 40_000 || len(db.items.fields.tables) != 2 {
		t.Errorf("%d bytes of %d tables are cached", db.items.fields.bytes, len(db.items.fields.tables))
	}
}
