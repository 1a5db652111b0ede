package store

import "context"

// An Embedder converts texts to vectors. Vectors of texts with similar meanings have
// similar directions. It must be safe for concurrent use.
type Embedder interface {
	// Embed returns one vector per text, in order, each with Dimension numbers. The
	// store passes at most 256 texts, without duplicates and without texts in its
	// cache.
	Embed(ctx context.Context, texts []string) ([][]float32, error)
	// Model returns the name of the model. Vectors of different models are never
	// compared: when the model or its dimension changes, a store embeds its items
	// again. See [Store.Reindex].
	Model() string
	// Dimension returns the length of the vectors.
	Dimension() int
}
