package store_test

import (
	"fmt"
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
