package store_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/treadle-go/treadle/store"
)

// tastes represents a real embedding model: it has a few words about food and a few about
// work.
type tastes struct{}

func (tastes) Model() string  { return "tastes" }
func (tastes) Dimension() int { return 3 }

func (tastes) Embed(_ context.Context, texts []string) ([][]float32, error) {
	about := map[string]int{"eat": 0, "pizza": 0, "cuisine": 0, "dinner": 0, "job": 1, "plumber": 1}
	vectors := make([][]float32, len(texts))
	for i, text := range texts {
		vectors[i] = []float32{0, 0, 0.2}
		for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return r < 'a' || r > 'z' }) {
			if j, ok := about[word]; ok {
				vectors[i][j]++
			}
		}
	}
	return vectors, nil
}

// With an embedder a search is by meaning: no item has a word in common with the
// query. Each item is found by its food_preference and by the whole of it,
// whichever is nearer.
//
// Sample: C3.
func Example_semanticSearch() {
	ctx := context.Background()
	s, err := store.NewMemory(&store.Options{Embedder: tastes{}, Fields: []string{"food_preference", "$"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	memories := store.Namespace{"1", "memories"}
	for _, m := range []struct {
		key   string
		value map[string]string
	}{
		{"italian", map[string]string{"food_preference": "I love pizza", "context": "a job interview"}},
		{"work", map[string]string{"context": "I am a plumber"}},
		{"weather", map[string]string{"context": "It rains"}},
		{"dinner", map[string]string{"food_preference": "good, especially the cuisine of my job"}},
	} {
		if err := s.Put(ctx, memories, m.key, m.value, nil); err != nil {
			fmt.Println(err)
			return
		}
	}
	items, err := s.Search(ctx, memories, &store.SearchOptions{
		Query:   "What does the user like to eat?",
		Limit:   3,
		Explain: true,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, item := range items {
		fmt.Printf("%s %.2f by %s\n", item.Key, item.Score, item.Explanation.Field)
	}
	// Output:
	// italian 1.00 by food_preference
	// dinner 0.71 by food_preference
	// weather 0.20 by $
}

// An item can name the fields that queries search, or none: then it is found by its key,
// by listing and by filter only.
//
// Sample: C4.
func Example_index() {
	ctx := context.Background()
	s, err := store.NewMemory(&store.Options{Embedder: tastes{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	memories := store.Namespace{"1", "memories"}
	err = s.Put(ctx, memories, "taste", map[string]string{
		"food_preference": "I love Italian cuisine",
		"context":         "Discussing dinner plans",
	}, &store.PutOptions{Index: []string{"food_preference"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = s.Put(ctx, memories, "system", map[string]string{"system_info": "Last updated: 2024-01-01"}, &store.PutOptions{NoIndex: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, o := range []*store.SearchOptions{{Query: "what to eat", Explain: true}, {Query: "Last updated"}, nil} {
		items, err := s.Search(ctx, memories, o)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Print("found:")
		for _, item := range items {
			fmt.Print(" ", item.Key)
			if item.Explanation != nil {
				fmt.Print(" by ", item.Explanation.Field)
			}
		}
		fmt.Println()
	}
	item, err := s.Get(ctx, memories, "system", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", item.Value)
	// Output:
	// found: taste by food_preference
	// found: taste
	// found: taste system
	// {"system_info":"Last updated: 2024-01-01"}
}

// Without an embedder, search uses keywords. With one, Hybrid uses both; the explanation
// shows what each contributed.
func Example_hybrid() {
	ctx := context.Background()
	s, err := store.NewMemory(&store.Options{Embedder: tastes{}, Ranking: store.Hybrid, Fields: []string{"text"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	notes := store.Namespace{"notes"}
	for i, text := range []string{"pizza at Luigi", "order number X17", "some cuisine"} {
		if err := s.Put(ctx, notes, fmt.Sprint(i), map[string]string{"text": text}, nil); err != nil {
			fmt.Println(err)
			return
		}
	}
	items, err := s.Search(ctx, notes, &store.SearchOptions{Query: "eat, order number x17", Explain: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, item := range items {
		e := item.Explanation
		fmt.Printf("%s: by meaning %d (%.2f), by words %d %v\n", item.Key, e.SimilarityRank, e.Similarity, e.KeywordRank, e.Terms)
	}
	// Output:
	// 2: by meaning 1 (1.00), by words 0 []
	// 0: by meaning 2 (1.00), by words 0 []
	// 1: by meaning 3 (0.20), by words 1 [number order x17]
}
