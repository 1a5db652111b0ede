package memory_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

// about is an embedder with two topics, animals and food. In a program, use an embedder
// that calls a model, or package uselite.
type about struct{}

func (about) Model() string  { return "about" }
func (about) Dimension() int { return 3 }

func (about) Embed(_ context.Context, texts []string) ([][]float32, error) {
	out := make([][]float32, len(texts))
	for i, text := range texts {
		out[i] = []float32{0, 0, 0.1}
		for topic, words := range []string{"cat dog pet", "eats food dinner"} {
			for word := range strings.FieldsSeq(words) {
				if strings.Contains(text, word) {
					out[i][topic] = 1
				}
			}
		}
	}
	return out, nil
}

// The name of a person in a message recalls memories about that person, even if the
// message is about something else. Without a name, semantic similarity decides.
func ExampleRecaller_names() {
	ctx := context.Background()
	items := treadle.Must(store.NewMemory(&store.Options{Embedder: about{}}))
	for _, text := range []string{"Priya keeps bees on the roof", "Tom eats no meat", "Ann has a cat", "The spare key is under the mat"} {
		key, _, _ := strings.Cut(text, " ")
		if err := items.Put(ctx, store.Namespace{"team"}, key, map[string]any{"kind": "Memory", "content": memory.Memory{Content: text}}, nil); err != nil {
			fmt.Println(err)
			return
		}
	}
	recall := treadle.Must(memory.NewRecaller(&memory.RecallerOptions{Namespace: []string{"team"}, Store: items}))
	for _, question := range []string{
		"What could I give Priya for her birthday?",
		"Is there food for everybody when Tom joins us?",
		"Whose pet is that?",
	} {
		got, err := recall.Recall(ctx, llm.User(question))
		if err != nil {
			fmt.Println(err)
			return
		}
		first := got.Memories[0]
		fmt.Println(first.Item.Key, first.Why.Search.Terms)
	}
	// Output:
	// Priya [priya]
	// Tom [tom]
	// Ann []
}
