package store_test

import (
	"context"
	"fmt"

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

// Search finds items by a query, a filter, or both. Without an embedder a query is
// compared with the words of the items, with one also with their meaning.
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
