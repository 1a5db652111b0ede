package store_test

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/treadle-go/treadle/store"
)

// A store keeps JSON under namespaces and keys, for all threads.
func Example() {
	ctx := context.Background()
	s, err := store.NewMemory(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	users := store.Namespace{"users", "ada"}
	if err := s.Put(ctx, users, "drink", map[string]any{"likes": "green tea", "cups": 3}, nil); err != nil {
		fmt.Println(err)
		return
	}
	item, err := s.Get(ctx, users, "drink", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	var drink struct{ Likes string }
	fmt.Println(item.Decode(&drink), drink.Likes)
	// Output: <nil> green tea
}

// Search finds items by a query, a filter, or both. Without an embedder, a
// query matches words; with an embedder, it also matches meaning.
func ExampleStore_Search() {
	ctx := context.Background()
	s, err := store.NewMemory(&store.Options{Embedder: store.NewHashEmbedder(256)})
	if err != nil {
		fmt.Println(err)
		return
	}
	books := store.Namespace{"books"}
	for key, value := range map[string]map[string]any{
		"emma":    {"about": "a woman who arranges marriages", "year": 1815},
		"dracula": {"about": "a count who drinks blood", "year": 1897},
		"dune":    {"about": "a desert planet with worms", "year": 1965},
	} {
		if err := s.Put(ctx, books, key, value, nil); err != nil {
			fmt.Println(err)
			return
		}
	}
	found, err := s.Search(ctx, books, &store.SearchOptions{Query: "the count of blood", Filter: store.Lt("year", 1900), Limit: 1})
	for _, item := range found {
		fmt.Println(item.Key)
	}
	fmt.Println(err)
	// Output:
	// dracula
	// <nil>
}

// An export contains one line of JSON per version of each item. Another store
// imports it with all times. Importing it again adds nothing.
func ExampleStore_Export() {
	ctx := context.Background()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	from, err := store.NewMemory(&store.Options{Now: func() time.Time { return now }})
	if err != nil {
		fmt.Println(err)
		return
	}
	ada := store.Namespace{"users", "ada"}
	_ = from.Put(ctx, ada, "drink", map[string]any{"likes": "coffee"}, nil)
	now = now.Add(time.Hour)
	_ = from.Put(ctx, ada, "drink", map[string]any{"likes": "tea"}, nil)
	var file bytes.Buffer
	if _, err := from.Export(ctx, &file, ada); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(file.String())

	to, err := store.NewMemory(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		report, err := to.Import(ctx, bytes.NewReader(file.Bytes()))
		fmt.Println(report.Versions, "added,", report.Same, "unchanged,", err)
	}
	item, _ := to.AsOf(now.Add(-time.Minute)).Get(ctx, ada, "drink")
	fmt.Println(string(item.Value))
	// Output:
	// {"format":"treadle store","version":1}
	// {"namespace":["users","ada"],"key":"drink","kind":"put","created":"2026-03-01T12:00:00Z","updated":"2026-03-01T12:00:00Z","value":{"likes":"coffee"}}
	// {"namespace":["users","ada"],"key":"drink","kind":"put","created":"2026-03-01T12:00:00Z","updated":"2026-03-01T13:00:00Z","value":{"likes":"tea"}}
	// {"end":2}
	// 2 added, 0 unchanged, <nil>
	// 0 added, 2 unchanged, <nil>
	// {"likes":"coffee"}
}
