package store

// NewIndexedMemoryBackend returns a memory backend that uses its indexes for any number of
// items.
func NewIndexedMemoryBackend() Backend {
	m := NewMemoryBackend().(*memory)
	m.few = 0
	return m
}
