//go:build !amd64 || purego

package uselite

// fastest returns the fastest kernel for this processor.
func fastest() kernel { return portable }
