package uselite

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// modelDir is where .ci/npm puts the weights.
var modelDir = filepath.Join("..", "..", "internal", "npm", "node_modules", "@energetic-ai", "model-embeddings-en", "dist")

var openOnce = sync.OnceValues(func() (*Encoder, error) { return Open(modelDir) })

// openModel is the real model, which the tests share.
func openModel(t testing.TB) *Encoder {
	t.Helper()
	if _, err := os.Stat(modelDir); err != nil {
		t.Fatalf("the weights of the model are not there: run .ci/npm, which fetches them (%v)", err)
	}
	encoder, err := openOnce()
	if err != nil {
		t.Fatal(err)
	}
	return encoder
}
