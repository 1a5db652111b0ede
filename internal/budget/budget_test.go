package budget

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
)

func TestReclaimEvictsOldestOfAllCaches(t *testing.T) {
	b := New(64 << 10)
	first, second := NewCache[int, string](b, "first"), NewCache[int, string](b, "second")
	first.Set(1, "old", 10<<10)
	second.Set(1, "older than it looks", 10<<10)
	first.Set(2, "new", 10<<10)
	if _, ok := first.Get(1); !ok { // now the entry of second is the oldest
		t.Fatal("entry missing before the budget is exceeded")
	}
	for i := range 4 {
		first.Set(10+i, "more", 10<<10)
	}
	if _, ok := second.Get(1); ok {
		t.Error("least recently used entry not evicted")
	}
	if _, ok := first.Get(1); !ok {
		t.Error("recently used entry evicted")
	}
	if b.Used() > b.Limit() {
		t.Errorf("%d of %d bytes used", b.Used(), b.Limit())
	}
	if got := b.ByKind(); got["first"]+got["second"] != b.Used() {
		t.Errorf("kinds add up to %v, want %d", got, b.Used())
	}
}

func TestCacheRejectsLargeValues(t *testing.T) {
	b := New(64 << 10)
	c := NewCache[int, string](b, "kind")
	c.Set(1, "small", 10)
	c.Set(2, "small", 10)
	c.Set(1, "large", 32<<10)
	if _, ok := c.Get(1); ok {
		t.Error("value of half the budget cached")
	}
	if _, ok := c.Get(2); !ok {
		t.Error("small value evicted for a large one")
	}
}

func TestAgeEvictsUnusedEntries(t *testing.T) {
	b := New(1 << 20)
	c := NewCache[string, int](b, "kind")
	c.Set("used", 1, 10)
	c.Set("unused", 2, 10)
	b.Age()
	if c.Len() != 2 {
		t.Fatalf("%d entries after the first Age, want 2", c.Len())
	}
	c.Get("used")
	b.Age()
	if _, ok := c.Get("unused"); ok {
		t.Error("unused entry not evicted")
	}
	if _, ok := c.Get("used"); !ok {
		t.Error("used entry evicted")
	}
	b.Age()
	b.Age()
	if c.Len() != 0 || b.Used() != 0 {
		t.Errorf("%d entries, %d bytes after all are unused", c.Len(), b.Used())
	}
}

func TestMoveChangesBudget(t *testing.T) {
	first, second := New(1<<20), New(1<<20)
	c := NewCache[int, int](first, "kind")
	c.Set(1, 1, 100)
	c.Move(second, "other")
	c.Set(2, 2, 100)
	if first.Used() != 0 || len(first.ByKind()) != 0 {
		t.Errorf("old budget has %d bytes: %v", first.Used(), first.ByKind())
	}
	if got := second.ByKind()["other"]; got != 100+entrySize {
		t.Errorf("new budget has %d bytes", got)
	}
	first.Age()
	first.Age()
	if _, ok := c.Get(2); !ok {
		t.Error("entry evicted by the old budget")
	}
}

// A cache agrees with a map, the account with the cache, and the ring with both, whatever
// happens in whatever order.
func TestCacheMatchesMap(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		b := New(1 << 40) // so that nothing is evicted but by Evict
		c := NewCache[int, int](b, "kind")
		want, size, order := map[int]int{}, map[int]int64{}, []int{}
		touch := func(k int, there bool) {
			for i, o := range order {
				if o == k {
					order = append(order[:i], order[i+1:]...)
					break
				}
			}
			if there {
				order = append(order, k)
			}
		}
		for i := range 500 {
			k := rnd.IntN(10)
			switch rnd.IntN(6) {
			case 0, 1:
				n := rnd.Int64N(100)
				c.Set(k, i, n)
				want[k], size[k] = i, n+entrySize
				touch(k, true)
			case 2:
				c.Delete(k)
				delete(want, k)
				touch(k, false)
			case 3:
				c.Evict()
				if len(order) > 0 {
					delete(want, order[0])
					order = order[1:]
				}
			case 4:
				if rnd.IntN(20) == 0 {
					c.Clear()
					clear(want)
					order = nil
				}
			default:
				v, ok := c.Get(k)
				w, there := want[k]
				if v != w || ok != there {
					t.Fatalf("seed %d, step %d: Get(%d) = %d, %t, want %d, %t", seed, i, k, v, ok, w, there)
				}
				if ok {
					touch(k, true)
				}
			}
			var sum int64
			for k := range want {
				sum += size[k]
			}
			if c.Len() != len(want) || b.Used() != sum {
				t.Fatalf("seed %d, step %d: %d entries with %d bytes, want %d with %d", seed, i, c.Len(), b.Used(), len(want), sum)
			}
		}
	}
}

func TestConcurrentCachesStayWithinBudget(t *testing.T) {
	b := New(1 << 20)
	caches := []*Cache[string, int]{NewCache[string, int](b, "a"), NewCache[string, int](b, "b")}
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			c := caches[w%2]
			for i := range 500 {
				c.Set(fmt.Sprint(w, i), i, 10_000)
				c.Get(fmt.Sprint(w, i-1))
				if i%100 == 0 {
					b.Age()
				}
			}
		})
	}
	wg.Wait()
	b.Reclaim()
	if b.Over() {
		t.Errorf("%d of %d bytes used", b.Used(), b.Limit())
	}
	for _, c := range caches {
		c.Clear()
	}
	if b.Used() != 0 {
		t.Errorf("%d bytes used by empty caches", b.Used())
	}
}

func TestNilCacheIsEmpty(t *testing.T) {
	var c *Cache[int, int]
	c.Set(1, 1, 1)
	c.Delete(1)
	c.Clear()
	if _, ok := c.Get(1); ok {
		t.Error("nil cache has a value")
	}
	var a *Account
	a.Add(1)
	if a.Bytes() != 0 {
		t.Error("nil account counts")
	}
}
