package minilm

import (
	"math"

	"github.com/treadle-go/treadle/store/internal/matmul"
	"github.com/treadle-go/treadle/store/internal/sentence"
)

// maxRows is the number of rows of a batch.
const maxRows = maxTokens

// scratch is the working memory of one encoding. Products compute whole blocks, so there
// is a block of rows after the last one.
type scratch struct {
	x         []float32 // one row of width numbers per piece
	inner     []float32 // queries, keys, and values side by side, then the hidden layer
	attention []float32
	product   []float32
	weights   []float32 // of one head: one row of weights per piece
	panels    []float32 // of one head: the keys, then the values
	zero      []float32 // the bias of products without one
}

func newScratch() *scratch {
	const rows = maxRows + matmul.Rows
	return &scratch{
		x:         make([]float32, rows*width),
		inner:     make([]float32, rows*hidden),
		attention: make([]float32, rows*width),
		product:   make([]float32, rows*width),
		weights:   make([]float32, rows*matmul.RoundUp(maxTokens, matmul.Cols)),
		panels:    make([]float32, matmul.RoundUp(maxTokens, matmul.Cols)*headSize),
		zero:      make([]float32, matmul.RoundUp(maxTokens, matmul.Cols)),
	}
}

// encode returns the vectors of the texts, in order.
func (n *network) encode(mul matmul.Kernel, b *sentence.Batch, s *scratch) [][]float32 {
	for _, text := range b.Spans {
		for i, id := range text.IDs {
			row := s.x[(text.Start+i)*width:][:width]
			word, position := n.words[int(id)*width:][:width], n.positions[i*width:][:width]
			for j := range row {
				row[j] = word[j] + position[j]
			}
		}
	}
	n.norm.apply(s.x, b.Rows)
	for i := range n.layers {
		n.layers[i].apply(mul, b, s)
	}
	vectors := make([][]float32, len(b.Spans))
	for i, text := range b.Spans {
		vectors[i] = direction(s.x[text.Start*width:][:len(text.IDs)*width])
	}
	return vectors
}

// apply replaces x by the output of the layer.
func (l *layer) apply(mul matmul.Kernel, b *sentence.Batch, s *scratch) {
	rows := matmul.RoundUp(b.Rows, matmul.Rows)
	l.queryKeyValue.Multiply(mul, s.inner, 3*width, s.x, width, rows, l.queryKeyValue.bias)
	for _, text := range b.Spans {
		for head := range heads {
			attend(mul, head, text, s)
		}
	}
	l.output.Multiply(mul, s.product, width, s.attention, width, rows, l.output.bias)
	addTo(s.x, s.product[:b.Rows*width])
	l.normAttention.apply(s.x, b.Rows)

	l.up.Multiply(mul, s.inner, hidden, s.x, width, rows, l.up.bias)
	gelu(s.inner[:b.Rows*hidden])
	l.down.Multiply(mul, s.product, width, s.inner, hidden, rows, l.down.bias)
	addTo(s.x, s.product[:b.Rows*width])
	l.normForward.apply(s.x, b.Rows)
}

// attend computes the columns of one attention head for one text: for each piece, the
// mean of all pieces' values, weighted by the products of the piece's query and their
// keys. It also writes the rows up to the end of the last block, which belong to later
// texts and are computed after it.
func attend(mul matmul.Kernel, head int, text sentence.Span, s *scratch) {
	const stride = 3 * width
	count := len(text.IDs)
	rows := matmul.RoundUp(count, matmul.Rows)
	columns := matmul.RoundUp(count, matmul.Cols)
	queries := s.inner[text.Start*stride+head*headSize:]
	keys := queries[width:]
	values := keys[width:]
	matmul.PackTransposed(s.panels, keys, stride, headSize, columns, count).Multiply(mul, s.weights, columns, queries, stride, rows, s.zero)
	for row := range count {
		softmax(s.weights[row*columns:][:count])
	}
	attention := s.attention[text.Start*width+head*headSize:]
	matmul.Pack(s.panels, values, stride, count, headSize).Multiply(mul, attention, width, s.weights, columns, rows, s.zero)
}

// direction returns the mean of rows, scaled to a vector of length 1.
func direction(rows []float32) []float32 {
	vector := make([]float32, width)
	for ; len(rows) > 0; rows = rows[width:] {
		addTo(vector, rows[:width])
	}
	var squares float64
	for _, number := range vector {
		squares += float64(number) * float64(number)
	}
	scale := float32(1 / math.Sqrt(max(squares, 1e-24)))
	for i := range vector {
		vector[i] *= scale
	}
	return vector
}

// apply normalizes each row to mean 0 and variance 1, then scales it.
func (n scaling) apply(x []float32, rows int) {
	for row := range rows {
		in := x[row*width:][:width]
		var sum, squares float64
		for _, number := range in {
			sum += float64(number)
		}
		mean := sum / width
		for _, number := range in {
			squares += (float64(number) - mean) * (float64(number) - mean)
		}
		shift, factor := float32(mean), float32(1/math.Sqrt(squares/width+epsilon))
		scale, bias := n.scale[:width], n.bias[:width]
		for i, number := range in {
			in[i] = (number-shift)*factor*scale[i] + bias[i]
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
	scale := float32(1 / sum)
	for i := range row {
		row[i] *= scale
	}
}

// The table of gelu has geluSteps entries per unit, from -geluRange to geluRange.
const (
	geluRange = 6
	geluSteps = 512
)

var normals = func() (table [2*geluRange*geluSteps + 2]float32) {
	for i := range table {
		table[i] = float32(0.5 * math.Erfc(-(float64(i)/geluSteps-geluRange)/math.Sqrt2))
	}
	return table
}()

// gelu multiplies each number by the share of a normal distribution below it, which it
// interpolates from a table with an error below 2e-7.
func gelu(numbers []float32) {
	for i, number := range numbers {
		switch {
		case number >= geluRange:
		case number > -geluRange:
			at := (number + geluRange) * geluSteps
			k := int(at)
			low, high := normals[k], normals[k+1]
			numbers[i] = number * (low + (high-low)*(at-float32(k)))
		case number <= -geluRange:
			numbers[i] = 0
		}
	}
}

func addTo(to, what []float32) {
	to = to[:len(what)]
	for i, number := range what {
		to[i] += number
	}
}
