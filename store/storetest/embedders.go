package storetest

import (
	"context"
	"errors"

	"github.com/treadle-go/treadle/store"
)

var errBroken = errors.New("broken")

// broken is an embedder that returns invalid results.
type broken struct {
	vectors [][]float32
	err     error
}

// Model returns a name.
func (broken) Model() string { return "broken" }

// Dimension returns the expected length of the vectors.
func (broken) Dimension() int { return 2 }

// Embed returns the same result for all texts.
func (b broken) Embed(context.Context, []string) ([][]float32, error) {
	return append([][]float32(nil), b.vectors...), b.err
}

// failsAfter is an embedder that fails after a number of calls.
type failsAfter struct {
	store.Embedder
	calls int
}

// Embed fails if no calls are left.
func (f *failsAfter) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	if f.calls == 0 {
		return nil, errBroken
	}
	f.calls--
	return f.Embedder.Embed(ctx, texts)
}

// purposes is an embedder that records the texts of documents and queries. A query's
// vector is the vector of a document with the next topic, so the result of a search
// shows which method embedded its query.
type purposes struct {
	topics
	documents, queries *[]string
}

// Embed records documents.
func (p purposes) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	*p.documents = append(*p.documents, texts...)
	return p.topics.Embed(ctx, texts)
}

// EmbedQueries records queries.
func (p purposes) EmbedQueries(ctx context.Context, texts []string) ([][]float32, error) {
	*p.queries = append(*p.queries, texts...)
	vectors, err := p.topics.Embed(ctx, texts)
	for _, v := range vectors {
		v[0], v[1], v[2] = v[2], v[0], v[1]
	}
	return vectors, err
}
