package memory_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

// rate rates the recalled memory with a key.
func (s *shelf) rate(rating memory.Rating, key string) {
	s.Helper()
	r := s.recaller(memory.RecallerOptions{})
	got, err := r.Recall(s.Context(), llm.User("tea"))
	if err != nil {
		s.Fatal(err)
	}
	for _, m := range got.Memories {
		if m.Item.Key == key {
			err = r.Rate(s.Context(), rating, m)
		}
	}
	if err != nil {
		s.Fatal(err)
	}
}

func TestRatingsDecideRank(t *testing.T) {
	s := newShelf(t, store.Options{})
	for _, key := range []string{"a", "b", "c"} {
		s.note(key, "tea is in jar "+key, nil)
	}
	s.rate(memory.Misled, "c")
	s.rate(memory.Helped, "a")
	s.rate(memory.Helped, "a")
	got := s.recall(memory.RecallerOptions{}, "tea")
	wantRecalled(t, got, "a", "b", "c")
	a, c := got.Memories[0].Why, got.Memories[2].Why
	if a.Helped != 2 || a.Misled != 0 || a.Rating != 0.5 || c.Misled != 1 || c.Rating >= 0 || !strings.Contains(a.String(), "rating +0.50") {
		t.Errorf("the reasons are %v and %v", a, c)
	}
	if v := got.Memories[0].Item.Version; v != 1 {
		t.Errorf("the rated memory has version %d", v)
	}
	wantRecalled(t, s.recall(memory.RecallerOptions{Weights: &memory.Weights{Recency: 1}}, "tea"), "c", "b", "a")
	wantRecalled(t, s.recall(memory.RecallerOptions{Weights: &memory.Weights{Rating: 1000}}, "tea"), "a", "b", "c") // no negative score
}

func TestRateRejectsForeignMemories(t *testing.T) {
	s := newShelf(t, store.Options{})
	s.note("a", "tea", nil)
	r := s.recaller(memory.RecallerOptions{})
	mine := s.recall(memory.RecallerOptions{}, "tea").Memories[0]
	other := memory.Recalled{Item: &store.Item{Namespace: store.Namespace{"others"}, Key: "a"}}
	for want, err := range map[string]error{
		"unknown rating 7":        r.Rate(t.Context(), 7, mine),
		"without Item":            r.Rate(t.Context(), memory.Helped, memory.Recalled{}),
		"not under the namespace": r.Rate(t.Context(), memory.Helped, mine, other),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
	if got := s.recall(memory.RecallerOptions{}, "tea").Memories[0].Why; got.Helped != 0 {
		t.Errorf("a rejected call rated: %v", got)
	}
}

func TestConcurrentRatingsAreAllCounted(t *testing.T) {
	s := newShelf(t, store.Options{})
	s.note("a", "tea", nil)
	m := s.recall(memory.RecallerOptions{}, "tea").Memories[0]
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			r := s.recaller(memory.RecallerOptions{})
			if _, err := r.Recall(context.Background(), llm.User("tea")); err != nil { // counts a use
				t.Error(err)
			}
			if err := r.Rate(context.Background(), []memory.Rating{memory.Helped, memory.Misled}[i%2], m); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := s.recall(memory.RecallerOptions{}, "tea").Memories[0].Why; got.Helped != 10 || got.Misled != 10 || got.Uses == 0 {
		t.Errorf("the reasons are %v", got)
	}
}

// Ratings are exported, imported, forgotten, and erased with their memory.
func TestRatingsFollowTheirMemory(t *testing.T) {
	s := newShelf(t, store.Options{})
	s.note("a", "tea", nil)
	s.note("b", "tea too", nil)
	s.rate(memory.Helped, "a")
	s.rate(memory.Misled, "b")
	var file bytes.Buffer
	if _, err := memory.Export(t.Context(), s.Store, &file, memories); err != nil {
		t.Fatal(err)
	}
	copied := newShelf(t, store.Options{})
	if _, err := copied.Import(t.Context(), &file); err != nil {
		t.Fatal(err)
	}
	if got := copied.recall(memory.RecallerOptions{}, "tea").Memories[0]; got.Item.Key != "a" || got.Why.Helped != 1 {
		t.Errorf("%s was imported with %v", got.Item.Key, got.Why)
	}
	left := func() string {
		items, err := s.Search(t.Context(), store.Namespace{"__memory_uses__"}, &store.SearchOptions{Filter: store.Exists("helped")})
		if err != nil {
			t.Fatal(err)
		}
		var keys []string
		for _, item := range items {
			keys = append(keys, item.Key)
		}
		return fmt.Sprint(keys)
	}
	m := newStoreManager(t, s.Store, llmtest.NewScript(), memory.StoreManagerOptions{})
	if err := m.Forget(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if got := left(); got != "[b]" {
		t.Errorf("after Forget, the ratings of %s are left", got)
	}
	if _, err := (&memory.Erasure{Store: s.Store, Namespaces: []store.Namespace{memories}}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := left(); got != "[]" {
		t.Errorf("after the erasure, the ratings of %s are left", got)
	}
}

func TestMergeAddsRatings(t *testing.T) {
	s := newShelf(t, store.Options{})
	s.note("a", "tea", nil)
	s.rate(memory.Helped, "a")
	fork, err := s.Fork(t.Context(), store.Latest, store.BranchInfo{})
	if err != nil {
		t.Fatal(err)
	}
	s.rate(memory.Misled, "a")
	r, err := memory.NewRecaller(&memory.RecallerOptions{Namespace: memories, Store: fork})
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.Recall(t.Context(), llm.User("tea"))
	if err == nil {
		err = r.Rate(t.Context(), memory.Helped, got.Memories...)
	}
	if err == nil {
		err = memory.Merge(t.Context(), fork, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	if w := s.recall(memory.RecallerOptions{}, "tea").Memories[0].Why; w.Helped != 2 || w.Misled != 1 {
		t.Errorf("the reasons are %v", w)
	}
}

// A forged rating neither fails a recall nor changes the rank.
func TestForgedRatingsAreIgnored(t *testing.T) {
	for _, forged := range []string{`{"helped":-2}`, `{"helped":"many"}`, `{"misled":true}`} {
		s := newShelf(t, store.Options{})
		s.note("a", "tea", nil)
		if err := s.Put(t.Context(), append(append(store.Namespace{"__memory_uses__"}, memories...), "__memory_uses__"), "a", json.RawMessage(forged), nil); err != nil {
			t.Fatal(err)
		}
		if w := s.recall(memory.RecallerOptions{}, "tea").Memories[0].Why; w.Rating != 0 {
			t.Errorf("%s counts: %v", forged, w)
		}
		s.rate(memory.Helped, "a")
	}
}

// A memory that misled comes after others of the same relevance.
func ExampleRecaller_Rate() {
	ctx := context.Background()
	items, err := store.NewMemory(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, text := range []string{"The spare key is under the mat", "The spare key is with the neighbor"} {
		if err := items.Put(ctx, store.Namespace{"ada"}, text, map[string]any{"kind": "Memory", "content": memory.Memory{Content: text}}, nil); err != nil {
			fmt.Println(err)
			return
		}
	}
	recall, err := memory.NewRecaller(&memory.RecallerOptions{Namespace: []string{"ada"}, Store: items})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		got, err := recall.Recall(ctx, llm.User("Where is the spare key?"))
		if err != nil {
			fmt.Println(err)
			return
		}
		first := got.Memories[0]
		fmt.Printf("%s (rating %.2f)\n", first.Item.Key, first.Why.Rating)
		if err := recall.Rate(ctx, memory.Misled, first); err != nil { // the user says that it is not there
			fmt.Println(err)
			return
		}
	}
	// Output:
	// The spare key is with the neighbor (rating 0.00)
	// The spare key is under the mat (rating 0.00)
}
