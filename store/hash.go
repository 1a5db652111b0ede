package store

import (
	"context"
	"fmt"
	"hash/fnv"

	"github.com/treadle-go/treadle/internal/words"
)

// NewHashEmbedder returns an embedder that needs no model. It hashes the words of a
// text and their three-character groups, so texts are similar if they are spelled
// alike. It does not represent meaning: use it for tests and demos, and to find texts
// despite small spelling differences. In a [Hybrid] search, its similarity counts a
// quarter.
func NewHashEmbedder(dimension int) Embedder { return hashEmbedder(dimension) }

type hashEmbedder int

// lexical is implemented by embedders that do not represent meaning. Their vectors
// carry less information than the words, so a hybrid search uses them to find similarly
// spelled words and otherwise ranks by keywords.
type lexical interface{ lexical() }

func (h hashEmbedder) lexical() {}

// Model returns a name that includes the version of the hash.
func (h hashEmbedder) Model() string { return "treadle-hash-1" }

// Dimension returns the length of the vectors.
func (h hashEmbedder) Dimension() int { return int(h) }

// Embed hashes the words of texts.
func (h hashEmbedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	if h <= 0 {
		return nil, fmt.Errorf("invalid dimension %d", int(h))
	}
	vectors := make([][]float32, len(texts))
	for i, t := range texts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		vectors[i] = h.embed(t)
	}
	return vectors, nil
}

func (h hashEmbedder) embed(text string) []float32 {
	v := make([]float32, h)
	add := func(feature string, weight float32) {
		digest := fnv.New64a()
		digest.Write([]byte(feature))
		hash := digest.Sum64()
		if hash&1 == 1 {
			weight = -weight
		}
		v[hash>>1%uint64(h)] += weight
	}
	words.Each(text, func(word string) {
		add(word, 1)
		runes := []rune("<" + word + ">")
		for i := range len(runes) - 2 {
			add(string(runes[i:i+3]), 0.5)
		}
	})
	return v
}
