package store

import "context"

// A Reranker scores texts by how well they answer a query. It must be safe for concurrent
// use.
type Reranker interface {
	// Rerank returns one score per text, in order; a higher score is better. Scores of
	// different queries need not be comparable.
	Rerank(ctx context.Context, query string, texts []string) ([]float64, error)
}
