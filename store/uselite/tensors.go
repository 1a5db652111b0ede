package uselite

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"math"
	"slices"

	"github.com/treadle-go/treadle/store/internal/sentence"
)

// maxData is the maximum size of a model's numbers; the real model has 28 MB.
const maxData = 64 << 20

// manifest lists the tensors of the model and the files that contain their numbers.
type manifest struct {
	shards  []string
	tensors map[string]tensor
	size    int64 // of all tensors, in bytes
}

// tensor is the position of a tensor's numbers in the data. Each number takes four
// bytes.
type tensor struct {
	kind   string // float32 or int32
	shape  []int
	offset int64
	count  int64
}

// parseManifest reads the list of weights in model.json. It ignores the graph: this
// package implements the network itself, and the names and shapes of the tensors show
// whether it is the same.
func parseManifest(text []byte) (manifest, error) {
	var file struct {
		Groups []struct {
			Paths   []string `json:"paths"`
			Weights []struct {
				Name         string          `json:"name"`
				Shape        []int           `json:"shape"`
				Kind         string          `json:"dtype"`
				Quantization json.RawMessage `json:"quantization"`
			} `json:"weights"`
		} `json:"weightsManifest"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return manifest{}, err
	}
	if len(file.Groups) != 1 {
		return manifest{}, fmt.Errorf("weightsManifest has %d groups, want 1", len(file.Groups))
	}
	group := file.Groups[0]
	m := manifest{shards: group.Paths, tensors: map[string]tensor{}}
	for _, weights := range group.Weights {
		count, err := countNumbers(weights.Shape)
		switch {
		case err != nil:
			return manifest{}, fmt.Errorf("tensor %q: %w", weights.Name, err)
		case weights.Kind != "float32" && weights.Kind != "int32":
			return manifest{}, fmt.Errorf("tensor %q has dtype %q, want float32 or int32", weights.Name, weights.Kind)
		case weights.Quantization != nil:
			return manifest{}, fmt.Errorf("tensor %q is quantized, which is not supported", weights.Name)
		}
		if _, twice := m.tensors[weights.Name]; twice {
			return manifest{}, fmt.Errorf("duplicate tensor %q", weights.Name)
		}
		m.tensors[weights.Name] = tensor{weights.Kind, weights.Shape, m.size, count}
		m.size += 4 * count
		if m.size > maxData {
			return manifest{}, fmt.Errorf("tensor %q: total size exceeds %d bytes", weights.Name, maxData)
		}
	}
	return m, nil
}

// countNumbers returns the number of elements of a tensor with the given shape.
func countNumbers(shape []int) (int64, error) {
	count := int64(1)
	for _, n := range shape {
		if n < 1 || int64(n) > maxData/4/count {
			return 0, fmt.Errorf("invalid shape %v", shape)
		}
		count *= int64(n)
	}
	return count, nil
}

// read reads all shards, which together must contain exactly the tensors.
func (m manifest) read(files fs.FS, seen hash.Hash) ([]byte, error) {
	data := make([]byte, 0, m.size)
	for _, name := range m.shards {
		if !fs.ValidPath(name) {
			return nil, fmt.Errorf("model.json names invalid shard %q: want a file in the same directory", name)
		}
		shard, err := sentence.ReadFile(files, name, m.size-int64(len(data)), seen)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("missing shard: %w", err)
		}
		if err != nil {
			return nil, err
		}
		data = append(data, shard...)
	}
	if int64(len(data)) != m.size {
		return nil, fmt.Errorf("shards have %d bytes, but the tensors in model.json have %d: use files from the same source",
			len(data), m.size)
	}
	return data, nil
}

// tensors gives access to the numbers of tensors.
type tensors struct {
	places map[string]tensor
	data   []byte
}

// floats returns the named tensor, which must have the given shape and only finite
// numbers.
func (t tensors) floats(name string, shape ...int) ([]float32, error) {
	raw, err := t.find(name, "float32", shape)
	if err != nil {
		return nil, err
	}
	numbers := make([]float32, len(raw)/4)
	for i := range numbers {
		numbers[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		// Only for infinities and NaN is x - x not zero.
		if difference := numbers[i] - numbers[i]; difference != 0 {
			return nil, fmt.Errorf("tensor %q contains %v: damaged shards", name, numbers[i])
		}
	}
	return numbers, nil
}

// number returns the only number of a tensor.
func (t tensors) number(name, kind string) (float32, error) {
	raw, err := t.find(name, kind, nil)
	if err != nil {
		return 0, err
	}
	bits := binary.LittleEndian.Uint32(raw)
	if kind == "int32" {
		return float32(int32(bits)), nil
	}
	return math.Float32frombits(bits), nil
}

func (t tensors) find(name, kind string, shape []int) ([]byte, error) {
	place, ok := t.places[name]
	if !ok {
		return nil, fmt.Errorf("missing tensor %q: not the Universal Sentence Encoder lite", name)
	}
	if place.kind != kind || !slices.Equal(place.shape, shape) {
		return nil, fmt.Errorf("tensor %q is %s%v, want %s%v: not the Universal Sentence Encoder lite",
			name, place.kind, place.shape, kind, shape)
	}
	return t.data[place.offset:][:4*place.count], nil
}
