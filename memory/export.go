package memory

import (
	"context"
	"io"

	"github.com/treadle-go/treadle/store"
)

// Export writes the memories of all namespaces under prefix, with their history, use
// counts, and ratings, in the format of [store.Store.Export]. An empty prefix means the whole store.
// [store.Store.Import] reads the output.
func Export(ctx context.Context, s *store.Store, w io.Writer, prefix store.Namespace) (versions int, err error) {
	if len(prefix) == 0 {
		return s.Export(ctx, w)
	}
	if !counts(prefix) {
		return s.Export(ctx, w, prefix)
	}
	return s.Export(ctx, w, prefix, usesOf(prefix))
}
