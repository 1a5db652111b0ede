package saved

import (
	"slices"
	"sync"

	"github.com/treadle-go/treadle/store"
)

// The kinds of the records of a store, as tables have them.
const (
	ItemPut = iota + 1
	ItemDeleted
	ItemExpired
	ItemForgotten
)

var itemKinds = []store.Kind{ItemPut: store.Put, ItemDeleted: store.Deleted, ItemExpired: store.Expired, ItemForgotten: store.Forgotten}

// ItemKind is the kind with a number, empty if there is none.
func ItemKind(number int) store.Kind {
	if number < 0 || number >= len(itemKinds) {
		return ""
	}
	return itemKinds[number]
}

// ItemNumber is the number of a kind, 0 if it has none.
func ItemNumber(kind store.Kind) int { return max(0, slices.Index(itemKinds, kind)) }

// Span are the bounds of the encoded names under a namespace's: from the first,
// to before the second.
func Span(name string) (from, to []byte) {
	from = []byte(name)
	if name == "" {
		return from, []byte{0xff} // no UTF-8 begins with it
	}
	to = []byte(name)
	to[len(to)-1]++ // the byte that ends a segment
	return from, to
}

// News wakes the goroutines of this process that wait for a write. The zero value is
// ready to use.
type News struct {
	mu   sync.Mutex
	told chan struct{} // nil if nobody waits
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

// Tell wakes those who wait, after a write.
func (n *News) Tell() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.told != nil {
		close(n.told)
		n.told = nil
	}
}
