//go:build amd64 && !purego

package matmul

// Fastest returns the fastest kernel for a processor.
func Fastest(p Processor) Kernel {
	switch {
	case p.AVX2 && p.AVX512:
		return avx512
	case p.AVX2:
		return avx2
	}
	return Portable
}

// Kernels returns the kernels that a processor can run, by name.
func Kernels(p Processor) map[string]Kernel {
	all := map[string]Kernel{"portable": Portable}
	if p.AVX2 {
		all["avx2"] = avx2
	}
	if p.AVX2 && p.AVX512 {
		all["avx512"] = avx512
	}
	return all
}

// avx512 implements Kernel for processors with AVX-512. It computes the last four rows with
// AVX2 if eight do not remain.
func avx512(y []float32, ys int, x []float32, xs, rows int, w, bias []float32, k int) {
	check(y, ys, x, xs, rows, w, bias, k)
	row := 0
	for ; row+2*Rows <= rows; row += 2 * Rows {
		block8(&y[row*ys], ys, &x[row*xs], xs, &w[0], &bias[0], k)
	}
	if row < rows {
		block4(&y[row*ys], ys, &x[row*xs], xs, &w[0], &bias[0], k)
	}
}

// avx2 implements Kernel for processors with AVX2 and FMA.
func avx2(y []float32, ys int, x []float32, xs, rows int, w, bias []float32, k int) {
	check(y, ys, x, xs, rows, w, bias, k)
	for row := 0; row < rows; row += Rows {
		block4(&y[row*ys], ys, &x[row*xs], xs, &w[0], &bias[0], k)
	}
}

// check panics if the rows exceed a slice or are no multiple of Rows: the assembly does no
// bounds checks.
func check(y []float32, ys int, x []float32, xs, rows int, w, bias []float32, k int) {
	if rows <= 0 || rows%Rows != 0 || k <= 0 {
		panic("matmul: invalid size")
	}
	_ = y[(rows-1)*ys+Cols-1]
	_ = x[(rows-1)*xs+k-1]
	_ = w[k*Cols-1]
	_ = bias[Cols-1]
}

// block8 computes eight rows.
//
//go:noescape
func block8(y *float32, ys int, x *float32, xs int, w, bias *float32, k int)

// block4 computes four rows.
//
//go:noescape
func block4(y *float32, ys int, x *float32, xs int, w, bias *float32, k int)
