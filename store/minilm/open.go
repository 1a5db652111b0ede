package minilm

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"

	"github.com/treadle-go/treadle/store/internal/matmul"
	"github.com/treadle-go/treadle/store/internal/sentence"
)

// The names of the files.
const (
	weightsFile = "model.safetensors"
	vocabFile   = "vocab.txt"
)

// The maximum sizes of the files and of the description of the tensors.
const (
	maxVocab   = 16 << 20
	maxWeights = 512 << 20
	maxHeader  = 1 << 20
)

// Open reads the model in dir: model.safetensors and vocab.txt. If the files are damaged
// or belong to another model, the error names the file and the problem.
//
// Open never reads files outside dir.
func Open(dir string) (*Encoder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("minilm: open model: %w", err)
	}
	defer func() { _ = root.Close() }()
	e, err := load(root.FS())
	if err != nil {
		return nil, fmt.Errorf("minilm: open model in %s: %w", dir, err)
	}
	return e, nil
}

func load(files fs.FS) (*Encoder, error) {
	seen := sha256.New()
	content, err := sentence.ReadFile(files, vocabFile, maxVocab, seen)
	if err != nil {
		return nil, err
	}
	v, err := parseVocab(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", vocabFile, err)
	}
	content, err = sentence.ReadFile(files, weightsFile, maxWeights, seen)
	if err != nil {
		return nil, err
	}
	t, err := parseTensors(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", weightsFile, err)
	}
	n, err := newNetwork(t, v.size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", weightsFile, err)
	}
	// Different files get different names, so that a store never compares their vectors.
	return &Encoder{model: "minilm-" + hex.EncodeToString(seen.Sum(nil)[:6]), vocab: v, network: n, kernel: matmul.Fastest(processor)}, nil
}

// tensors are the tensors of a file in the safetensors format: the length of a JSON
// description, the description, and the numbers.
type tensors struct {
	described map[string]tensor
	numbers   []byte
}

type tensor struct {
	Type  string `json:"dtype"`
	Shape []int  `json:"shape"`
	At    [2]int `json:"data_offsets"`
}

func parseTensors(content []byte) (tensors, error) {
	if len(content) < 8 {
		return tensors{}, errors.New("file truncated")
	}
	n := binary.LittleEndian.Uint64(content)
	if n > maxHeader || n > uint64(len(content)-8) {
		return tensors{}, fmt.Errorf("description of %d bytes exceeds the file or %d bytes", n, maxHeader)
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(content[8:8+n], &raw); err != nil {
		return tensors{}, fmt.Errorf("description: %w", err)
	}
	t := tensors{map[string]tensor{}, content[8+n:]}
	for name, text := range raw {
		if name == "__metadata__" {
			continue
		}
		var one tensor
		if err := json.Unmarshal(text, &one); err != nil {
			return tensors{}, fmt.Errorf("tensor %q: %w", name, err)
		}
		t.described[name] = one
	}
	return t, nil
}

// floats returns a tensor with the given shape.
func (t tensors) floats(name string, shape ...int) ([]float32, error) {
	d, ok := t.described[name]
	if !ok {
		return nil, fmt.Errorf("missing tensor %q: not all-MiniLM-L6-v2", name)
	}
	if d.Type != "F32" || !slices.Equal(d.Shape, shape) {
		return nil, fmt.Errorf("tensor %q is %s %v, want F32 %v: not all-MiniLM-L6-v2", name, d.Type, d.Shape, shape)
	}
	size := 4
	for _, n := range shape {
		size *= n
	}
	if d.At[0] < 0 || d.At[1] > len(t.numbers) || d.At[1]-d.At[0] != size {
		return nil, fmt.Errorf("tensor %q is at bytes %d to %d of %d: file truncated or damaged", name, d.At[0], d.At[1], len(t.numbers))
	}
	raw := t.numbers[d.At[0]:d.At[1]]
	out := make([]float32, size/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return out, nil
}
