//go:build !amd64 || purego

package uselite

// fastest is the kernel for this processor.
func fastest() kernel { return portable }
