package minilm

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/treadle-go/treadle/store/internal/matmul"
)

// reference is a text with the tokens of Hugging Face's tokenizer and every sixteenth
// number of the vector that testdata/reference.py computes.
type reference struct {
	Text   string    `json:"text"`
	IDs    []int32   `json:"ids"`
	Vector []float64 `json:"vector"`
}

func references(t *testing.T) (out []reference) {
	t.Helper()
	raw, err := os.ReadFile("testdata/reference.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTokensMatchReference(t *testing.T) {
	e := openModel(t)
	for _, want := range references(t) {
		if got := e.vocab.tokens(want.Text, maxTokens); !slices.Equal(got, want.IDs) {
			t.Errorf("%.40q: got tokens %v, want %v", want.Text, got, want.IDs)
		}
	}
}

func TestVectorsMatchReference(t *testing.T) {
	e := openModel(t)
	all := references(t)
	for name, mul := range matmul.Kernels(processor) {
		e := &Encoder{vocab: e.vocab, network: e.network, kernel: mul}
		all := slices.DeleteFunc(slices.Clone(all), func(r reference) bool {
			return name == "portable" && len(r.IDs) > 16 // slow under the race detector
		})
		var texts []string
		for _, r := range all {
			texts = append(texts, r.Text)
		}
		vectors, err := e.Embed(t.Context(), texts)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range all {
			for j, number := range want.Vector {
				if got := float64(vectors[i][16*j]); math.Abs(got-number) > 1e-4 {
					t.Errorf("%s: %.40q: number %d is %g, want %g", name, want.Text, 16*j, got, number)
					break
				}
			}
		}
	}
}

func TestGeluMatchesDefinition(t *testing.T) {
	for x := float32(-8); x < 8; x += 0.00371 {
		got := []float32{x}
		gelu(got)
		if want := float64(x) * 0.5 * math.Erfc(-float64(x)/math.Sqrt2); math.Abs(float64(got[0])-want) > 2e-6 {
			t.Errorf("gelu(%g) = %g, want %g", x, got[0], want)
		}
	}
}
