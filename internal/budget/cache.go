package budget

import "sync"

// A Cache holds values by key, and charges their memory to a budget. It is safe for concurrent
// use. A nil *Cache is always empty.
type Cache[K comparable, V any] struct {
	mu      sync.Mutex
	b       *Budget
	account *Account
	most    int // maximum number of entries; 0 means no limit
	high    int // maximum length of the map since it was created
	entries map[K]*entry[K, V]
	ring    entry[K, V] // ring.next was used most recently, ring.prev least recently
}

type entry[K comparable, V any] struct {
	key        K
	value      V
	size       int64
	used       uint64
	prev, next *entry[K, V]
}

// entrySize is the estimated size of an entry without its value.
const entrySize = 160

// NewCache returns an empty cache whose bytes count as kind.
func NewCache[K comparable, V any](b *Budget, kind string) *Cache[K, V] {
	c := &Cache[K, V]{b: b, account: b.Account(kind), entries: map[K]*entry[K, V]{}}
	c.ring.prev, c.ring.next = &c.ring, &c.ring
	b.Register(c)
	return c
}

// Move empties the cache and charges its memory to another budget.
func (c *Cache[K, V]) Move(b *Budget, kind string) {
	c.mu.Lock()
	old := c.b
	c.clear()
	c.account.close()
	c.b, c.account = b, b.Account(kind)
	c.mu.Unlock()
	old.Unregister(c)
	b.Register(c)
}

// Bound limits the number of entries, in addition to their size.
func (c *Cache[K, V]) Bound(entries int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.most = entries
}

// Get returns the value of k, if the cache holds it.
func (c *Cache[K, V]) Get(k K) (v V, ok bool) {
	if c == nil {
		return v, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[k]
	if e == nil {
		return v, false
	}
	c.use(e)
	return e.value, true
}

// Set sets the value of k. size is the estimated size of v in bytes. A value larger than a
// quarter of the budget is not stored.
func (c *Cache[K, V]) Set(k K, v V, size int64) {
	if c == nil {
		return
	}
	if b := c.set(k, v, size+entrySize); b != nil {
		b.Reclaim()
	}
}

// set returns the budget if it has stored the value, and nil otherwise.
func (c *Cache[K, V]) set(k K, v V, size int64) *Budget {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[k]
	if size > c.b.limit/4 {
		if e != nil {
			c.remove(e)
		}
		return nil
	}
	if e == nil {
		e = &entry[K, V]{key: k}
		c.entries[k] = e
		c.high = max(c.high, len(c.entries))
		e.prev, e.next = e, e
	}
	c.account.Add(size - e.size)
	e.value, e.size = v, size
	c.use(e)
	if c.most > 0 && len(c.entries) > c.most {
		c.remove(c.ring.prev)
	}
	return c.b
}

// Delete removes k and its value.
func (c *Cache[K, V]) Delete(k K) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[k]; e != nil {
		c.remove(e)
	}
}

// Clear removes all values.
func (c *Cache[K, V]) Clear() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clear()
}

// Len returns the number of values.
func (c *Cache[K, V]) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.entries)
}

// Oldest implements [Evictor].
func (c *Cache[K, V]) Oldest() (tick uint64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ring.prev.used, c.ring.prev != &c.ring
}

// Evict implements [Evictor].
func (c *Cache[K, V]) Evict() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last := c.ring.prev; last != &c.ring {
		c.remove(last)
	}
}

func (c *Cache[K, V]) clear() {
	for _, e := range c.entries {
		c.account.Add(-e.size)
	}
	clear(c.entries)
	c.shrink()
	c.ring.prev, c.ring.next = &c.ring, &c.ring
}

// shrink replaces an empty map that once had many entries, because maps never shrink.
func (c *Cache[K, V]) shrink() {
	if c.high > 1024 {
		c.entries, c.high = map[K]*entry[K, V]{}, 0
	}
}

// use marks e as the most recently used entry.
func (c *Cache[K, V]) use(e *entry[K, V]) {
	e.used = c.b.Tick()
	if c.ring.next == e {
		return
	}
	e.prev.next, e.next.prev = e.next, e.prev
	e.prev, e.next = &c.ring, c.ring.next
	e.prev.next, e.next.prev = e, e
}

func (c *Cache[K, V]) remove(e *entry[K, V]) {
	e.prev.next, e.next.prev = e.next, e.prev
	delete(c.entries, e.key)
	c.account.Add(-e.size)
	if len(c.entries) == 0 {
		c.shrink()
	}
}
