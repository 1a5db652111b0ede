package saved

import "sync"

// A Memo is a cache of values that were read or written, with a limited number of
// entries. When it is full, an arbitrary entry is evicted, because it can be read again.
// The zero value is empty. A Memo is safe for concurrent use.
type Memo[K comparable, V any] struct {
	mu      sync.Mutex
	entries map[K]V
}

// memoMax is the maximum number of entries in a Memo.
const memoMax = 4096

// Get returns the cached value of k.
func (m *Memo[K, V]) Get(k K) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.entries[k]
	return v, ok
}

// Set caches the value of k.
func (m *Memo[K, V]) Set(k K, v V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.entries == nil {
		m.entries = map[K]V{}
	}
	if _, ok := m.entries[k]; !ok && len(m.entries) >= memoMax {
		for old := range m.entries {
			delete(m.entries, old)
			break
		}
	}
	m.entries[k] = v
}

// Delete removes the value of k.
func (m *Memo[K, V]) Delete(k K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.entries, k)
}

// Clear removes all entries.
func (m *Memo[K, V]) Clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.entries)
}
