package uselite

import (
	"fmt"
	"math"
	"strconv"

	"github.com/treadle-go/treadle/store/internal/matmul"
)

// The dimensions of the network.
const (
	vocabSize = 8000
	rowCount  = vocabSize + 2 // rows of the embedding; the last two belong to no piece
	narrow    = 256           // numbers per piece before layer 0
	wide      = 512           // and after it
	hidden    = 1536
	heads     = 4
	maxTokens = 128
	epsilon   = 1e-6
)

// network holds the weights, which do not change after newNetwork.
type network struct {
	embedding []float32 // rowCount rows of narrow numbers
	positions []float32 // maxTokens rows of narrow numbers
	widen     dense     // widens the input of layer 0 to the width of the result that it is added to
	layers    [2]layer
	final     dense
}

// layer consists of attention and a feed-forward network. Each is applied to the
// normalized rows, and its output is added to them.
type layer struct {
	width         int // of its input
	normAttention scaling
	queryKeyValue dense
	output        dense
	normForward   scaling
	up, down      dense
}

// dense is a matrix product and a bias.
type dense struct {
	matmul.Matrix
	bias []float32
}

// scaling scales normalized numbers.
type scaling struct{ scale, bias []float32 }

// The prefixes of the tensor names: the model's variables, and the constants that the
// export computed.
const (
	variables = "module/Encoder_en/"
	constants = "module_apply_default/Encoder_en/KonaTransformer/"
	encode    = constants + "Encode/"
	stack     = encode + "TransformerStack/"
)

// newNetwork builds the network from tensors by name. A missing tensor, a different
// shape, or a different value where this package relies on one means that the files
// belong to another model.
func newNetwork(t tensors) (*network, error) {
	b := &builder{tensors: t}
	for _, number := range []struct {
		name, kind string
		want       float32
	}{
		{constants + "ClipToMaxLength/Less/y", "int32", maxTokens},
		{stack + "Layer_1/TransformerLayer/MultiheadAttention/split_heads/split_last_dimension/Reshape/shape/2", "int32", heads},
		{stack + "Layer_0/TransformerLayer/MultiheadAttention/mul/y", "float32", queryScale(narrow)},
		{stack + "Layer_1/TransformerLayer/MultiheadAttention/mul/y", "float32", queryScale(wide)},
		{stack + "Layer_1/TransformerLayer/FFN/layer_prepostprocess/layer_norm/Cast/x", "float32", epsilon},
	} {
		b.expect(number.name, number.kind, number.want)
	}
	n := &network{
		embedding: b.take("module/Embeddings_en", rowCount, narrow),
		positions: positions(b.take(stack+"Layer_0/AddTimingSignal/TimingSignal/ExpandDims_1", 1, narrow/2)),
		widen: dense{
			b.matrix(encode+"Layer_0/TransformerLayer/dense/kernel/ConcatPartitions/concat", narrow, wide),
			b.take(encode+"Layer_0/TransformerLayer/dense/bias/ConcatPartitions/concat", wide),
		},
		layers: [2]layer{b.layer("Layer_0/TransformerLayer/", narrow), b.layer("Layer_1/TransformerLayer/", wide)},
		final: dense{
			b.matrix(variables+"hidden_layers/tanh_layer_0/weights", wide, wide),
			b.take(variables+"hidden_layers/tanh_layer_0/bias", wide),
		},
	}
	return n, b.err
}

// builder takes tensors until one is invalid.
type builder struct {
	tensors
	err error
}

func (b *builder) layer(name string, width int) layer {
	l := layer{width: width}
	l.normAttention = b.scaling(encode+name+"layer_prepostprocess/layer_norm/", width)
	attention := "Encode/" + name + "MultiheadAttention/"
	kernel := variables + "KonaTransformer/" + attention
	l.queryKeyValue = dense{
		b.matrix(kernel+"qkv_transform_single/kernel/part_0", 1, 1, width, 3*width),
		b.take(constants+attention+"qkv_transform_single/bias/ConcatPartitions/concat", 3*width),
	}
	l.output = dense{
		b.matrix(kernel+"output_transform_single/kernel/part_0", 1, 1, width, wide),
		b.take(constants+attention+"output_transform_single/bias/ConcatPartitions/concat", wide),
	}
	l.normForward = b.scaling(encode+name+"FFN/layer_prepostprocess/layer_norm/", wide)
	l.up = dense{
		b.matrix(stack+name+"FFN/conv1/Tensordot/Reshape_1", wide, hidden),
		b.take(encode+name+"FFN/conv1/bias/ConcatPartitions/concat", hidden),
	}
	l.down = dense{
		b.matrix(stack+name+"FFN/conv2/Tensordot/Reshape_1", hidden, wide),
		b.take(encode+name+"FFN/conv2/bias/ConcatPartitions/concat", wide),
	}
	return l
}

func (b *builder) scaling(name string, width int) scaling {
	return scaling{
		b.take(name+"layer_norm_scale/ConcatPartitions/concat", width),
		b.take(name+"layer_norm_bias/ConcatPartitions/concat", width),
	}
}

// matrix takes a matrix, which may have leading dimensions of 1.
func (b *builder) matrix(name string, shape ...int) matmul.Matrix {
	weights := b.take(name, shape...)
	if b.err != nil {
		return matmul.Matrix{}
	}
	k, n := shape[len(shape)-2], shape[len(shape)-1]
	return matmul.Pack(make([]float32, k*n), weights, n, k, n)
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

func (b *builder) expect(name, kind string, want float32) {
	if b.err != nil {
		return
	}
	var got float32
	got, b.err = b.number(name, kind)
	if b.err == nil && got != want {
		b.err = fmt.Errorf("tensor %q is %s, want %s: not the Universal Sentence Encoder lite", name, digits(got), digits(want))
	}
}

func digits(number float32) string { return strconv.FormatFloat(float64(number), 'g', -1, 32) }

// queryScale returns the factor for queries that keeps their products with keys, which
// are sums over the width of a head, independent of that width.
func queryScale(width int) float32 { return float32(1 / math.Sqrt(float64(width)/heads)) }

// positions returns a row for each position of a piece: the sines of the position times
// each frequency, then the cosines.
func positions(frequencies []float32) []float32 {
	table := make([]float32, 0, maxTokens*2*len(frequencies))
	for place := range maxTokens {
		for _, wave := range []func(float64) float64{math.Sin, math.Cos} {
			for _, frequency := range frequencies {
				table = append(table, float32(wave(float64(float32(place)*frequency))))
			}
		}
	}
	return table
}
