package minilm

import (
	"fmt"
	"math"

	"github.com/treadle-go/treadle/store/internal/matmul"
)

// The dimensions of the network.
const (
	width     = 384
	hidden    = 1536
	layers    = 6
	heads     = 12
	headSize  = width / heads
	positions = 512
	maxTokens = 256
	epsilon   = 1e-12
)

// network holds the weights, which do not change after newNetwork.
type network struct {
	words     []float32 // a row of width numbers for each piece
	positions []float32 // maxTokens rows, with the numbers of the only segment added
	norm      scaling
	layers    [layers]layer
}

// layer consists of attention and a feed-forward network. The output of each is added to
// its input, and the sum is normalized.
type layer struct {
	queryKeyValue dense
	output        dense
	normAttention scaling
	up, down      dense
	normForward   scaling
}

// dense is a matrix product and a bias.
type dense struct {
	matmul.Matrix
	bias []float32
}

// scaling scales normalized numbers.
type scaling struct{ scale, bias []float32 }

// newNetwork builds the network from tensors by name. A missing tensor or a different
// shape means that the files belong to another model.
func newNetwork(t tensors, pieces int) (*network, error) {
	b := &builder{tensors: t}
	n := &network{
		words:     b.take("embeddings.word_embeddings.weight", pieces, width),
		positions: b.take("embeddings.position_embeddings.weight", positions, width),
		norm:      b.scaling("embeddings.LayerNorm"),
	}
	segments := b.take("embeddings.token_type_embeddings.weight", 2, width)
	for i := range n.layers {
		n.layers[i] = b.layer(fmt.Sprintf("encoder.layer.%d.", i))
	}
	if b.err != nil {
		return nil, b.err
	}
	n.positions = n.positions[:maxTokens*width]
	for i := range n.positions {
		n.positions[i] += segments[i%width]
	}
	return n, nil
}

// builder takes tensors until one is invalid.
type builder struct {
	tensors
	err error
}

func (b *builder) layer(name string) layer {
	return layer{
		queryKeyValue: b.attention(name + "attention.self."),
		output:        b.dense(name+"attention.output.dense", width, width),
		normAttention: b.scaling(name + "attention.output.LayerNorm"),
		up:            b.dense(name+"intermediate.dense", width, hidden),
		down:          b.dense(name+"output.dense", hidden, width),
		normForward:   b.scaling(name + "output.LayerNorm"),
	}
}

// attention joins the matrices of queries, keys, and values. Queries are scaled, so that
// their products with keys do not depend on the size of a head.
func (b *builder) attention(name string) dense {
	var weights, bias []float32
	for i, part := range []string{"query", "key", "value"} {
		w, c := b.take(name+part+".weight", width, width), b.take(name+part+".bias", width)
		for _, numbers := range [][]float32{w, c} {
			for j := range numbers {
				if i == 0 {
					numbers[j] *= float32(1 / math.Sqrt(headSize))
				}
			}
		}
		weights, bias = append(weights, w...), append(bias, c...)
	}
	if b.err != nil {
		return dense{}
	}
	return dense{matmul.PackTransposed(make([]float32, len(weights)), weights, width, width, 3*width, 3*width), bias}
}

// dense takes a matrix whose n columns the file stores as rows, and its bias.
func (b *builder) dense(name string, k, n int) dense {
	weights, bias := b.take(name+".weight", n, k), b.take(name+".bias", n)
	if b.err != nil {
		return dense{}
	}
	return dense{matmul.PackTransposed(make([]float32, len(weights)), weights, k, k, n, n), bias}
}

func (b *builder) scaling(name string) scaling {
	return scaling{b.take(name+".weight", width), b.take(name+".bias", width)}
}

// take returns the tensor, or nil if it or an earlier tensor is invalid.
func (b *builder) take(name string, shape ...int) []float32 {
	if b.err != nil {
		return nil
	}
	var numbers []float32
	numbers, b.err = b.floats(name, shape...)
	return numbers
}
