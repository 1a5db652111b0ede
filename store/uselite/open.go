package uselite

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"

	"github.com/treadle-go/treadle/store/internal/matmul"
	"github.com/treadle-go/treadle/store/internal/sentence"
)

// maxJSON is the maximum size of model.json and vocab.json, which take about a quarter
// of a megabyte each.
const maxJSON = 16 << 20

// Open reads the model in dir: model.json, the shards that it names, and vocab.json.
// The package documentation explains where to get them. If the files are damaged or
// belong to another model, the error names the file and the problem.
//
// Open never reads files outside dir.
func Open(dir string) (*Encoder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("uselite: open model: %w", err)
	}
	defer func() { _ = root.Close() }()
	encoder, err := load(root.FS())
	if err != nil {
		return nil, fmt.Errorf("uselite: open model in %s: %w", dir, err)
	}
	return encoder, nil
}

func load(files fs.FS) (*Encoder, error) {
	c, err := readContents(files)
	if err != nil {
		return nil, err
	}
	net, err := newNetwork(c.tensors)
	if err != nil {
		return nil, fmt.Errorf("model.json: %w", err)
	}
	return &Encoder{model: c.model, vocab: c.vocab, network: net, kernel: matmul.Fastest(processor)}, nil
}

// contents holds the contents of the files.
type contents struct {
	model   string // name of the model
	vocab   *vocab
	tensors tensors
}

func readContents(files fs.FS) (contents, error) {
	seen := sha256.New()
	text, err := sentence.ReadFile(files, "model.json", maxJSON, seen)
	if err != nil {
		return contents{}, err
	}
	manifest, err := parseManifest(text)
	if err != nil {
		return contents{}, fmt.Errorf("model.json: %w", err)
	}
	text, err = sentence.ReadFile(files, "vocab.json", maxJSON, seen)
	if err != nil {
		return contents{}, err
	}
	vocab, err := parseVocab(text)
	if err != nil {
		return contents{}, fmt.Errorf("vocab.json: %w", err)
	}
	if len(vocab.pieces) != vocabSize {
		return contents{}, fmt.Errorf("vocab.json has %d pieces, but the model has %d: use vocab.json and model.json from the same source",
			len(vocab.pieces), vocabSize)
	}
	data, err := manifest.read(files, seen)
	if err != nil {
		return contents{}, err
	}
	// Different files get different names, so that a store never compares their
	// vectors.
	model := "uselite-" + hex.EncodeToString(seen.Sum(nil)[:6])
	return contents{model, vocab, tensors{manifest.tensors, data}}, nil
}
