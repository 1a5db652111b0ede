package uselite

import "math"

// scratch is the memory of one encoding, for texts of up to maxTokens pieces.
type scratch struct {
	x         []float32 // what the layers add to: a row per piece
	input     []float32 // the input of layer 0, and then the normalized input of whatever comes next
	inner     []float32 // queries, keys and values side by side, and then the hidden layer
	attention []float32
	product   []float32
	weights   []float32 // of one head: a row of weights per piece
	panels    []float32 // of one head: the keys, and then the values
	zero      []float32 // where a product has no bias
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

// roundUp is the least multiple of step that is not less than n.
func roundUp(n, step int) int { return (n + step - 1) / step * step }

// encode is the vector of a text of these pieces, at most maxTokens.
//
// The products take rows in blocks, so there may be up to three rows more than pieces. What is in them goes nowhere: a
// row meets others only in attention and in the mean, which take the pieces' rows alone.
func (n *network) encode(mul kernel, ids []int32, s *scratch) []float32 {
	rows := roundUp(len(ids), blockRows)
	clear(s.input[:rows*narrow])
	for i, id := range ids {
		row := s.input[i*narrow:][:narrow]
		embedding, position := n.embedding[int(id)*narrow:], n.positions[i*narrow:]
		for j := range row {
			// The model adds the positions to the embedding and the sum to the embedding once more.
			row[j] = embedding[j] + (embedding[j] + position[j])
		}
	}
	n.widen.multiply(mul, s.x, wide, s.input, narrow, rows, n.widen.bias)
	n.layers[0].normAttention.apply(s.input, s.input, rows, narrow)
	n.layers[0].add(mul, len(ids), s)
	n.layers[1].normAttention.apply(s.input, s.x, rows, wide)
	n.layers[1].add(mul, len(ids), s)
	return n.finish(mul, len(ids), s)
}

// add adds to x what the layer makes of the normalized input.
func (l *layer) add(mul kernel, count int, s *scratch) {
	rows := roundUp(count, blockRows)
	l.queryKeyValue.multiply(mul, s.inner, 3*l.width, s.input, l.width, rows, l.queryKeyValue.bias)
	for head := range heads {
		l.attend(mul, head, count, s)
	}
	l.output.multiply(mul, s.product, wide, s.attention, l.width, rows, l.output.bias)
	addTo(s.x, s.product[:rows*wide])

	l.normForward.apply(s.input, s.x, rows, wide)
	l.up.multiply(mul, s.inner, hidden, s.input, wide, rows, l.up.bias)
	for i, number := range s.inner[:rows*hidden] {
		s.inner[i] = max(number, 0)
	}
	l.down.multiply(mul, s.product, wide, s.inner, hidden, rows, l.down.bias)
	addTo(s.x, s.product[:rows*wide])
}

// attend computes one head's columns of the attention: the mean of all pieces' values, weighted by how well the piece's
// query goes with their keys.
func (l *layer) attend(mul kernel, head, count int, s *scratch) {
	size := l.width / heads
	stride := 3 * l.width
	rows := roundUp(count, blockRows)
	queries := s.inner[head*size:]
	keys := queries[l.width:]
	values := keys[l.width:]

	scale := queryScale(l.width)
	for row := range rows {
		for i := range size {
			queries[row*stride+i] *= scale
		}
	}
	columns := roundUp(count, blockCols)
	transposed := matrix{size, columns, s.panels[:size*columns]}
	for i := range columns {
		panel := transposed.panels[i/blockCols*blockCols*size+i%blockCols:]
		for j := range size {
			if i < count {
				panel[j*blockCols] = keys[i*stride+j]
			} else {
				panel[j*blockCols] = 0
			}
		}
	}
	transposed.multiply(mul, s.weights, columns, queries, stride, rows, s.zero)
	for row := range rows {
		softmax(s.weights[row*columns:][:count])
	}
	packed := matrix{count, size, s.panels[:count*size]}
	at := packed.panels
	for column := 0; column < size; column += blockCols {
		for i := range count {
			copy(at[:blockCols], values[i*stride+column:])
			at = at[blockCols:]
		}
	}
	packed.multiply(mul, s.attention[head*size:], l.width, s.weights, columns, rows, s.zero)
}

// finish makes one vector of length 1 of the pieces' rows. Without pieces it is the one that the bias alone gives.
func (n *network) finish(mul kernel, count int, s *scratch) []float32 {
	mean := s.input[:blockRows*wide]
	clear(mean)
	for i := range count {
		addTo(mean, s.x[i*wide:][:wide])
	}
	for i := range mean[:wide] {
		mean[i] /= float32(max(count, 1))
	}
	n.final.multiply(mul, s.product, wide, mean, wide, blockRows, n.final.bias)
	vector := make([]float32, wide)
	var squares float64
	for i := range vector {
		number := math.Tanh(float64(s.product[i]))
		vector[i] = float32(number)
		squares += number * number
	}
	scale := float32(1 / math.Sqrt(max(squares, 1e-12)))
	for i := range vector {
		vector[i] *= scale
	}
	return vector
}

// apply normalizes each row to mean 0 and variance 1, and scales it. to and from may be the same.
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

// softmax makes weights of the numbers: positive, with the sum 1.
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
