package uselite

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// Every kernel computes the product as defined, and writes nothing outside its
// block.
func TestKernelsMatchDefinition(t *testing.T) {
	kernels := map[string]kernel{"portable": portable, "fastest": fastest()}
	for name, mul := range kernels {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			k := rapid.IntRange(1, 40).Draw(t, "k")
			n := blockCols * rapid.IntRange(1, 3).Draw(t, "panels")
			rows := blockRows * rapid.IntRange(1, 3).Draw(t, "blocks")
			xs := k + rapid.IntRange(0, 5).Draw(t, "gap in x")
			ys := n + rapid.IntRange(0, 5).Draw(t, "gap in y")
			numbers := rapid.Float32Range(-2, 2)
			x := rapid.SliceOfN(numbers, rows*xs, rows*xs).Draw(t, "x")
			weights := rapid.SliceOfN(numbers, k*n, k*n).Draw(t, "weights")
			bias := rapid.SliceOfN(numbers, n, n).Draw(t, "bias")

			const untouched = 77
			y := make([]float32, rows*ys)
			for i := range y {
				y[i] = untouched
			}
			pack(make([]float32, k*n), weights, n, k, n).multiply(mul, y, ys, x, xs, rows, bias)

			for row := range rows {
				for col := range ys {
					want := float64(untouched)
					if col < n {
						want = float64(bias[col])
						for i := range k {
							want += float64(x[row*xs+i]) * float64(weights[i*n+col])
						}
					}
					if got := float64(y[row*ys+col]); math.Abs(got-want) > 1e-4 {
						t.Fatalf("row %d, column %d: got %v, want %v", row, col, got, want)
					}
				}
			}
		}))
	}
}
