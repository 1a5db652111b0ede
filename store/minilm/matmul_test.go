package minilm

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/treadle-go/treadle/store/internal/matmul"
)

func TestKernelsMatchDefinition(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	numbers := func(n int) []float32 {
		out := make([]float32, n)
		for i := range out {
			out[i] = random.Float32()*2 - 1
		}
		return out
	}
	for name, mul := range matmul.Kernels(processor) {
		for i, k := range []int{1, 2, 3, 4, 5, 17, 384} {
			const n = 3 * matmul.Cols
			rows := (1 + i) * matmul.Rows
			xs, ys := k+random.IntN(4), n+random.IntN(4)
			weights, x, bias := numbers(k*n), numbers(rows*xs), numbers(n)
			y := numbers(rows * ys)
			before := append([]float32(nil), y...)
			matmul.Pack(make([]float32, k*n), weights, n, k, n).Multiply(mul, y, ys, x, xs, rows, bias)
			for row := range rows {
				for col := range ys {
					got := y[row*ys+col]
					if col >= n {
						if got != before[row*ys+col] {
							t.Fatalf("%s, k = %d: wrote to row %d, column %d", name, k, row, col)
						}
						continue
					}
					want := float64(bias[col])
					for i := range k {
						want += float64(x[row*xs+i]) * float64(weights[i*n+col])
					}
					if math.Abs(float64(got)-want) > 1e-4 {
						t.Fatalf("%s, k = %d: row %d, column %d is %g, want %g", name, k, row, col, got, want)
					}
				}
			}
		}
	}
}
