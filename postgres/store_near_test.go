package postgres

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/store"
	"github.com/treadle-go/treadle/store/storetest"
)

// Without pgvector, signatures in the process find nearly all that comparing with each
// item finds, here and with filters, and follow what this and other processes change.
func TestSignaturesFindTheNearestOfMany(t *testing.T) {
	url := quick(t)
	db := fresh(t, url, Options{})
	o := &store.Options{Fields: textOnly, Embedder: store.NewHashEmbedder(64)}
	s := storeOf(t, db, o)
	exact, err := store.NewMemory(o)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, s, 1500)
	fill(t, exact, 1500)
	other := open(t, url, &Options{Schema: db.schema})
	for _, db := range []*DB{db, other} {
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
func TestSignaturesOfWhatIsIndexedAgainAreFound(t *testing.T) {
	url := quick(t)
	db := fresh(t, url, Options{})
	db.backend.few = new(0)
	before := &store.Options{Fields: textOnly, Embedder: store.NewHashEmbedder(16)}
	after := &store.Options{Fields: textOnly, Embedder: store.NewHashEmbedder(32)}
	other := open(t, url, &Options{Schema: db.schema})
	put := func(db *DB, o *store.Options, key string) {
		t.Helper()
		if err := storeOf(t, db, o).Put(t.Context(), store.Namespace{"n"}, key, map[string]any{"text": "green tea"}, nil); err != nil {
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
	if d := cmp.Diff([]string{"new"}, find()); d != "" {
		t.Error(d)
	}
	put(other, before, "old")
	put(other, after, "newer")
	find() // its index has the numbers up to that of the newer
	if _, err := storeOf(t, other, after).Reindex(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"new", "newer", "old"}, find()); d != "" {
		t.Errorf("after reindexing: %s", d)
	}
}

// Even where all is looked up in the index, a small store is as memory is. A single
// connection is enough.
func TestSignaturesMissNothingOfFew(t *testing.T) {
	db := fresh(t, quick(t), Options{MaxConns: 1})
	db.backend.few = new(0)
	backend := func(t *testing.T) store.Backend { return checked(t, emptied(t, db).db) }
	t.Run("differential", func(t *testing.T) { storetest.Differential(t, backend) })
	t.Run("branches", func(t *testing.T) { storetest.Branches(t, backend, 1) })
}

// Many who search and write at the same time do not wait for each other for ever.
func TestSearchesBySignatureDoNotBlockWriters(t *testing.T) {
	db := fresh(t, quick(t), Options{MaxConns: 2})
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
