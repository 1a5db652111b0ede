// Package matmul multiplies matrices of numbers, for the encoders of texts.
package matmul

// Products are computed in blocks of Rows rows, or a multiple of it, and Cols columns, so that
// each weight is read once for all rows of a block.
const (
	Rows = 4
	Cols = 16
)

// A Kernel computes Cols columns of y = x·w + bias. y and x have a number of rows that is a
// multiple of Rows, with strides ys and xs. w is a panel: k rows of Cols weights. bias has Cols
// numbers. k is at least 1.
type Kernel func(y []float32, ys int, x []float32, xs, rows int, w, bias []float32, k int)

// A Processor says which instructions a processor has. On processors other than amd64, it is
// ignored.
type Processor struct{ AVX2, AVX512 bool } // AVX2 includes FMA

// A Matrix is a k by n matrix of weights in panels of Cols columns, so that a kernel reads its
// weights sequentially.
type Matrix struct {
	k, n   int
	panels []float32
}

// Pack copies a k by n matrix with the given row stride into panels, which has at least k*n
// numbers. n must be a multiple of Cols.
func Pack(panels, rows []float32, stride, k, n int) Matrix {
	m := Matrix{k, n, panels[:k*n]}
	for col := 0; col < n; col += Cols {
		for row := range k {
			copy(panels[:Cols], rows[row*stride+col:])
			panels = panels[Cols:]
		}
	}
	return m
}

// PackTransposed copies a k by n matrix whose first count columns are stored as rows with the
// given stride into panels. The other columns are zero.
func PackTransposed(panels, columns []float32, stride, k, n, count int) Matrix {
	m := Matrix{k, n, panels[:k*n]}
	clear(m.panels)
	for col := range count {
		panel := m.panels[col/Cols*Cols*k+col%Cols:]
		for row, number := range columns[col*stride:][:k] {
			panel[row*Cols] = number
		}
	}
	return m
}

// Multiply computes y = x·m + bias for rows rows, a multiple of Rows. The row strides of y and
// x are ys and xs.
func (m Matrix) Multiply(mul Kernel, y []float32, ys int, x []float32, xs, rows int, bias []float32) {
	if rows == 0 {
		return
	}
	for col := 0; col < m.n; col += Cols {
		mul(y[col:], ys, x, xs, rows, m.panels[col*m.k:(col+Cols)*m.k], bias[col:col+Cols], m.k)
	}
}

// Portable implements Kernel for all processors. It uses four weights per sum and iteration,
// so that the sums stay in the cache.
func Portable(y []float32, ys int, x []float32, xs, rows int, w, bias []float32, k int) {
	for row := range rows {
		sum := [Cols]float32(bias)
		in := x[row*xs:][:k]
		at := w
		for len(in) >= 4 {
			a := in[0]
			b := in[1]
			c := in[2]
			d := in[3]
			wa, wb := (*[Cols]float32)(at), (*[Cols]float32)(at[Cols:])
			wc, wd := (*[Cols]float32)(at[2*Cols:]), (*[Cols]float32)(at[3*Cols:])
			for j := range sum {
				sum[j] += a*wa[j] + b*wb[j] + c*wc[j] + d*wd[j]
			}
			in, at = in[4:], at[4*Cols:]
		}
		for i, a := range in {
			for j, weight := range (*[Cols]float32)(at[i*Cols:]) {
				sum[j] += a * weight
			}
		}
		copy(y[row*ys:][:Cols], sum[:])
	}
}

// RoundUp rounds n up to a multiple of step.
func RoundUp(n, step int) int { return (n + step - 1) / step * step }
