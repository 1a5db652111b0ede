package minilm

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"os"
	"sync"
	"testing"
	"testing/fstest"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sines are tensors of the size of the model whose numbers are sines. testdata/reference.py
// uses the same numbers.
type sines struct {
	header map[string]any
	data   []byte
}

func (s *sines) add(name string, seed int, scale, shift float64, shape ...int) {
	size := 1
	for _, n := range shape {
		size *= n
	}
	start := len(s.data)
	for i := range size {
		number := float32(shift + scale*math.Sin(float64(i+1)*(1+float64(seed)/100)))
		s.data = binary.LittleEndian.AppendUint32(s.data, math.Float32bits(number))
	}
	s.header[name] = map[string]any{"dtype": "F32", "shape": shape, "data_offsets": []int{start, len(s.data)}}
}

func (s *sines) dense(name string, seed, k, n int) {
	s.add(name+".weight", seed, 0.05, 0, n, k)
	s.add(name+".bias", seed+1, 0.05, 0, n)
}

func (s *sines) norm(name string, seed int) {
	s.add(name+".weight", seed, 0.05, 1, width)
	s.add(name+".bias", seed+1, 0.05, 0, width)
}

// file returns the tensors in the safetensors format.
func (s *sines) file() ([]byte, error) {
	header, err := json.Marshal(s.header)
	if err != nil {
		return nil, err
	}
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(out, header...), s.data...), nil
}

// modelFiles returns a model with the vocabulary in testdata.
var modelFiles = sync.OnceValues(func() (fstest.MapFS, error) {
	vocab, err := os.ReadFile("testdata/vocab.txt")
	if err != nil {
		return nil, err
	}
	pieces, err := parseVocab(vocab)
	if err != nil {
		return nil, err
	}
	s := &sines{header: map[string]any{"__metadata__": map[string]string{"format": "pt"}}}
	s.add("embeddings.word_embeddings.weight", 1, 1, 0, pieces.size, width)
	s.add("embeddings.position_embeddings.weight", 2, 0.05, 0, positions, width)
	s.add("embeddings.token_type_embeddings.weight", 3, 0.05, 0, 2, width)
	s.norm("embeddings.LayerNorm", 4)
	for i := range layers {
		name, seed := fmt.Sprintf("encoder.layer.%d.", i), 100*(i+1)
		for j, part := range []string{"query", "key", "value"} {
			s.dense(name+"attention.self."+part, seed+2*j, width, width)
		}
		s.dense(name+"attention.output.dense", seed+6, width, width)
		s.norm(name+"attention.output.LayerNorm", seed+8)
		s.dense(name+"intermediate.dense", seed+10, width, hidden)
		s.dense(name+"output.dense", seed+12, hidden, width)
		s.norm(name+"output.LayerNorm", seed+14)
	}
	weights, err := s.file()
	if err != nil {
		return nil, err
	}
	return fstest.MapFS{vocabFile: {Data: vocab, Mode: 0o600}, weightsFile: {Data: weights, Mode: 0o600}}, nil
})

var openOnce = sync.OnceValues(func() (*Encoder, error) {
	files, err := modelFiles()
	if err != nil {
		return nil, err
	}
	return load(fs.FS(files))
})

// openModel returns the model of sines, which the tests share.
func openModel(t testing.TB) *Encoder {
	t.Helper()
	e, err := openOnce()
	if err != nil {
		t.Fatal(err)
	}
	return e
}
