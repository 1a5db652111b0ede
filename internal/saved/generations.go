package saved

// Generations is a cache whose entries take a limited number of bytes, in two generations:
// what is set or got comes into the young one. When that has half of the bytes it becomes
// the old one, and what nobody got from the old one before is dropped. It keeps entries of
// up to a quarter of the bytes. It is not safe for concurrent use.
type Generations[K comparable, V interface{ Size() int }] struct {
	Most int // bytes

	young, old map[K]V
	bytes      int // of the young
}

// Get returns the value of k, if it is kept.
func (g *Generations[K, V]) Get(k K) (V, bool) {
	v, ok := g.young[k]
	if !ok {
		if v, ok = g.old[k]; ok {
			g.Set(k, v)
		}
	}
	return v, ok
}

// Set keeps the value of k.
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

// Delete drops the value of k.
func (g *Generations[K, V]) Delete(k K) {
	if was, ok := g.young[k]; ok {
		g.bytes -= was.Size()
		delete(g.young, k)
	}
	delete(g.old, k)
}

// Clear drops everything.
func (g *Generations[K, V]) Clear() { g.young, g.old, g.bytes = nil, nil, 0 }

// Len is how many values are kept.
func (g *Generations[K, V]) Len() int {
	n := len(g.young)
	for k := range g.old {
		if _, ok := g.young[k]; !ok {
			n++
		}
	}
	return n
}
