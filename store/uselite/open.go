package uselite

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
)

// maxJSON bounds model.json and vocab.json, which have a quarter of a megabyte each.
const maxJSON = 16 << 20

// Open reads the model in dir: model.json, the shards that it names, and vocab.json (see the package's documentation for
// where to get them). Files of another model, or damaged ones, are an error that names the file and what is wrong with it.
//
// It reads outside of dir in no case, whatever the files say.
func Open(dir string) (*Encoder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("uselite: open the model: %w", err)
	}
	defer func() { _ = root.Close() }()
	encoder, err := load(root.FS())
	if err != nil {
		return nil, fmt.Errorf("uselite: open the model in %s: %w", dir, err)
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
	return &Encoder{model: c.model, vocab: c.vocab, network: net, kernel: fastest()}, nil
}

// contents is what the files hold.
type contents struct {
	model   string // a name for it
	vocab   *vocab
	tensors tensors
}

func readContents(files fs.FS) (contents, error) {
	seen := sha256.New()
	text, err := readFile(files, "model.json", maxJSON, seen)
	if err != nil {
		return contents{}, err
	}
	manifest, err := parseManifest(text)
	if err != nil {
		return contents{}, fmt.Errorf("model.json: %w", err)
	}
	text, err = readFile(files, "vocab.json", maxJSON, seen)
	if err != nil {
		return contents{}, err
	}
	vocab, err := parseVocab(text)
	if err != nil {
		return contents{}, fmt.Errorf("vocab.json: %w", err)
	}
	if len(vocab.pieces) != vocabSize {
		return contents{}, fmt.Errorf("vocab.json has %d pieces and the model has %d: take vocab.json from the same place as model.json",
			len(vocab.pieces), vocabSize)
	}
	data, err := manifest.read(files, seen)
	if err != nil {
		return contents{}, err
	}
	// Other files are another model, so that a store never compares the vectors of the two.
	model := "uselite-" + hex.EncodeToString(seen.Sum(nil)[:6])
	return contents{model, vocab, tensors{manifest.tensors, data}}, nil
}

// readFile is the content of a file, which it adds to seen. A file over the limit is an error before it is read.
func readFile(files fs.FS, name string, limit int64, seen hash.Hash) ([]byte, error) {
	file, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("%s has %d bytes, more than the %d that it may have", name, info.Size(), limit)
	}
	content := make([]byte, info.Size())
	if _, err := io.ReadFull(file, content); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	seen.Write(content)
	return content, nil
}
