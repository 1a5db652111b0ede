package store_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/treadle-go/treadle/store"
)

// modelEmbedder is a QueryEmbedder that records the texts it embeds.
type modelEmbedder struct {
	texts, queries []string
	fail           error
}

func (*modelEmbedder) Model() string  { return "letters" }
func (*modelEmbedder) Dimension() int { return 2 }

func (m *modelEmbedder) Embed(_ context.Context, texts []string) ([][]float32, error) {
	m.texts = append(m.texts, texts...)
	return letters(texts), m.fail
}

func (m *modelEmbedder) EmbedQueries(_ context.Context, texts []string) ([][]float32, error) {
	m.queries = append(m.queries, texts...)
	return letters(texts), m.fail
}

func letters(texts []string) [][]float32 {
	out := make([][]float32, len(texts))
	for i, t := range texts {
		out[i] = []float32{float32(t[0]), float32(len(t))}
	}
	return out
}

func TestCachedTextIsEmbeddedOnce(t *testing.T) {
	ctx := t.Context()
	backend := store.NewMemoryBackend()
	cache, err := store.New(backend, nil)
	if err != nil {
		t.Fatal(err)
	}
	m := &modelEmbedder{}
	for range 2 { // the second store is that of the next process
		e, err := store.CacheEmbedder(m, cache, nil)
		if err != nil {
			t.Fatal(err)
		}
		s, err := store.New(backend, &store.Options{Embedder: e})
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"1", "2"} {
			if err := s.Put(ctx, store.Namespace{"n"}, key, map[string]any{"text": "tea"}, &store.PutOptions{Index: []string{"text"}}); err != nil {
				t.Fatal(err)
			}
		}
		found, err := s.Search(ctx, store.Namespace{"n"}, &store.SearchOptions{Query: "tee"})
		if err != nil || len(found) != 2 || found[0].Score < 0.999 {
			t.Fatal(found, err)
		}
		vectors, err := s.Embed(ctx, "tea", "coffee")
		if err != nil || len(vectors) != 2 {
			t.Fatal(err)
		}
	}
	if !slices.Equal(m.texts, []string{"tea", "coffee"}) || !slices.Equal(m.queries, []string{"tee", "tee"}) {
		t.Errorf("embedded %q and the queries %q", m.texts, m.queries)
	}
}

// plainEmbedder embeds queries like documents.
type plainEmbedder struct{ *modelEmbedder }

func (p plainEmbedder) EmbedQueries() {} // hides the method of QueryEmbedder

func TestCacheKeepsNoQueries(t *testing.T) {
	for name, embedder := range map[string]store.Embedder{"query embedder": &modelEmbedder{}, "embedder": plainEmbedder{&modelEmbedder{}}} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			cache, err := store.NewMemory(nil)
			if err != nil {
				t.Fatal(err)
			}
			e, err := store.CacheEmbedder(embedder, cache, nil)
			if err != nil {
				t.Fatal(err)
			}
			s, err := store.NewMemory(&store.Options{Embedder: e})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Put(ctx, store.Namespace{"n"}, "1", map[string]any{"text": "tea"}, nil); err != nil {
				t.Fatal(err)
			}
			for _, query := range []string{"Who has the flu?", "tea"} {
				if _, err := s.Search(ctx, store.Namespace{"n"}, &store.SearchOptions{Query: query}); err != nil {
					t.Fatal(err)
				}
			}
			kept, err := cache.Search(ctx, nil, nil)
			if err != nil || len(kept) != 1 {
				t.Errorf("the cache contains %d vectors, want 1: %v", len(kept), err)
			}
		})
	}
}

func TestCacheIgnoresOtherVectors(t *testing.T) {
	ctx := t.Context()
	cache, err := store.NewMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	m := &modelEmbedder{fail: errors.New("down")}
	e, err := store.CacheEmbedder(m, cache, &store.CacheOptions{Namespace: store.Namespace{"v"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Embed(ctx, []string{"a"}); !errors.Is(err, m.fail) {
		t.Error(err)
	}
	m.fail = nil
	if _, err := e.Embed(ctx, []string{"a"}); err != nil { // the failure was not kept
		t.Fatal(err)
	}
	items, err := cache.Search(ctx, store.Namespace{"v", "letters", "2"}, nil)
	if err != nil || len(items) != 1 {
		t.Fatal(items, err)
	}
	if err := cache.Put(ctx, items[0].Namespace, items[0].Key, map[string]any{"vector": "AAAA"}, nil); err != nil {
		t.Fatal(err)
	}
	if v, err := e.Embed(ctx, []string{"a"}); err != nil || v[0][0] != 'a' || len(m.texts) != 3 {
		t.Error(v, err, m.texts)
	}
	hash := store.NewHashEmbedder(8)
	if same, err := store.CacheEmbedder(hash, cache, nil); err != nil || same != hash {
		t.Error(same, err)
	}
	if _, err := store.CacheEmbedder(nil, cache, nil); err == nil {
		t.Error("nil embedder accepted")
	}
	if _, err := store.CacheEmbedder(m, nil, nil); !errors.Is(err, store.ErrNoStore) {
		t.Error(err)
	}
}
