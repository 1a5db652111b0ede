package uselite

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// A sample is a text and what the reference implementation makes of it.
type sample struct {
	Text       string
	Tokens     []int32
	Millionths []float64
}

func readReference(t *testing.T) (vectors, tokens []sample) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "reference.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Vectors, Tokens []sample }
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	return file.Vectors, file.Tokens
}

func TestTokensAreThoseOfTheReference(t *testing.T) {
	vocab := openModel(t).vocab
	vectors, tokens := readReference(t)
	for _, sample := range append(vectors, tokens...) {
		if diff := cmp.Diff(sample.Tokens, vocab.tokens(sample.Text, maxTokens), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("the tokens of %q (-reference +ours):\n%s", sample.Text, diff)
		}
	}
}

func TestVectorsAreThoseOfTheReference(t *testing.T) {
	encoder := openModel(t)
	vectors, _ := readReference(t)
	for name, mul := range map[string]kernel{"fastest": fastest(), "portable": portable} {
		t.Run(name, func(t *testing.T) {
			encoder := &Encoder{vocab: encoder.vocab, network: encoder.network, kernel: mul}
			var worst float64
			for _, sample := range vectors {
				got, err := encoder.Embed(t.Context(), []string{sample.Text})
				if err != nil {
					t.Fatal(err)
				}
				var dot, length, most float64
				for i, number := range got[0] {
					want := sample.Millionths[i] / 1e6
					dot += float64(number) * want
					length += want * want
					most = max(most, math.Abs(float64(number)-want))
				}
				worst = max(worst, most)
				if cosine := dot / math.Sqrt(length); len(got[0]) != 512 || cosine < 0.99999 || most > 2e-6 {
					t.Errorf("the vector of %.40q has %d numbers, cosine %v, and differs by %v", sample.Text, len(got[0]), cosine, most)
				}
			}
			t.Logf("the greatest difference of a number is %.2g, of which 5e-7 are the rounding of the reference", worst)
		})
	}
}
