package ledger

import (
	"sync"

	"github.com/google/uuid"
)

// recent are objects as they were lately read or put, by their ids. They may have changed
// since: whoever uses one compares its document with that of the row. They are never
// changed themselves. The zero value is empty.
type recent[T any] struct {
	mu  sync.Mutex
	all map[uuid.UUID]*T
}

// Bounds of what is remembered.
const (
	recentMost    = 1000
	recentDocMost = 16 << 10
)

// get returns nil for an object that is not remembered.
func (s *recent[T]) get(id uuid.UUID) *T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[id]
}

// put remembers an object unless its document is long.
func (s *recent[T]) put(id uuid.UUID, v *T, size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if size > recentDocMost {
		delete(s.all, id)
		return
	}
	if s.all == nil || len(s.all) >= recentMost {
		s.all = map[uuid.UUID]*T{}
	}
	s.all[id] = v
}

func (s *recent[T]) forget(id uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, id)
}
