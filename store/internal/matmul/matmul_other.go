//go:build !amd64 || purego

package matmul

// Fastest returns the fastest kernel for a processor.
func Fastest(Processor) Kernel { return Portable }

// Kernels returns the kernels that a processor can run, by name.
func Kernels(Processor) map[string]Kernel { return map[string]Kernel{"portable": Portable} }
