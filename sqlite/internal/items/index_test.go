package items

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/sqlite/internal/database"
	"github.com/treadle-go/treadle/store"
)

// sentence makes one of words that are unevenly frequent.
func sentence(rnd *rand.Rand) string {
	text := make([]string, 4+rnd.IntN(8))
	for i := range text {
		text[i] = fmt.Sprintf("word%d", int(rnd.Float64()*rnd.Float64()*rnd.Float64()*2000))
	}
	return strings.Join(text, " ")
}

// alike returns a store on SQLite and one in memory with the same items.
func alike(t *testing.T, items int, opts *store.Options) (db *testDB, ours, memory *store.Store) {
	t.Helper()
	db = open(t, filepath.Join(t.TempDir(), "test.db"), nil)
	memory, err := store.NewMemory(opts)
	if err != nil {
		t.Fatal(err)
	}
	ours = storeOf(t, db, opts)
	rnd := rand.New(rand.NewPCG(1, 1))
	ops := make([]store.Op, items)
	for i := range ops {
		n := store.Namespace{[]string{"most", "most", "most", "some"}[rnd.IntN(4)], fmt.Sprint(i % 7)}
		ops[i] = store.PutOp{Namespace: n, Key: fmt.Sprint(i), Value: value{"text": sentence(rnd), "third": i%3 == 0}}
	}
	for _, s := range []*store.Store{ours, memory} {
		if _, err := s.Batch(t.Context(), ops...); err != nil {
			t.Fatal(err)
		}
	}
	return db, ours, memory
}

// Of more matches than are ranked, the same are ranked as in memory: the ones
// with the most different words, the newest first.
func TestManyMatchesRankAsInMemory(t *testing.T) {
	_, ours, memory := alike(t, 2500, &store.Options{Fields: []string{"text"}})
	for _, query := range []string{"word0", "word0 word1 word2 word900", "word0 word1 word2 word3 word4 word5", "word1500 nothing"} {
		for _, prefix := range []store.Namespace{nil, {"most"}, {"some"}, {"some", "3"}} {
			for _, filter := range []store.Filter{{}, store.Eq("third", true)} {
				o := &store.SearchOptions{Query: query, Filter: filter, Limit: 2000}
				want := keysOf(t, memory, prefix, o)
				if d := cmp.Diff(want, keysOf(t, ours, prefix, o)); d != "" {
					t.Errorf("%q under %v with %v (-memory +sqlite):\n%s", query, prefix, filter, d)
				}
			}
		}
	}
}

// A search by meaning finds nearly all that comparing with each item finds.
func TestIndexFindsNearest(t *testing.T) {
	const items = 1500 // so many are compared one by one in memory
	db, ours, memory := alike(t, items, &store.Options{Fields: []string{"text"}, Embedder: store.NewHashEmbedder(64)})
	db.items.limits.compared = 200
	rnd := rand.New(rand.NewPCG(2, 2))
	for _, filter := range []store.Filter{{}, store.Eq("third", true)} {
		found, all := 0, 0
		for range 20 {
			o := &store.SearchOptions{Query: sentence(rnd), Filter: filter}
			got := map[string]bool{}
			for _, key := range keysOf(t, ours, nil, o) {
				got[key] = true
			}
			for _, key := range keysOf(t, memory, nil, o) {
				all++
				if got[key] {
					found++
				}
			}
		}
		if recall := float64(found) / float64(all); recall < 0.95 {
			t.Errorf("with %v the recall is %.3f, want at least 0.95", filter, recall)
		}
	}
}

// An item that is put again and again, here or by another process, is in the
// answer of every search: as it was or as it is.
func TestSearchFindsItemDuringReplacement(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	options := &store.Options{Embedder: store.NewHashEmbedder(16), Fields: []string{"text"}, History: 2}
	dbs := []*testDB{open(t, path, nil), open(t, path, nil)}
	for _, db := range dbs {
		eager(db.items)
	}
	s := storeOf(t, dbs[0], options)
	const items = 5
	putAll := func(ctx context.Context, s *store.Store, round int) error {
		for i := range items {
			if err := s.Put(ctx, ada, fmt.Sprint(i), value{"text": fmt.Sprint("round ", round)}, nil); err != nil {
				return err
			}
		}
		return nil
	}
	if err := putAll(t.Context(), s, 0); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	for _, db := range dbs {
		s := storeOf(t, db, options)
		go func() {
			var err error
			for round := 1; err == nil; round++ {
				err = putAll(ctx, s, round)
			}
			ended <- err
		}()
	}
	searches := make(chan error)
	for range 3 {
		go func() {
			for range 60 {
				found, err := s.Search(t.Context(), ada, &store.SearchOptions{Query: "round"})
				if err == nil && len(found) != items {
					err = fmt.Errorf("a search finds %d items, there are always %d", len(found), items)
				}
				if err != nil {
					searches <- err
					return
				}
			}
			searches <- nil
		}()
	}
	for range 3 {
		if err := <-searches; err != nil {
			t.Error(err)
		}
	}
	cancel()
	for range dbs {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	checkBackend(t, dbs[0])
	if n := dbs[0].items.near.get(stampOf(t, dbs[0])).index.Len(); n > 100*items {
		t.Errorf("the index has %d vectors of %d items: what is gone stays in", n, items)
	}
}

// A search through many items ends with its caller's context, which it asks more
// often than one through none.
func TestLongSearchEndsWithContext(t *testing.T) {
	_, s, _ := alike(t, 2*pageSize, &store.Options{Embedder: store.NewHashEmbedder(8)})
	for name, o := range map[string]store.SearchOptions{
		"filter": {Filter: store.Eq("third", 7)}, "words": {Query: "word0 third", Ranking: store.Keyword, Filter: store.Eq("third", 7)}, "meaning": {Query: "word0"},
	} {
		keysOf(t, s, nil, &o) // so that indexes are there
		none := &impatient{Context: t.Context()}
		if _, err := s.Search(none, store.Namespace{"none"}, &o); err != nil {
			t.Fatal(err)
		}
		some := &impatient{Context: t.Context(), patience: none.asked}
		if _, err := s.Search(some, nil, &o); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want %v", name, err, context.Canceled)
		}
	}
}

// impatient is a context that ends when it has been asked too often.
type impatient struct {
	context.Context
	asked, patience int
}

func (i *impatient) Err() error {
	if i.asked++; i.patience > 0 && i.asked > i.patience {
		return context.Canceled
	}
	return nil
}

// stampOf returns the only stamp of a file.
func stampOf(t *testing.T, db *testDB) (stamp string) {
	t.Helper()
	err := db.conn.Read(t.Context(), func(c *database.Conn) error {
		_, err := c.Row("SELECT text FROM store_stamp", nil, &stamp)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return stamp
}
