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
	samples, _ := readReference(t)
	checkVectors(t, encoder, samples)
}

// The portable kernel is slow, and slower still under the race detector, so it has a few texts only.
func TestPortableVectorsAreThoseOfTheReference(t *testing.T) {
	encoder := openModel(t)
	samples, _ := readReference(t)
	samples = slices.DeleteFunc(samples, func(s sample) bool { return len(s.Tokens) < 5 || len(s.Tokens) > 7 })
	if len(samples) < 3 {
		t.Fatalf("there are %d samples of that size, too few to tell", len(samples))
	}
	checkVectors(t, &Encoder{vocab: encoder.vocab, network: encoder.network, kernel: portable}, samples)
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
			t.Fatalf("the vectors of %.40q are %v", sample.Text, got)
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
		if same := cosine >= 0.999999 && most <= 2e-6; !same { // of NaN too
			t.Errorf("the vector of %.40q has the cosine %v to the reference and differs by up to %v", sample.Text, cosine, most)
		}
	}
	t.Logf("the greatest difference of a number is %.2g, of which 5e-7 are the rounding of the reference", worst)
}
