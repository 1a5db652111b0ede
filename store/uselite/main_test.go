package uselite

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// modelDir is the directory into which .ci/npm puts the weights.
var modelDir = filepath.Join("..", "..", "internal", "test", "npm", "node_modules", "@energetic-ai", "model-embeddings-en", "dist")

var openOnce = sync.OnceValues(func() (*Encoder, error) { return Open(modelDir) })

// openModel returns the real model, which the tests share.
func openModel(t testing.TB) *Encoder {
	t.Helper()
	if _, err := os.Stat(modelDir); err != nil {
		t.Fatalf("missing model weights: run .ci/npm to fetch them (%v)", err)
	}
	encoder, err := openOnce()
	if err != nil {
		t.Fatal(err)
	}
	return encoder
}
