package items

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/internal/test/race"
	"github.com/treadle-go/treadle/postgres/internal/database"
	"github.com/treadle-go/treadle/postgres/internal/databasetest"
	"github.com/treadle-go/treadle/store"
	"github.com/treadle-go/treadle/store/storetest"
)

// Without pgvector, signatures in the process find nearly all that comparing with each
// item finds, here and with filters, and follow what this and other processes change.
func TestSignaturesFindNearestOfMany(t *testing.T) {
	url := databasetest.Quick(t)
	db := fresh(t, url, database.Options{})
	o := &store.Options{Fields: textOnly, Embedder: store.NewHashEmbedder(64)}
	s := storeOf(t, db, o)
	exact, err := store.NewMemory(o)
	if err != nil {
		t.Fatal(err)
	}
	items := 1500
	if race.Enabled {
		items = 500
	}
	fill(t, s, items)
	fill(t, exact, items)
	other := open(t, url, &database.Options{Schema: db.conn.Schema})
	for _, db := range []*testDB{db, other} {
		db.backend.few = new(100)
	}
	rnd := rand.New(rand.NewPCG(7, 8))
	recall := func(s *store.Store, filter store.Filter) float64 {
		found, of := 0, 0
		for range 15 {
			query := &store.SearchOptions{Query: sentence(rnd), Filter: filter}
			want, err := exact.Search(t.Context(), nil, query)
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.Search(t.Context(), nil, query)
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != len(want) {
				t.Errorf("with %v %d items are found, want %d", filter, len(got), len(want))
			}
			for _, w := range want {
				of++
				if slices.ContainsFunc(got, func(g *store.Item) bool { return g.Key == w.Key && g.Score == w.Score }) {
					found++
				}
			}
		}
		return float64(found) / float64(of)
	}
	compare := func(when string) {
		t.Helper()
		for name, s := range map[string]*store.Store{"this": s, "another": storeOf(t, other, o)} {
			for _, filter := range []store.Filter{{}, store.Eq("kind", "kind 5"), store.Gte("n", 700), store.Gte("n", 1490)} {
				if r := recall(s, filter); r < 0.95 {
					t.Errorf("%s, in %s process, with %v: the recall is %.2f", when, name, filter, r)
				}
			}
		}
	}
	compare("at first")
	if n := len(db.backend.near.byStamp); n != 1 {
		t.Fatalf("there are %d indexes", n)
	}
	for i := range 300 {
		n, key := store.Namespace{"users", fmt.Sprint(i % 1000)}, fmt.Sprint("key ", i)
		text := sentence(rnd)
		for _, s := range []*store.Store{storeOf(t, other, o), exact} {
			if i%3 == 0 {
				err = s.Delete(t.Context(), n, key, nil)
			} else {
				err = s.Put(t.Context(), n, key, map[string]any{"text": text, "n": i, "kind": "new"}, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	compare("after changes")
}

// A process that has an index of a model's vectors finds the items that another one
// indexes again with this model.
func TestReindexedSignaturesAreFound(t *testing.T) {
	url := databasetest.Quick(t)
	db := fresh(t, url, database.Options{})
	db.backend.few = new(0)
	before := &store.Options{Fields: textOnly, Embedder: store.NewHashEmbedder(16)}
	after := &store.Options{Fields: textOnly, Embedder: store.NewHashEmbedder(32)}
	other := open(t, url, &database.Options{Schema: db.conn.Schema})
	put := func(db *testDB, opts *store.Options, key string) {
		t.Helper()
		if err := storeOf(t, db, opts).Put(t.Context(), store.Namespace{"n"}, key, map[string]any{"text": "green tea"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	put(db, after, "new")
	find := func() (keys []string) {
		t.Helper()
		items, err := storeOf(t, db, after).Search(t.Context(), nil, &store.SearchOptions{Query: "tea"})
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range items {
			keys = append(keys, item.Key)
		}
		slices.Sort(keys)
		return keys
	}
	if d := gocmp.Diff([]string{"new"}, find()); d != "" {
		t.Error(d)
	}
	put(other, before, "old")
	put(other, after, "newer")
	find() // its index has the numbers up to that of the newer
	if _, err := storeOf(t, other, after).Reindex(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := gocmp.Diff([]string{"new", "newer", "old"}, find()); d != "" {
		t.Errorf("after reindexing: %s", d)
	}
}

// Even where all is looked up in the index, a small store is as memory is. A single
// connection is enough.
func TestSignaturesAreExactForFewItems(t *testing.T) {
	db := fresh(t, databasetest.Quick(t), database.Options{MaxConns: 1})
	db.backend.few = new(0)
	backend := func(t *testing.T) store.Backend { return checked(t, emptied(t, db)) }
	t.Run("differential", func(t *testing.T) { storetest.Differential(t, backend) })
	t.Run("branches", func(t *testing.T) { storetest.Branches(t, backend, 1) })
}

// keysOf returns the keys that a search finds.
func keysOf(t *testing.T, s *store.Store, under store.Namespace, opts *store.SearchOptions) (keys []string) {
	t.Helper()
	items, err := s.Search(t.Context(), under, opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range items {
		keys = append(keys, fmt.Sprint(item.Namespace, item.Key))
	}
	return keys
}

// A search by words finds what comparing with each item finds, while this and another process
// change the items that have the words, and index them again.
func TestWordListsFollowChanges(t *testing.T) {
	url := databasetest.Quick(t)
	db := fresh(t, url, database.Options{})
	other := open(t, url, &database.Options{Schema: db.conn.Schema})
	exact := open(t, url, &database.Options{Schema: db.conn.Schema}) // it looks at each item
	db.backend.few, other.backend.few = new(0), new(0)
	var o store.Options
	rnd := rand.New(rand.NewPCG(3, 5))
	for round := range 200 {
		n, key := store.Namespace{"users", fmt.Sprint(rnd.IntN(3))}, fmt.Sprint(rnd.IntN(60))
		o.Fields = []string{[]string{"text", "other"}[round/50%2]}
		s := storeOf(t, []*testDB{db, other}[rnd.IntN(2)], &o)
		var err error
		switch kind := rnd.IntN(20); {
		case round%50 == 0:
			_, err = s.Reindex(t.Context()) // the same items have other words
		case kind < 15:
			err = s.Put(t.Context(), n, key, map[string]any{"text": sentence(rnd), "other": sentence(rnd)}, nil)
		case kind < 19:
			err = s.Delete(t.Context(), n, key, nil)
		default:
			err = s.Forget(t.Context(), n, key)
		}
		if err != nil {
			t.Fatal(err)
		}
		query := &store.SearchOptions{Query: sentence(rnd), Limit: 5}
		under := []store.Namespace{nil, {"users"}, n}[rnd.IntN(3)]
		want := keysOf(t, storeOf(t, exact, &o), under, query)
		for i, db := range []*testDB{db, other} {
			if d := gocmp.Diff(want, keysOf(t, storeOf(t, db, &o), under, query)); d != "" {
				t.Fatalf("round %d, process %d, %q under %v (-each item +lists):\n%s", round, i, query.Query, under, d)
			}
		}
	}
	if db.backend.lists.lists.Len() == 0 {
		t.Error("no lists are kept")
	}
}

// Of what was forgotten, lists still have the numbers. They are read again.
func TestStaleWordListsAreReread(t *testing.T) {
	db := fresh(t, databasetest.Quick(t), database.Options{})
	s := storeOf(t, db, &store.Options{Fields: textOnly})
	db.backend.few = new(0)
	fill(t, s, 40)
	query := &store.SearchOptions{Query: "green tea"}
	if keys := keysOf(t, s, nil, query); len(keys) == 0 || db.backend.lists.lists.Len() == 0 {
		t.Fatalf("%d items are found, and %d lists kept", len(keys), db.backend.lists.lists.Len())
	}
	if err := s.ForgetAll(t.Context(), store.Namespace{"users"}); err != nil {
		t.Fatal(err)
	}
	if keys := keysOf(t, s, nil, query); len(keys) > 0 || db.backend.lists.lists.Len() > 0 {
		t.Errorf("%d items are found, and %d lists kept", len(keys), db.backend.lists.lists.Len())
	}
}

func TestTallyOrder(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 9))
	var counts tally
	want := map[int64]int{}
	for range 3000 {
		seq := rnd.Int64N(20_000)
		counts.add(seq)
		want[seq]++
	}
	list := []int64{0, 63, 64, 4095, 4096, 19_999, 1 << 40}
	counts.addAll(newWordList(list, wordsState{}))
	for _, seq := range list {
		want[seq]++
	}
	order := slices.SortedFunc(maps.Keys(want), func(a, b int64) int { return cmp.Or(cmp.Compare(want[b], want[a]), cmp.Compare(b, a)) })
	var got []int64
	for page := range counts.best(100) {
		got = append(got, page...)
	}
	if !slices.Equal(got, order) {
		t.Errorf("the order is %d", got)
	}
}

// Many who search and write at the same time do not wait for each other for ever.
func TestSignatureSearchDoesNotBlockWriters(t *testing.T) {
	db := fresh(t, databasetest.Quick(t), database.Options{MaxConns: 2})
	db.backend.few = new(0)
	s := storeOf(t, db, &store.Options{Fields: textOnly, Embedder: store.NewHashEmbedder(16)})
	fill(t, s, 50)
	done := make(chan error)
	const workers = 8
	for w := range workers {
		go func() {
			var err error
			for i := 0; i < 15 && err == nil; i++ {
				if w%2 == 0 {
					_, err = s.Search(t.Context(), nil, &store.SearchOptions{Query: "tea"})
				} else {
					err = s.Put(t.Context(), store.Namespace{"users", "1"}, fmt.Sprint(i), map[string]any{"text": "green tea"}, nil)
				}
			}
			done <- err
		}()
	}
	for range workers {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("they wait for each other")
		}
	}
}
