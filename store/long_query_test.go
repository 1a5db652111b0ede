package store_test

import (
	"context"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/treadle-go/treadle/store"
)

// reader is an embedder that records its input.
type reader struct{ read []string }

func (*reader) Model() string  { return "reader" }
func (*reader) Dimension() int { return 1 }
func (r *reader) Embed(_ context.Context, texts []string) ([][]float32, error) {
	r.read = append(r.read, texts...)
	vectors := make([][]float32, len(texts))
	for i := range vectors {
		vectors[i] = []float32{1}
	}
	return vectors, nil
}

// Model providers reject long texts, so a search with a long message would
// otherwise fail.
func TestLongQueryIsEmbeddedByItsEnds(t *testing.T) {
	for name, middle := range map[string]string{"words": strings.Repeat("and so on ", 10_000), "no spaces": strings.Repeat("そして", 20_000)} {
		t.Run(name, func(t *testing.T) {
			r := &reader{}
			s, err := store.NewMemory(&store.Options{Embedder: r})
			if err != nil {
				t.Fatal(err)
			}
			for _, ranking := range []store.Ranking{store.Semantic, store.Hybrid} {
				r.read = nil
				query := "Who is Ann? " + middle + " And where is Bob?"
				if ranking == store.Hybrid {
					query = "Again: " + query // a different query, because vectors are cached
				}
				if _, err := s.Search(t.Context(), nil, &store.SearchOptions{Query: query, Ranking: ranking}); err != nil {
					t.Fatal(err)
				}
				if len(r.read) != 1 || len(r.read[0]) > 8<<10 || !utf8.ValidString(r.read[0]) {
					t.Fatalf("%d texts embedded, the first of %d bytes", len(r.read), len(r.read[0]))
				}
				if text := r.read[0]; !strings.Contains(text, "Who is Ann?") || !strings.HasSuffix(text, "where is Bob?") {
					t.Errorf("embedded text %.40q … %q", text, text[len(text)-20:])
				}
			}
		})
	}
}
