package store_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/treadle-go/treadle/store"
)

// flat stands for a real model of embeddings: all texts are the same to it.
type flat struct{}

func (flat) Model() string  { return "flat" }
func (flat) Dimension() int { return 2 }

func (flat) Embed(_ context.Context, texts []string) ([][]float32, error) {
	vectors := make([][]float32, len(texts))
	for i := range vectors {
		vectors[i] = []float32{1, 2}
	}
	return vectors, nil
}

// A memory is a JSON object under a key, in the namespace of a user and an application. It
// is read by its key, or found by its content.
//
// Sample: C1.
func Example_putGetSearch() {
	ctx := context.Background()
	s, err := store.NewMemory(&store.Options{Embedder: flat{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	namespace := store.Namespace{"my-user", "chitchat"}
	err = s.Put(ctx, namespace, "a-memory", map[string]any{
		"rules":  []string{"User likes short, direct language", "User only speaks English & python"},
		"my-key": "my-value",
	}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	item, err := s.Get(ctx, namespace, "a-memory", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", item.Value)
	items, err := s.Search(ctx, namespace, &store.SearchOptions{
		Filter: store.Eq("my-key", "my-value"),
		Query:  "language preferences",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, item := range items {
		fmt.Printf("%s %.2f\n", item.Key, item.Score)
	}
	// Output:
	// {"my-key":"my-value","rules":["User likes short, direct language","User only speaks English & python"]}
	// a-memory 1.00
}

// Without a query a search returns the newest items, the most recent one last.
//
// Sample: C2.
func Example_basicUse() {
	ctx := context.Background()
	clock := func() time.Time { return time.Date(2024, 10, 2, 17, 22, 31, 590602000, time.UTC) }
	s, err := store.NewMemory(&store.Options{Now: clock})
	if err != nil {
		fmt.Println(err)
		return
	}
	memories := store.Namespace{"1", "memories"}
	const id = "07e0caf4-1631-47b7-b15f-65515d4c1843"
	if err := s.Put(ctx, memories, id, map[string]string{"food_preference": "I like pizza"}, nil); err != nil {
		fmt.Println(err)
		return
	}
	items, err := s.Search(ctx, memories, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	last := items[len(items)-1]
	fmt.Printf("value: %s\nkey: %s\nnamespace: %v\n", last.Value, last.Key, last.Namespace)
	fmt.Println("created:", last.Created.Format(time.RFC3339Nano))
	fmt.Println("updated:", last.Updated.Format(time.RFC3339Nano))
	// Output:
	// value: {"food_preference":"I like pizza"}
	// key: 07e0caf4-1631-47b7-b15f-65515d4c1843
	// namespace: ["1" "memories"]
	// created: 2024-10-02T17:22:31.590602Z
	// updated: 2024-10-02T17:22:31.590602Z
}

// A put that names the version it replaces fails if another writer was faster. Read again
// and retry, so that no update is lost.
func Example_compareAndSet() {
	ctx := context.Background()
	s, err := store.NewMemory(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	type counter struct{ N int }
	stats := store.Namespace{"stats"}
	increment := func() error {
		for {
			var c counter
			o := &store.PutOptions{IfAbsent: true}
			item, err := s.Get(ctx, stats, "visits", nil)
			switch {
			case err == nil:
				if err := item.Decode(&c); err != nil {
					return err
				}
				o = &store.PutOptions{IfVersion: item.Version}
			case !errors.Is(err, store.ErrNotFound):
				return err
			}
			c.N++
			err = s.Put(ctx, stats, "visits", c, o)
			if _, lost := errors.AsType[*store.ConflictError](err); !lost {
				return err
			}
		}
	}
	for range 3 {
		if err := increment(); err != nil {
			fmt.Println(err)
			return
		}
	}
	item, err := s.Get(ctx, stats, "visits", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", item.Value)
	// Output:
	// {"N":3}
}
