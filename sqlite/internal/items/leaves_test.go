package items

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/sqlite/internal/database"
	"github.com/treadle-go/treadle/store"
)

// randomJSON returns a value in which things occur again, in different notations.
func randomJSON(rnd *rand.Rand, depth int) string {
	switch n := rnd.IntN(12); {
	case n < 3 && depth > 0:
		var members []string
		for _, k := range []string{"a", "b", "0", `\u0061c`}[:rnd.IntN(5)] {
			members = append(members, fmt.Sprintf(`"%s":%s`, k, randomJSON(rnd, depth-1)))
		}
		return "{" + strings.Join(members, ",") + "}"
	case n < 5 && depth > 0:
		var elements []string
		for range rnd.IntN(3) {
			elements = append(elements, randomJSON(rnd, depth-1))
		}
		return "[" + strings.Join(elements, ",") + "]"
	}
	all := strings.Fields(`0 -0 0.0 1 1.0 10e-1 100 1e2 1E400 1.1 12345678901234567890 12345678901234567891.0 true false null "" "a" "\u0061" "1" "ä" "\u00e4" "😀" "\ud83d\ude00"`)
	return all[rnd.IntN(len(all))]
}

// Items that pass a filter have the words that the filter asks the index for.
func TestFilteredItemsContainFilterLeaves(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	passed := 0
	paths := []string{"x", "x.a", "x.0", "x.ac", "x.a.b", "x.0.0", "x.a.0.b"}
	memory, err := store.NewMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	db := open(t, database.InMemory, nil)
	for i := range 4000 {
		value := json.RawMessage(`{"x":` + randomJSON(rnd, i%4) + "}")
		path := paths[rnd.IntN(1+i%4*2)]
		eq := func() store.Filter { return store.Eq(path, json.RawMessage(randomJSON(rnd, 2))) }
		filter := []store.Filter{
			eq(), store.Or(eq(), eq()), store.And(eq(), store.Ne("x", 77)), store.In(path, json.RawMessage(randomJSON(rnd, 1)), json.RawMessage(randomJSON(rnd, 1))),
		}[rnd.IntN(4)]
		if err := memory.Put(t.Context(), ada, "it", value, nil); err != nil {
			t.Fatal(err)
		}
		found, err := memory.Search(t.Context(), ada, &store.SearchOptions{Filter: filter})
		if err != nil {
			t.Fatal(err)
		}
		if len(found) == 0 {
			continue
		}
		passed++
		query := new(leafQuery).of(filter)
		if query == "" || !matches(t, db, query, leavesOf(value)) {
			t.Fatalf("%s passes %v and is not found by %s: it has %v", value, filter, query, leavesOf(value))
		}
	}
	if passed < 100 {
		t.Errorf("only %d items pass", passed)
	}
}

// matches evaluates a query of the index.
func matches(t *testing.T, db *testDB, query string, words []string) bool {
	t.Helper()
	found := 0
	err := db.conn.Write(t.Context(), func(c *database.Conn) error {
		if _, err := c.Change("INSERT INTO store_words(rowid,words) VALUES(1,?)", strings.Join(words, " ")); err != nil {
			return err
		}
		_, err := c.Row("SELECT count(*) FROM store_words WHERE store_words MATCH ?", []any{query}, &found)
		if err == nil {
			_, err = c.Change("DELETE FROM store_words WHERE rowid=1")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found == 1
}

// kinds puts items of which few have some kinds.
func kinds(t *testing.T, items int, to ...*store.Store) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(3, 3))
	var ops []store.Op
	for i := range items {
		v := value{"text": sentence(rnd), "kind": fmt.Sprint("kind ", i%50), "n": i % 100, "deep": value{"list": []int{i % 7, 2}}}
		if i%400 == 3 { // more than the index takes
			many := make([]int, 2*mostLeaves)
			for j := range many {
				many[j] = j
			}
			v["many"] = many
		}
		ops = append(ops, store.PutOp{Namespace: store.Namespace{[]string{"most", "most", "some"}[i%3]}, Key: fmt.Sprint(i), Value: v})
	}
	for _, s := range to {
		for page := range slices.Chunk(ops, 300) {
			if _, err := s.Batch(t.Context(), page...); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// compareRare compares searches with filters that few or no items pass.
func compareRare(t *testing.T, ours, memory *store.Store) {
	t.Helper()
	for _, filter := range []store.Filter{
		store.Eq("kind", "kind 7"), store.Eq("kind", "none"), store.Eq("n", 3), store.Eq("n", json.RawMessage("3.0")), store.Eq("deep", value{"list": []int{3, 2}}),
		store.Eq("deep.list.0", 5), store.In("kind", "kind 1", "kind 2"), store.In[string]("kind"), store.Or(), store.And(store.Eq("kind", "kind 3"), store.Gt("n", 10)),
		store.Or(store.Eq("n", 4), store.Eq("kind", "kind 4")), store.Or(store.Eq("n", 4), store.Gt("n", 97)), store.Not(store.Eq("n", 4)), store.Eq("many.399", 399),
	} {
		for _, prefix := range []store.Namespace{nil, {"most"}, {"some"}} {
			for _, o := range []store.SearchOptions{
				{}, {Limit: 3, Offset: 5}, {Query: "word1 word2 word3", Ranking: store.Keyword}, {Query: "word1 word2 word3"}, {Query: "word1 word2 word3", Ranking: store.Hybrid},
			} {
				o.Filter = filter
				if d := cmp.Diff(keysOf(t, memory, prefix, &o), keysOf(t, ours, prefix, &o)); d != "" {
					t.Errorf("%+v under %v (-memory +sqlite):\n%s", o, prefix, d)
				}
			}
		}
	}
}

// A rare filter finds the same as in memory, whether items are in the index or came
// later, also when some were replaced or deleted.
func TestRareFilterFindsAllMatches(t *testing.T) {
	o := &store.Options{Fields: []string{"text"}, Embedder: store.NewHashEmbedder(32)}
	db := open(t, filepath.Join(t.TempDir(), "test.db"), nil)
	ours := storeOf(t, db, o)
	memory, err := store.NewMemory(o)
	if err != nil {
		t.Fatal(err)
	}
	db.items.limits.few, db.items.limits.compared = 100, 2000
	kinds(t, 1330, ours, memory)
	compareRare(t, ours, memory)
	for i := range 100 {
		n := store.Namespace{[]string{"most", "most", "some"}[i%3]}
		for _, s := range []*store.Store{ours, memory} {
			if i%2 == 0 {
				put(t, s, n, fmt.Sprint(i), value{"kind": "kind 3", "text": "word1", "n": 3}, nil)
			} else if err := s.Delete(t.Context(), n, fmt.Sprint(i), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	compareRare(t, ours, memory)
	checkBackend(t, db)
}

// What passes a rare filter is all that is looked at.
func TestRareFilterReadsFewItems(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "test.db"), nil)
	o := &store.Options{Fields: []string{"text"}, Embedder: store.NewHashEmbedder(32)}
	kinds(t, 3000, storeOf(t, db, o))
	watched := &watchedBackend{Backend: db.items}
	s, err := store.New(watched, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []store.SearchOptions{{}, {Query: "word1 word2"}, {Query: "word1 word2", Ranking: store.Hybrid}} {
		o.Filter = store.And(store.Eq("kind", "kind 7"), store.Gte("n", 0))
		keysOf(t, s, nil, &o)
		indexes, err := db.items.hold(t.Context(), watched.last)
		if err != nil {
			t.Fatal(err)
		}
		err = db.conn.Read(t.Context(), func(c *database.Conn) error {
			l := db.items.look(t.Context(), c, watched.last, indexes)
			_, err := l.all()
			if most := 60 + 8 + foldEvery; l.looked > 2*most {
				t.Errorf("%+v looks at %d items, and %d may pass", o, l.looked, most)
			}
			return err
		})
		indexes.release()
		if err != nil {
			t.Fatal(err)
		}
	}
}
