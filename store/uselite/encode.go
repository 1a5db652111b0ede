package uselite

import (
	"math"

	"github.com/treadle-go/treadle/store/internal/matmul"
	"github.com/treadle-go/treadle/store/internal/sentence"
)

// scratch is the working memory of one encoding, for up to maxTokens rows.
type scratch struct {
	x         []float32 // accumulates the output of the layers: one row per piece
	input     []float32 // the input of layer 0, then the normalized input of each following operation
	inner     []float32 // queries, keys, and values side by side, then the hidden layer
	attention []float32
	product   []float32
	weights   []float32 // of one head: one row of weights per piece
	panels    []float32 // of one head: the keys, then the values
	zero      []float32 // the bias of products without one
}

func newScratch() *scratch {
	return &scratch{
		x:         make([]float32, maxTokens*wide),
		input:     make([]float32, maxTokens*wide),
		inner:     make([]float32, maxTokens*hidden),
		attention: make([]float32, maxTokens*wide),
		product:   make([]float32, maxTokens*wide),
		weights:   make([]float32, maxTokens*maxTokens),
		panels:    make([]float32, maxTokens*wide/heads),
		zero:      make([]float32, maxTokens),
	}
}

// encode returns the vectors of the texts, in order. Products are computed in blocks of rows,
// so each text starts at a block boundary, and up to three unused rows follow its last row.
// Their contents do not matter: rows are combined only in attention and in the mean, which use
// only the rows of the text's pieces.
func (n *network) encode(mul matmul.Kernel, b *sentence.Batch, s *scratch) [][]float32 {
	clear(s.input[:b.Rows*narrow])
	for _, span := range b.Spans {
		for i, id := range span.IDs {
			row := s.input[(span.Start+i)*narrow:][:narrow]
			embedding, position := n.embedding[int(id)*narrow:], n.positions[i*narrow:]
			for j := range row {
				// The model adds the position to the embedding, and adds the sum to the
				// embedding again.
				row[j] = embedding[j] + (embedding[j] + position[j])
			}
		}
	}
	n.widen.Multiply(mul, s.x, wide, s.input, narrow, b.Rows, n.widen.bias)
	n.layers[0].normAttention.apply(s.input, s.input, b.Rows, narrow)
	n.layers[0].add(mul, b, s)
	n.layers[1].normAttention.apply(s.input, s.x, b.Rows, wide)
	n.layers[1].add(mul, b, s)
	return n.finish(mul, b, s)
}

// add adds the layer's output for the normalized input to x.
func (l *layer) add(mul matmul.Kernel, b *sentence.Batch, s *scratch) {
	l.queryKeyValue.Multiply(mul, s.inner, 3*l.width, s.input, l.width, b.Rows, l.queryKeyValue.bias)
	for _, span := range b.Spans {
		for head := range heads {
			l.attend(mul, head, span, s)
		}
	}
	l.output.Multiply(mul, s.product, wide, s.attention, l.width, b.Rows, l.output.bias)
	addTo(s.x, s.product[:b.Rows*wide])

	l.normForward.apply(s.input, s.x, b.Rows, wide)
	l.up.Multiply(mul, s.inner, hidden, s.input, wide, b.Rows, l.up.bias)
	for i, number := range s.inner[:b.Rows*hidden] {
		s.inner[i] = max(number, 0)
	}
	l.down.Multiply(mul, s.product, wide, s.inner, hidden, b.Rows, l.down.bias)
	addTo(s.x, s.product[:b.Rows*wide])
}

// attend computes the columns of one attention head for one text: for each piece, the
// mean of all pieces' values, weighted by the products of the piece's query and their
// keys.
func (l *layer) attend(mul matmul.Kernel, head int, text sentence.Span, s *scratch) {
	count := len(text.IDs)
	size := l.width / heads
	stride := 3 * l.width
	rows := matmul.RoundUp(count, matmul.Rows)
	queries := s.inner[text.Start*stride+head*size:]
	keys := queries[l.width:]
	values := keys[l.width:]

	scale := queryScale(l.width)
	for row := range rows {
		for i := range size {
			queries[row*stride+i] *= scale
		}
	}
	columns := matmul.RoundUp(count, matmul.Cols)
	matmul.PackTransposed(s.panels, keys, stride, size, columns, count).Multiply(mul, s.weights, columns, queries, stride, rows, s.zero)
	for row := range rows {
		softmax(s.weights[row*columns:][:count])
	}
	attention := s.attention[text.Start*l.width+head*size:]
	matmul.Pack(s.panels, values, stride, count, size).Multiply(mul, attention, l.width, s.weights, columns, rows, s.zero)
}

// finish computes a vector of length 1 from the rows of each text. For a text without
// pieces, it uses the bias alone.
func (n *network) finish(mul matmul.Kernel, b *sentence.Batch, s *scratch) [][]float32 {
	rows := matmul.RoundUp(len(b.Spans), matmul.Rows)
	means := s.input[:rows*wide]
	clear(means)
	for i, text := range b.Spans {
		mean := means[i*wide:][:wide]
		for j := range text.IDs {
			addTo(mean, s.x[(text.Start+j)*wide:][:wide])
		}
		for j := range mean {
			mean[j] /= float32(max(len(text.IDs), 1))
		}
	}
	n.final.Multiply(mul, s.product, wide, means, wide, rows, n.final.bias)
	vectors := make([][]float32, len(b.Spans))
	for i := range vectors {
		vectors[i] = direction(s.product[i*wide:][:wide])
	}
	return vectors
}

// direction returns the hyperbolic tangents of numbers, scaled to a vector of length 1.
func direction(numbers []float32) []float32 {
	vector := make([]float32, len(numbers))
	var squares float64
	for i, number := range numbers {
		tangent := math.Tanh(float64(number))
		vector[i] = float32(tangent)
		squares += tangent * tangent
	}
	scale := float32(1 / math.Sqrt(max(squares, 1e-12)))
	for i := range vector {
		vector[i] *= scale
	}
	return vector
}

// apply normalizes each row to mean 0 and variance 1, then scales it. to and from may
// be the same slice.
func (n scaling) apply(to, from []float32, rows, width int) {
	for row := range rows {
		in, out := from[row*width:][:width], to[row*width:][:width]
		var sum float64
		for _, number := range in {
			sum += float64(number)
		}
		mean := sum / float64(width)
		var squares float64
		for _, number := range in {
			squares += (float64(number) - mean) * (float64(number) - mean)
		}
		factor := 1 / math.Sqrt(squares/float64(width)+epsilon)
		for i, number := range in {
			out[i] = float32((float64(number)-mean)*factor)*n.scale[i] + n.bias[i]
		}
	}
}

// softmax converts the numbers to positive weights that sum to 1.
func softmax(row []float32) {
	highest := float32(math.Inf(-1))
	for _, number := range row {
		highest = max(highest, number)
	}
	var sum float64
	for i, number := range row {
		e := math.Exp(float64(number - highest))
		row[i] = float32(e)
		sum += e
	}
	for i := range row {
		row[i] /= float32(sum)
	}
}

func addTo(to, what []float32) {
	to = to[:len(what)]
	for i, number := range what {
		to[i] += number
	}
}
