package store_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/treadle-go/treadle/store"
	"github.com/treadle-go/treadle/store/storetest"
)

func TestMemoryPassesSuite(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Backend { return store.NewMemoryBackend() })
}

// Memory matches itself, so any difference that Differential finds comes from
// the other backend.
func TestMemoryMatchesItself(t *testing.T) {
	storetest.Differential(t, func(*testing.T) store.Backend { return store.NewMemoryBackend() })
}

// A search gives the same result with the indexes that a memory backend uses for many items.
func TestIndexedMemoryMatchesMemory(t *testing.T) {
	open := func(*testing.T) store.Backend { return store.NewIndexedMemoryBackend() }
	t.Run("suite", func(t *testing.T) { storetest.Run(t, open) })
	t.Run("differential", func(t *testing.T) { storetest.Differential(t, open) })
}

// Filters select the same items with and without indexes, among values in many notations.
func TestIndexedFiltersMatchScans(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 7))
	value := func() json.RawMessage {
		return json.RawMessage([]string{`1`, `1.0`, `10e-1`, `-0`, `"a"`, `"\u0061"`, `null`, `true`, `[]`, `{}`, `{"b":1}`, `{"b":1.0,"c":"x"}`, `["a",1]`}[rnd.IntN(13)])
	}
	var filter func(depth int) store.Filter
	filter = func(depth int) store.Filter {
		path := []string{"a", "a.b", "a.0", "z"}[rnd.IntN(4)]
		switch n := rnd.IntN(10); {
		case depth > 0 && n < 2:
			return store.And(filter(depth-1), filter(depth-1))
		case depth > 0 && n < 4:
			return store.Or(filter(depth-1), filter(depth-1))
		case depth > 0 && n == 4:
			return []store.Filter{store.Not(filter(depth - 1)), store.Meta(filter(depth - 1)), store.Gt("a", 0), store.Exists(path)}[rnd.IntN(4)]
		case n == 5:
			return store.In(path, value(), value())
		}
		return store.Eq(path, value())
	}
	var stores []*store.Store
	for _, b := range []store.Backend{store.NewMemoryBackend(), store.NewIndexedMemoryBackend()} {
		s, err := store.New(b, &store.Options{Embedder: store.NewHashEmbedder(8), Ranking: store.Hybrid})
		if err != nil {
			t.Fatal(err)
		}
		stores = append(stores, s)
	}
	for i := range 1500 {
		n, key := store.Namespace{"n", fmt.Sprint(rnd.IntN(3))}, fmt.Sprint(rnd.IntN(60))
		raw, meta := json.RawMessage(fmt.Sprintf(`{"a":%s,"text":"word%d x"}`, value(), rnd.IntN(5))), map[string]any{"a": value()}
		o := &store.SearchOptions{Filter: filter(2), Limit: 1 + rnd.IntN(20), Offset: rnd.IntN(3), Query: []string{"", "word1 x", "word2"}[rnd.IntN(3)]}
		prefix := store.Namespace{"n", "1"}[:1+rnd.IntN(2)]
		var found [2]string
		for j, s := range stores {
			if err := s.Put(t.Context(), n, key, raw, &store.PutOptions{Meta: meta}); err != nil {
				t.Fatal(err)
			}
			items, err := s.Search(t.Context(), prefix, o)
			if err != nil {
				t.Fatal(err)
			}
			for _, item := range items {
				found[j] += fmt.Sprintln(item.Namespace, item.Key, item.Version, item.Score)
			}
		}
		if found[0] != found[1] {
			t.Fatalf("%d: %+v under %q:\n%s\nwith indexes:\n%s", i, o, prefix, found[0], found[1])
		}
	}
}

func BenchmarkMemory(b *testing.B) {
	storetest.Benchmark(b, func(*testing.B) store.Backend { return store.NewMemoryBackend() })
}

// Replaced versions are reclaimed without a visible effect.
func TestMemoryReclaimsReplacedVersions(t *testing.T) {
	s, err := store.NewMemory(&store.Options{History: 1})
	if err != nil {
		t.Fatal(err)
	}
	n := store.Namespace{"n"}
	put := func(key string, i int) {
		t.Helper()
		if err := s.Put(t.Context(), n, key, map[string]string{"t": fmt.Sprint("word", i)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	const rounds = 3000
	for i := range rounds {
		put("churn", i)
		if i%100 == 0 {
			put(fmt.Sprint("kept", i), i)
		}
	}
	for query, want := range map[string]string{
		"word100": "kept100", "word101": "", fmt.Sprint("word", rounds-1): "churn",
	} {
		items, err := s.Search(t.Context(), nil, &store.SearchOptions{Query: query})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, item := range items {
			got += item.Key
		}
		if got != want {
			t.Errorf("query %s: got %q, want %q", query, got, want)
		}
	}
	items, err := s.Search(t.Context(), nil, &store.SearchOptions{Limit: rounds})
	if err != nil || len(items) != rounds/100+1 {
		t.Errorf("got %d items, %v", len(items), err)
	}
	seen, last := 0, items[len(items)-1].Version
	for c, err := range s.Watch(t.Context(), n, 0) {
		if err != nil {
			t.Fatal(err)
		}
		seen++
		if c.Version == last {
			break
		}
	}
	if seen != len(items) {
		t.Errorf("watcher got %d changes of %d items", seen, len(items))
	}
}
