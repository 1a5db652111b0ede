package minilm

// A kernel computes blockRows rows by blockCols columns of a product at a time, so that
// each weight is read once for all rows.
const (
	blockRows = 8
	blockCols = 16
)

// kernel computes one block of y = x·w + bias. y and x have blockRows rows with strides
// ys and xs. w is a panel: k rows of blockCols weights. bias has blockCols numbers. k
// is at least 1.
type kernel func(y []float32, ys int, x []float32, xs int, w, bias []float32, k int)

// matrix is a k by n matrix of weights in panels of blockCols columns, so that a block
// reads its weights sequentially.
type matrix struct {
	k, n   int
	panels []float32
}

// pack copies a k by n matrix with the given row stride into panels. n must be a
// multiple of blockCols.
func pack(panels, rows []float32, stride, k, n int) matrix {
	m := matrix{k, n, panels[:k*n]}
	for col := 0; col < n; col += blockCols {
		for row := range k {
			copy(panels[:blockCols], rows[row*stride+col:])
			panels = panels[blockCols:]
		}
	}
	return m
}

// packTransposed copies a k by n matrix whose first count columns are stored as rows
// with the given stride into panels. The other columns are zero.
func packTransposed(panels, columns []float32, stride, k, n, count int) matrix {
	m := matrix{k, n, panels[:k*n]}
	clear(m.panels)
	for col := range count {
		panel := m.panels[col/blockCols*blockCols*k+col%blockCols:]
		for row, number := range columns[col*stride:][:k] {
			panel[row*blockCols] = number
		}
	}
	return m
}

// multiply computes y = x·m + bias for rows rows, a multiple of blockRows. The row
// strides of y and x are ys and xs.
func (m matrix) multiply(mul kernel, y []float32, ys int, x []float32, xs, rows int, bias []float32) {
	for col := 0; col < m.n; col += blockCols {
		panel := m.panels[col*m.k : (col+blockCols)*m.k]
		for row := 0; row < rows; row += blockRows {
			mul(y[row*ys+col:], ys, x[row*xs:], xs, panel, bias[col:col+blockCols], m.k)
		}
	}
}

// portable implements kernel for all processors. It uses four weights per sum and
// iteration, so that the sums stay in the cache.
func portable(y []float32, ys int, x []float32, xs int, w, bias []float32, k int) {
	for row := range blockRows {
		sum := [blockCols]float32(bias)
		in := x[row*xs:][:k]
		at := w
		for len(in) >= 4 {
			a, b, c, d := in[0], in[1], in[2], in[3]
			wa, wb := (*[blockCols]float32)(at), (*[blockCols]float32)(at[blockCols:])
			wc, wd := (*[blockCols]float32)(at[2*blockCols:]), (*[blockCols]float32)(at[3*blockCols:])
			for j := range sum {
				sum[j] += a*wa[j] + b*wb[j] + c*wc[j] + d*wd[j]
			}
			in, at = in[4:], at[4*blockCols:]
		}
		for i, a := range in {
			for j, weight := range (*[blockCols]float32)(at[i*blockCols:]) {
				sum[j] += a * weight
			}
		}
		copy(y[row*ys:][:blockCols], sum[:])
	}
}

// roundUp rounds n up to a multiple of step.
func roundUp(n, step int) int { return (n + step - 1) / step * step }
