package uselite

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/treadle-go/treadle/store/internal/matmul"
)

// A sample is a text with the reference implementation's results.
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

func TestTokensMatchReference(t *testing.T) {
	vocab := openModel(t).vocab
	vectors, tokens := readReference(t)
	for _, sample := range append(vectors, tokens...) {
		if diff := cmp.Diff(sample.Tokens, vocab.tokens(sample.Text, maxTokens), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("tokens of %q (-reference +ours):\n%s", sample.Text, diff)
		}
	}
}

func TestVectorsMatchReference(t *testing.T) {
	encoder := openModel(t)
	samples, _ := readReference(t)
	checkVectors(t, encoder, samples)
}

// The portable kernel is slow, and even slower under the race detector, so this
// test uses only a few texts.
func TestPortableVectorsMatchReference(t *testing.T) {
	encoder := openModel(t)
	samples, _ := readReference(t)
	samples = slices.DeleteFunc(samples, func(s sample) bool { return len(s.Tokens) < 5 || len(s.Tokens) > 7 })
	if len(samples) < 3 {
		t.Fatalf("only %d samples of that size", len(samples))
	}
	checkVectors(t, &Encoder{vocab: encoder.vocab, network: encoder.network, kernel: matmul.Portable}, samples)
}

func checkVectors(t *testing.T, encoder *Encoder, samples []sample) {
	t.Helper()
	var worst float64
	for _, sample := range samples {
		got, err := encoder.Embed(t.Context(), []string{sample.Text})
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != 1 || len(got[0]) != len(sample.Millionths) {
			t.Fatalf("vectors of %.40q: got %v", sample.Text, got)
		}
		var product, length, most float64
		for i, number := range got[0] {
			want := sample.Millionths[i] / 1e6
			product += float64(number) * want
			length += want * want
			most = max(most, math.Abs(float64(number)-want))
		}
		worst = max(worst, most)
		cosine := product / math.Sqrt(length)
		if same := cosine >= 0.999999 && most <= 2e-6; !same { // false for NaN, too
			t.Errorf("vector of %.40q: cosine with the reference %v, maximum difference %v", sample.Text, cosine, most)
		}
	}
	t.Logf("maximum difference %.2g, of which 5e-7 is rounding in the reference", worst)
}
