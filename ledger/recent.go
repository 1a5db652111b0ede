package ledger

import (
	"github.com/google/uuid"

	"github.com/treadle-go/treadle/internal/budget"
)

// recent caches objects that were recently read or put, by ID. They may be outdated, so the
// user of a cached object must compare its document with the row's. Cached objects are never
// modified.
type recent[T any] struct {
	cache *budget.Cache[uuid.UUID, *T]
}

// Limits of the cache.
const (
	ownMemory     = 16 << 20 // bytes, if Options.Memory is nil
	recentDocMost = 16 << 10
)

// memoryKind identifies the cached objects in the metrics of a server.
const memoryKind = "ledger"

func newRecent[T any](b *budget.Budget) recent[T] {
	return recent[T]{budget.NewCache[uuid.UUID, *T](b, memoryKind)}
}

// get returns the cached object, or nil.
func (s *recent[T]) get(id uuid.UUID) *T {
	v, _ := s.cache.Get(id)
	return v
}

// put caches an object, unless its document is long. A decoded object takes about three times
// the size of its document, and it also holds the document.
func (s *recent[T]) put(id uuid.UUID, v *T, size int) {
	if size > recentDocMost {
		s.cache.Delete(id)
		return
	}
	s.cache.Set(id, v, 512+4*int64(size))
}

func (s *recent[T]) forget(id uuid.UUID) { s.cache.Delete(id) }
