//go:build amd64 && !purego

package minilm

import "golang.org/x/sys/cpu"

// fastest returns the fastest kernel for this processor.
func fastest() kernel {
	switch {
	case cpu.X86.HasAVX512F:
		return avx512
	case cpu.X86.HasAVX2 && cpu.X86.HasFMA:
		return avx2
	}
	return portable
}

// kernels returns the kernels that this processor can run.
func kernels() map[string]kernel {
	all := map[string]kernel{"portable": portable}
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA {
		all["avx2"] = avx2
	}
	if cpu.X86.HasAVX512F {
		all["avx512"] = avx512
	}
	return all
}

// avx512 implements kernel for processors with AVX-512.
func avx512(y []float32, ys int, x []float32, xs int, w, bias []float32, k int) {
	checkBlock(y, ys, x, xs, w, bias, k)
	block8(&y[0], ys, &x[0], xs, &w[0], &bias[0], k)
}

// avx2 implements kernel for processors with AVX2 and FMA.
func avx2(y []float32, ys int, x []float32, xs int, w, bias []float32, k int) {
	checkBlock(y, ys, x, xs, w, bias, k)
	block4(&y[0], ys, &x[0], xs, &w[0], &bias[0], k)
	block4(&y[4*ys], ys, &x[4*xs], xs, &w[0], &bias[0], k)
}

// checkBlock panics if a block exceeds a slice: the assembly does no bounds checks.
func checkBlock(y []float32, ys int, x []float32, xs int, w, bias []float32, k int) {
	_ = y[(blockRows-1)*ys+blockCols-1]
	_ = x[(blockRows-1)*xs+k-1]
	_ = w[k*blockCols-1]
	_ = bias[blockCols-1]
}

// block8 computes eight rows.
//
//go:noescape
func block8(y *float32, ys int, x *float32, xs int, w, bias *float32, k int)

// block4 computes four rows.
//
//go:noescape
func block4(y *float32, ys int, x *float32, xs int, w, bias *float32, k int)
