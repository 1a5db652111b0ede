//go:build !amd64 || purego

package minilm

func fastest() kernel { return portable }

func kernels() map[string]kernel { return map[string]kernel{"portable": portable} }
