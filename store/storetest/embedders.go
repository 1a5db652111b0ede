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
