package memory_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

// counting counts the searches with a limit of its own that reach the backend.
type counting struct {
	store.Backend
	batches, searches atomic.Int64
}

func (c *counting) Do(ctx context.Context, b *store.Batch) (*store.Results, error) {
	c.batches.Add(1)
	c.searches.Add(int64(len(b.Searches)))
	return c.Backend.Do(ctx, b)
}

// Upstream's synchronous path runs every search twice, and its other path forgets
// the limit.
//
// Defect: 3.1 every search runs twice.
// Defect: 3.1 limit omitted.
func TestStoreManagerRecallsInOneBatch(t *testing.T) {
	backend := &counting{Backend: store.NewMemoryBackend()}
	s, err := store.New(backend, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		put(t, s, fmt.Sprint(i), fmt.Sprintf(`{"kind":"Memory","content":{"content":"fact %d"}}`, i))
	}
	backend.batches.Store(0)
	m := newStoreManager(t, s, llmtest.NewScript(), memory.StoreOptions{Limit: 8})
	items, err := m.Recall(t.Context(), llm.User("fact"), llm.User("fact 1"), llm.User("fact 2"))
	if err != nil || len(items) != 8 {
		t.Fatalf("got %d items and %v, want 8", len(items), err)
	}
	// Two windows of messages, and the newest.
	if b, n := backend.batches.Load(), backend.searches.Load(); b != 1 || n != 3 {
		t.Errorf("there were %d batches with %d searches, want 1 with 3", b, n)
	}
}

// Upstream keeps the first store that it was used with for good.
//
// Defect: 3.1 store cached on first use.
func TestStoreManagerUsesTheStoreOfEachRun(t *testing.T) {
	m, err := memory.NewStoreManager(llmtest.Scripted(t, llmtest.Ask(note("x")), llmtest.Ask(note("y"))), &memory.StoreOptions{Namespace: memories})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"x", "y"} {
		s := newStore(t, nil)
		g, err := treadle.NewWorkflow("learn", func(ctx context.Context, text string) (int, error) {
			changes, err := m.Reflect(ctx, llm.User(text))
			return len(changes), err
		}, &treadle.Options{Store: s})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.Run(t.Context(), "…"); err != nil {
			t.Fatal(err)
		}
		wantStored(t, s, `{"kind":"Memory","content":{"content":"`+want+`"}}`)
	}
}

// Defect: 3.1 steps not forwarded to phases.
func TestStoreManagerPhasesTakeAsManySteps(t *testing.T) {
	s := newStore(t, nil)
	model := llmtest.Scripted(t, llmtest.Ask(note("x")), llmtest.Ask(done()), llmtest.Ask(note("y")), llmtest.Ask(note("z")))
	o := memory.StoreOptions{Phases: []memory.Phase{{}}}
	o.Steps = 2
	changes, err := newStoreManager(t, s, model, o).Reflect(t.Context(), llm.User("…"))
	if d := cmp.Diff([]string{"insert", "insert", "insert"}, opsOf(changes)); err != nil || d != "" {
		t.Errorf("%v %s", err, d)
	}
}

// Defect: 3.1 updates cannot be switched off.
func TestStoreManagerLeavesMemoriesAloneIfUpdatesAreOff(t *testing.T) {
	s := newStore(t, nil)
	put(t, s, "a", teaItem)
	o := memory.StoreOptions{}
	o.NoUpdates = true
	model := llmtest.Scripted(t, llmtest.Turn{Message: llm.Assistant("", done()), Expect: []func(*llm.Request) error{llmtest.Offered("Memory", "Done")}})
	if changes, err := newStoreManager(t, s, model, o).Reflect(t.Context(), llm.User("…")); err != nil || len(changes) != 0 {
		t.Errorf("got %v and %v, want no change", changes, err)
	}
}

// Keys in different namespaces may be the same: upstream's ids are made of both,
// ours are places in what was recalled.
func TestStoreManagerTellsEqualKeysOfNamespacesApart(t *testing.T) {
	s := newStore(t, nil)
	put(t, s, "a", teaItem)
	below := store.Namespace{"memories", "below"}
	if err := s.Put(t.Context(), below, "a", map[string]string{"content": "Bob is tall"}, nil); err != nil {
		t.Fatal(err)
	}
	m := newStoreManager(t, s, llmtest.Scripted(t, llmtest.Ask(patch("m1", replace("/content", "Bob is small")))), memory.StoreOptions{})
	changes, err := m.Reflect(t.Context(), llm.User("Bob"))
	if err != nil || len(changes) != 1 || cmp.Diff(below, changes[0].Namespace) != "" {
		t.Fatalf("got %v and %v", changes, err)
	}
	wantStored(t, s, teaItem, `{"kind":"Memory","content":{"content":"Bob is small"}}`)
}
