package saved

// Generations is a cache with a size limit in bytes and two generations. Set and Get move
// an entry to the young generation. When the young generation reaches half of the limit,
// it becomes the old one, and entries of the previous old generation that were not read
// since are dropped. Entries larger than a quarter of the limit are not cached. It is not
// safe for concurrent use.
type Generations[K comparable, V interface{ Size() int }] struct {
	Most int // size limit in bytes

	young, old map[K]V
	bytes      int // size of the young generation
}

// Get returns the cached value of k.
func (g *Generations[K, V]) Get(k K) (V, bool) {
	v, ok := g.young[k]
	if !ok {
		if v, ok = g.old[k]; ok {
			g.Set(k, v)
		}
	}
	return v, ok
}

// Set caches the value of k.
func (g *Generations[K, V]) Set(k K, v V) {
	if v.Size() > g.Most/4 {
		g.Delete(k)
		return
	}
	if g.young == nil || g.bytes+v.Size() > g.Most/2 {
		g.young, g.old, g.bytes = map[K]V{}, g.young, 0
	}
	if was, ok := g.young[k]; ok {
		g.bytes -= was.Size()
	}
	g.young[k] = v
	g.bytes += v.Size()
}

// Delete removes the value of k.
func (g *Generations[K, V]) Delete(k K) {
	if was, ok := g.young[k]; ok {
		g.bytes -= was.Size()
		delete(g.young, k)
	}
	delete(g.old, k)
}

// Clear removes all entries.
func (g *Generations[K, V]) Clear() { g.young, g.old, g.bytes = nil, nil, 0 }

// Len returns the number of cached values.
func (g *Generations[K, V]) Len() int {
	n := len(g.young)
	for k := range g.old {
		if _, ok := g.young[k]; !ok {
			n++
		}
	}
	return n
}
