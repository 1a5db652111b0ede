//go:build amd64 && !purego

package uselite

import "golang.org/x/sys/cpu"

// fastest returns the fastest kernel for this processor.
func fastest() kernel {
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA {
		return vector
	}
	return portable
}

// vector implements kernel for processors with AVX2 and FMA.
func vector(y []float32, ys int, x []float32, xs int, w, bias []float32, k int) {
	// The assembly does no bounds checks, so check the last element of each slice here.
	_ = y[(blockRows-1)*ys+blockCols-1]
	_ = x[(blockRows-1)*xs+k-1]
	_ = w[k*blockCols-1]
	_ = bias[blockCols-1]
	block(&y[0], ys, &x[0], xs, &w[0], &bias[0], k)
}

//go:noescape
func block(y *float32, ys int, x *float32, xs int, w, bias *float32, k int)
