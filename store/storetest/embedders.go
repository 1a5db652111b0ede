package storetest

import (
	"context"
	"errors"

	"github.com/treadle-go/treadle/store"
)

var errBroken = errors.New("broken")

// broken answers as it should not.
type broken struct {
	vectors [][]float32
	err     error
}

// Model is a name.
func (broken) Model() string { return "broken" }

// Dimension is what the vectors should have.
func (broken) Dimension() int { return 2 }

// Embed gives the same answer to all.
func (b broken) Embed(context.Context, []string) ([][]float32, error) {
	return append([][]float32(nil), b.vectors...), b.err
}

// failsAfter fails after some calls.
type failsAfter struct {
	store.Embedder
	calls int
}

// Embed fails, or embeds.
func (f *failsAfter) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	if f.calls == 0 {
		return nil, errBroken
	}
	f.calls--
	return f.Embedder.Embed(ctx, texts)
}
