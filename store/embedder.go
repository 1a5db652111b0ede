package store

import "context"

// An Embedder converts texts to vectors. Vectors of texts with similar meanings have
// similar directions. It must be safe for concurrent use.
type Embedder interface {
	// Embed returns one vector per text, in order, each with Dimension numbers. The
	// store passes at most 256 texts, without duplicates and without texts in its
	// cache. The texts are documents, which queries search for; see [QueryEmbedder].
	Embed(ctx context.Context, texts []string) ([][]float32, error)
	// Model returns the name of the model. Vectors of different models are never
	// compared: when the model or its dimension changes, a store embeds its items
	// again. See [Store.Reindex].
	Model() string
	// Dimension returns the length of the vectors.
	Dimension() int
}

// A QueryEmbedder is an [Embedder] whose vectors of queries differ from its vectors of
// documents. A store passes the queries of searches to EmbedQueries, and the texts of
// items to Embed. A store whose embedder has only Embed passes both to Embed, so a type
// that wraps an embedder needs EmbedQueries too.
type QueryEmbedder interface {
	Embedder
	// EmbedQueries is like Embed, but for search queries.
	EmbedQueries(ctx context.Context, texts []string) ([][]float32, error)
}
