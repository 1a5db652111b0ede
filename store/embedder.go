package store

import "context"

// Embedder turns texts into vectors. Vectors of texts with similar meanings have
// similar directions. It may be called concurrently.
type Embedder interface {
	// Embed returns one vector per text, in order, each of Dimension numbers. The store
	// passes each text once, leaves out those in its cache, and passes at most 256.
	Embed(ctx context.Context, texts []string) ([][]float32, error)
	// Model is the name of the model. Vectors of different models are never compared:
	// when the model or its dimension changes, a store embeds its items again. See
	// [Store.Reindex].
	Model() string
	// Dimension is the length of the vectors.
	Dimension() int
}
