package store_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/store"
)

func hashed(t *testing.T, dimension int, texts ...string) [][]float32 {
	t.Helper()
	vectors, err := store.NewHashEmbedder(dimension).Embed(t.Context(), texts)
	if err != nil {
		t.Fatal(err)
	}
	return vectors
}

func TestHashEmbedderGroupsSimilarSpellings(t *testing.T) {
	v := hashed(t, 256, "green tea", "Green TEAS!", "yellow submarine")
	dot := func(a, b []float32) (sum float32) {
		for i := range a {
			sum += a[i] * b[i]
		}
		return sum
	}
	if near, far := dot(v[0], v[1]), dot(v[0], v[2]); near < 3*far || near <= 0 {
		t.Errorf("similarity of similar texts %v, of different texts %v", near, far)
	}
}

// Stores keep vectors, so a model's vectors must never change.
func TestHashEmbedderIsStable(t *testing.T) {
	want := [][]float32{{-1, 0, 0, -0.5}, {0, 0, 0, 0}}
	if diff := cmp.Diff(want, hashed(t, 4, "tea", "")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
