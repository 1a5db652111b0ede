package saved

import (
	"slices"
	"sync"

	"github.com/treadle-go/treadle/store"
)

// Kinds of store records, as stored in tables.
const (
	ItemPut = iota + 1
	ItemDeleted
	ItemExpired
	ItemForgotten
)

var itemKinds = []store.Kind{ItemPut: store.Put, ItemDeleted: store.Deleted, ItemExpired: store.Expired, ItemForgotten: store.Forgotten}

// ItemKind returns the kind with the given number, or "" if the number is unknown.
func ItemKind(number int) store.Kind {
	if number < 0 || number >= len(itemKinds) {
		return ""
	}
	return itemKinds[number]
}

// ItemNumber returns the number of a kind, or 0 if the kind is unknown.
func ItemNumber(kind store.Kind) int { return max(0, slices.Index(itemKinds, kind)) }

// Span returns the bounds of the encoded names under a namespace: from is inclusive, to
// is exclusive.
func Span(name string) (from, to []byte) {
	from = []byte(name)
	if name == "" {
		return from, []byte{0xff} // UTF-8 text never starts with this byte
	}
	to = []byte(name)
	to[len(to)-1]++ // the byte that ends a segment
	return from, to
}

// News wakes this process's goroutines that wait for a write. The zero value is ready to
// use.
type News struct {
	mu   sync.Mutex
	told chan struct{} // nil if no goroutine waits
}

// Next returns a channel that is closed at the next write.
func (n *News) Next() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.told == nil {
		n.told = make(chan struct{})
	}
	return n.told
}

// Tell wakes the waiting goroutines after a write.
func (n *News) Tell() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.told != nil {
		close(n.told)
		n.told = nil
	}
}
