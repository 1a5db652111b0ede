package checkpointtest

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/treadle-go/treadle/checkpoint"
)

// RunCache tests a Cache. open returns an empty cache and cleans up with t.Cleanup. It
// is called inside a testing/synctest bubble, so the cache must use package time as its
// clock.
func RunCache(t *testing.T, open func(t *testing.T) checkpoint.Cache) {
	t.Helper()
	for _, test := range caches {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test.run(&cache{t, open(t)}) })
		})
	}
}

type cache struct {
	*testing.T
	c checkpoint.Cache
}

func (c *cache) set(space, key, value string, ttl time.Duration) {
	c.Helper()
	if err := c.c.Set(c.Context(), space, key, []byte(value), ttl); err != nil {
		c.Fatalf("set (%s, %s): %v", space, key, err)
	}
}

// pass advances the virtual time by d.
func (c *cache) pass(d time.Duration) { <-time.After(d) }

func (c *cache) want(space, key, value string) {
	c.Helper()
	got, ok, err := c.c.Get(c.Context(), space, key)
	if err != nil || !ok || string(got) != value {
		c.Errorf("get (%q, %q): got %q, %v, %v; want %q", short(space), short(key), short(string(got)), ok, err, short(value))
	}
}

func (c *cache) none(space, key string) {
	c.Helper()
	got, ok, err := c.c.Get(c.Context(), space, key)
	if err != nil || ok || got != nil {
		c.Errorf("get (%q, %q): got %q, %v, %v; want no value", short(space), short(key), short(string(got)), ok, err)
	}
}

func (c *cache) clear(spaces ...string) {
	c.Helper()
	if err := c.c.Clear(c.Context(), spaces...); err != nil {
		c.Fatalf("clear %q: %v", spaces, err)
	}
}

var caches = []struct {
	name string
	run  func(*cache)
}{
	{"GetReturnsSetValue", func(c *cache) {
		c.none("s", "k")
		c.set("s", "k", "one", 0)
		c.want("s", "k", "one")
		c.set("s", "k", "two", 0)
		c.want("s", "k", "two")
		c.set("s", "empty", "", 0)
		if got, ok, err := c.c.Get(c.Context(), "s", "empty"); !ok || len(got) != 0 || err != nil {
			c.Errorf("empty value: got %q, %v, %v; want it to exist", got, ok, err)
		}
	}},
	{"SpacesAndKeysAreSeparate", func(c *cache) {
		c.set("a", "bc", "1", 0)
		c.set("ab", "c", "2", 0)
		c.set("a", "", "3", 0)
		c.set("", "a", "4", 0)
		c.want("a", "bc", "1")
		c.want("ab", "c", "2")
		c.want("a", "", "3")
		c.want("", "a", "4")
		c.none("abc", "")
		c.none("", "abc")
	}},
	{"NamesAndValuesAreArbitraryBytes", func(c *cache) {
		for i, name := range names {
			c.set(name, "k", fmt.Sprint("\x00\xff", i), 0)
			c.set("s", name, fmt.Sprint("\xff\x00", i), 0)
		}
		for i, name := range names {
			c.want(name, "k", fmt.Sprint("\x00\xff", i))
			c.want("s", name, fmt.Sprint("\xff\x00", i))
		}
	}},
	{"ValuesExpire", func(c *cache) {
		c.set("s", "minute", "1", time.Minute)
		c.set("s", "hour", "2", time.Hour)
		c.set("s", "ever", "3", 0)
		c.pass(time.Minute - 1)
		c.want("s", "minute", "1")
		c.pass(1)
		c.none("s", "minute")
		c.want("s", "hour", "2")
		c.pass(1000 * time.Hour)
		c.none("s", "hour")
		c.want("s", "ever", "3")
		c.none("s", "minute") // it does not reappear
	}},
	{"SetResetsTTL", func(c *cache) {
		c.set("s", "longer", "1", time.Minute)
		c.set("s", "ever", "1", time.Minute)
		c.set("s", "shorter", "1", 0)
		c.pass(30 * time.Second)
		c.set("s", "longer", "2", time.Minute)
		c.set("s", "ever", "2", 0)
		c.set("s", "shorter", "2", time.Second)
		c.pass(45 * time.Second)
		c.want("s", "longer", "2")
		c.want("s", "ever", "2")
		c.none("s", "shorter")
		c.pass(time.Hour)
		c.none("s", "longer")
		c.want("s", "ever", "2")
		c.set("s", "longer", "3", time.Minute) // after it expired
		c.want("s", "longer", "3")
	}},
	{"ClearRemovesNamedSpaces", func(c *cache) {
		fill := func() {
			for _, space := range []string{"a", "b", "a/b", "A", "a%"} {
				c.set(space, "k", space, 0)
				c.set(space, "l", space, time.Hour)
			}
		}
		fill()
		c.clear("a", "unknown")
		c.none("a", "k")
		c.none("a", "l")
		for _, space := range []string{"b", "a/b", "A", "a%"} {
			c.want(space, "k", space)
			c.want(space, "l", space)
		}
		c.clear("a%", "b")
		c.none("b", "k")
		c.none("a%", "k")
		c.want("a/b", "k", "a/b")
		fill()
		c.clear()
		for _, space := range []string{"a", "b", "a/b", "A", "a%"} {
			c.none(space, "k")
			c.none(space, "l")
		}
		c.set("a", "k", "again", 0)
		c.want("a", "k", "again")
	}},
	{"ValuesAreCopied", func(c *cache) {
		given := []byte("value")
		if err := c.c.Set(c.Context(), "s", "k", given, 0); err != nil {
			c.Fatal(err)
		}
		copy(given, "GIVEN")
		c.want("s", "k", "value")
		got, _, err := c.c.Get(c.Context(), "s", "k")
		if err != nil {
			c.Fatal(err)
		}
		copy(got, "TAKEN")
		_ = append(got, '!')
		c.want("s", "k", "value")
	}},
	{"ConcurrentUse", func(c *cache) {
		const workers, each = 8, 20
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				for i := range each {
					space := fmt.Sprint("space ", w)
					c.set(space, fmt.Sprint(i), fmt.Sprint(w, i), time.Hour)
					c.want(space, fmt.Sprint(i), fmt.Sprint(w, i))
					c.set("shared", "k", "v", 0)
					c.want("shared", "k", "v")
					if i == each/2 {
						c.clear(fmt.Sprint("missing ", w))
					}
				}
			})
		}
		wg.Wait()
		for w := range workers {
			for i := range each {
				c.want(fmt.Sprint("space ", w), fmt.Sprint(i), fmt.Sprint(w, i))
			}
		}
	}},
}
