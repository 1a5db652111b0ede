package ledger

import (
	"github.com/google/uuid"

	"github.com/treadle-go/treadle/internal/budget"
)

// recent are objects as they were lately read or put, by their ids. They may have changed
// since: whoever uses one compares its document with that of the row. They are never
// changed themselves.
type recent[T any] struct {
	cache *budget.Cache[uuid.UUID, *T]
}

// Limits of what is remembered.
const (
	ownMemory     = 16 << 20 // bytes, if Options.Memory is nil
	recentDocMost = 16 << 10
)

// memoryKind names the remembered objects in the metrics of a server.
const memoryKind = "ledger"

func newRecent[T any](b *budget.Budget) recent[T] {
	return recent[T]{budget.NewCache[uuid.UUID, *T](b, memoryKind)}
}

// get returns nil for an object that is not remembered.
func (s *recent[T]) get(id uuid.UUID) *T {
	v, _ := s.cache.Get(id)
	return v
}

// put remembers an object unless its document is long. A decoded object takes about three
// times the bytes of its document, which it has too.
func (s *recent[T]) put(id uuid.UUID, v *T, size int) {
	if size > recentDocMost {
		s.cache.Delete(id)
		return
	}
	s.cache.Set(id, v, 512+4*int64(size))
}

func (s *recent[T]) forget(id uuid.UUID) { s.cache.Delete(id) }
