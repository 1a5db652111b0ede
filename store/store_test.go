package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/store"
)

// counting is an embedder that records its calls.
type counting struct {
	store.Embedder
	mu    sync.Mutex
	calls [][]string
}

func (c *counting) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, slices.Clone(texts))
	return c.Embedder.Embed(ctx, texts)
}

func TestTextsAreEmbeddedInOneCall(t *testing.T) {
	e := &counting{Embedder: store.NewHashEmbedder(16)}
	s, err := store.NewMemory(&store.Options{Embedder: e, Fields: []string{"a", "b"}})
	if err != nil {
		t.Fatal(err)
	}
	n := store.Namespace{"n"}
	put := func(key, a, b string) store.Op {
		return store.PutOp{Namespace: n, Key: key, Value: map[string]string{"a": a, "b": b}}
	}
	search := store.SearchOp{Prefix: n, SearchOptions: store.SearchOptions{Query: "three"}}
	for range 2 {
		if _, err := s.Batch(t.Context(), put("1", "one", "never"), put("2", "two", "three"), put("1", "one", "four"), search); err != nil {
			t.Fatal(err)
		}
	}
	if len(e.calls) != 1 {
		t.Fatalf("got embedder calls %q", e.calls)
	}
	slices.Sort(e.calls[0])
	if diff := cmp.Diff([]string{"four", "one", "three", "two"}, e.calls[0]); diff != "" {
		t.Errorf("texts (-want +got):\n%s", diff)
	}
	if err := s.Put(t.Context(), n, "3", map[string]string{"a": "one", "b": "five"}, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"five"}, e.calls[1]); diff != "" {
		t.Errorf("texts of the second call (-want +got):\n%s", diff)
	}
}

func TestManyTextsAreEmbeddedInBatches(t *testing.T) {
	e := &counting{Embedder: store.NewHashEmbedder(16)}
	s, err := store.NewMemory(&store.Options{Embedder: e})
	if err != nil {
		t.Fatal(err)
	}
	var ops []store.Op
	for i := range 600 {
		ops = append(ops, store.PutOp{Namespace: store.Namespace{"n"}, Key: fmt.Sprint(i), Value: map[string]int{"i": i}})
	}
	if _, err := s.Batch(t.Context(), ops...); err != nil {
		t.Fatal(err)
	}
	var sizes []int
	for _, texts := range e.calls {
		sizes = append(sizes, len(texts))
	}
	if diff := cmp.Diff([]int{256, 256, 88}, sizes); diff != "" {
		t.Errorf("texts per call (-want +got):\n%s", diff)
	}
}

func TestVectorCacheEvictsLeastRecentlyUsed(t *testing.T) {
	e := &counting{Embedder: store.NewHashEmbedder(2)}
	s, err := store.NewMemory(&store.Options{Embedder: e})
	if err != nil {
		t.Fatal(err)
	}
	search := func(query string) (calls int) {
		before := len(e.calls)
		if _, err := s.Search(t.Context(), nil, &store.SearchOptions{Query: query}); err != nil {
			t.Fatal(err)
		}
		return len(e.calls) - before
	}
	search("first")
	search("kept")
	for i := range 5000 {
		if calls := search(fmt.Sprint(i)); calls != 1 {
			t.Fatalf("query %d embedded %d times", i, calls)
		}
		if calls := search("kept"); calls != 0 {
			t.Fatalf("recently used text embedded again after query %d", i)
		}
	}
	if calls := search("first"); calls != 1 {
		t.Errorf("least recently used text not evicted")
	}
}

func TestKeywordSearchEmbedsNothing(t *testing.T) {
	e := &counting{Embedder: store.NewHashEmbedder(16)}
	s, err := store.NewMemory(&store.Options{Embedder: e})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []store.SearchOptions{{Query: "x", Ranking: store.Keyword}, {}, {Filter: store.Exists("a")}} {
		if _, err := s.Search(t.Context(), nil, &o); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Put(t.Context(), store.Namespace{"n"}, "k", map[string]string{"a": "x"}, &store.PutOptions{NoIndex: true}); err != nil {
		t.Fatal(err)
	}
	if len(e.calls) != 0 {
		t.Errorf("got embedder calls %q", e.calls)
	}
}

// A watcher of an in-memory store sleeps until a change arrives.
func TestWatchDoesNotPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := store.NewMemory(nil)
		if err != nil {
			t.Fatal(err)
		}
		n := store.Namespace{"n"}
		if err := s.Put(t.Context(), n, "before", map[string]any{}, nil); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		type seen struct {
			key string
			at  time.Duration
		}
		var all []seen
		var end error
		start := time.Now()
		go func() {
			for c, err := range s.Watch(ctx, n, store.Latest) {
				if err != nil {
					end = err
					return
				}
				all = append(all, seen{c.Key, time.Since(start)})
			}
		}()
		synctest.Wait()
		for i := range 3 {
			<-time.After(time.Hour)
			if err := s.Put(t.Context(), n, fmt.Sprint(i), map[string]any{}, nil); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		cancel()
		synctest.Wait()
		if diff := cmp.Diff([]seen{{"0", time.Hour}, {"1", 2 * time.Hour}, {"2", 3 * time.Hour}}, all, cmp.AllowUnexported(seen{})); diff != "" {
			t.Errorf("changes (-want +got):\n%s", diff)
		}
		if !errors.Is(end, context.Canceled) {
			t.Errorf("watch ended with %v", end)
		}
	})
}

func TestTTLFollowsTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := store.NewMemory(&store.Options{TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		n := store.Namespace{"n"}
		if err := s.Put(t.Context(), n, "k", map[string]any{}, nil); err != nil {
			t.Fatal(err)
		}
		for range 3 { // each get resets the TTL to an hour
			<-time.After(time.Hour - time.Microsecond)
			if _, err := s.Get(t.Context(), n, "k", nil); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(time.Hour)
		if _, err := s.Get(t.Context(), n, "k", nil); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("an hour later: %v", err)
		}
	})
}

func TestCanceledContextFailsEveryCall(t *testing.T) {
	s, err := store.NewMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range map[string]func() error{
		"put":     func() error { return s.Put(ctx, store.Namespace{"n"}, "k", map[string]any{}, nil) },
		"search":  func() error { _, err := s.Search(ctx, nil, &store.SearchOptions{Query: "x"}); return err },
		"history": func() error { _, err := s.History(ctx, store.Namespace{"n"}, "k"); return err },
		"sweep":   func() error { _, err := s.Sweep(ctx); return err },
		"reindex": func() error { _, err := s.Reindex(ctx); return err },
	} {
		if err := call(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestItemDecode(t *testing.T) {
	s, err := store.NewMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	n := store.Namespace{"n"}
	type value struct{ City string }
	type meta struct{ Source string }
	if err := s.Put(t.Context(), n, "k", value{"Paris"}, &store.PutOptions{Meta: meta{"chat"}}); err != nil {
		t.Fatal(err)
	}
	item, err := s.Get(t.Context(), n, "k", nil)
	if err != nil {
		t.Fatal(err)
	}
	var v value
	var m meta
	if err := errors.Join(item.Decode(&v), item.DecodeMeta(&m)); err != nil || v.City != "Paris" || m.Source != "chat" {
		t.Errorf("%+v, %+v, %v", v, m, err)
	}
	var wrong struct{ City int }
	want := `store: value of key "k" in namespace ["n"]: json: cannot unmarshal string into Go struct field .City of type int`
	if err := item.Decode(&wrong); err == nil || err.Error() != want {
		t.Errorf("got error %v, want %s", err, want)
	}
	item.Meta = nil
	if err := item.DecodeMeta(&m); err != nil || m.Source != "chat" {
		t.Errorf("without meta: %+v, %v", m, err)
	}
}
