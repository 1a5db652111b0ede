package store

import "context"

// An Embedder turns texts into vectors whose directions are close where the
// texts are alike. It may be called concurrently.
type Embedder interface {
	// Embed returns one vector per text, in order, each of Dimension numbers.
	// The store has removed repetitions and what it has in its cache, and gives
	// at most 256 texts at a time.
	Embed(ctx context.Context, texts []string) ([][]float32, error)
	// Model names what makes the vectors. Vectors of different models are
	// never compared: when the model or its dimension changes, a store embeds
	// its items anew. See [Store.Reindex].
	Model() string
	// Dimension is the length of the vectors.
	Dimension() int
}
