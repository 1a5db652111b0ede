package memory_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

// A crowd counts running keys and records what has run.
type crowd struct {
	mu      sync.Mutex
	active  map[string]int
	most    int
	twice   bool
	covered map[string]words
}

func (c *crowd) run(ctx context.Context, key string, w words) (string, error) {
	c.mu.Lock()
	c.active[key]++
	c.twice = c.twice || c.active[key] > 1
	c.most = max(c.most, len(c.active))
	c.mu.Unlock()
	<-time.After(time.Duration(len(w)) * time.Second) // virtual
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.active[key]--; c.active[key] == 0 {
		delete(c.active, key)
	}
	c.covered[key] = append(c.covered[key], w...)
	return "", nil
}

// For any sequence of submits, cancellations, and flushes: a key never runs twice
// concurrently, no more keys run than there are workers, and everything that was not
// canceled runs once, in order. The same holds with a journal, which is empty at the end.
func TestSubmitsRunOnceInOrder(t *testing.T) {
	for _, durable := range []bool{false, true} {
		t.Run(fmt.Sprint("durable ", durable), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				synctest.Test(t, func(t *testing.T) { anyOrder(t, rt, durable) })
			})
		})
	}
}

func anyOrder(t *testing.T, rt *rapid.T, durable bool) {
	c := &crowd{active: map[string]int{}, covered: map[string]words{}}
	opts := &memory.ReflectorOptions[words, string]{Workers: rapid.IntRange(1, 3).Draw(rt, "workers")}
	s, err := store.NewMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	open := func() (*memory.Reflector[words, string], error) {
		if durable {
			return memory.OpenReflector(t.Context(), s, store.Namespace{"pending"}, c.run, opts)
		}
		return memory.NewReflector(c.run, opts)
	}
	r, err := open()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{}
	last := map[string]*memory.Reflection[string]{} // of each key
	group := map[string]int{}                       // the index in want of its first word
	for i := range rapid.IntRange(1, 30).Draw(rt, "steps") {
		key := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(rt, "key")
		switch rapid.SampledFrom([]string{"submit", "submit", "submit", "sleep", "cancel", "flush", "restart"}).Draw(rt, "what") {
		case "submit":
			after := time.Duration(rapid.IntRange(0, 5).Draw(rt, "after")) * time.Second
			h, err := r.Submit(t.Context(), key, words{fmt.Sprint(i)}, after)
			if err != nil {
				t.Fatal(err)
			}
			if last[key] != h {
				last[key], group[key] = h, len(want[key])
			}
			want[key] = append(want[key], fmt.Sprint(i))
		case "sleep":
			<-time.After(time.Duration(rapid.IntRange(1, 4000).Draw(rt, "ms")) * time.Millisecond)
		case "cancel":
			ok, err := r.Cancel(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			if ok {
				want[key] = want[key][:group[key]]
			}
		case "flush":
			if err := r.Flush(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		case "restart":
			if !durable {
				continue
			}
			if err := r.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if r, err = open(); err != nil {
				t.Fatal(err)
			}
			// The reflections are others now: what comes is another group only if
			// what was pending has run.
			if err := r.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
	}
	if err := r.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for key, w := range want {
		if got := strings.Join(c.covered[key], " "); got != strings.Join(w, " ") {
			t.Errorf("key %s ran %q, want %q", key, got, w)
		}
	}
	if c.twice || c.most > opts.Workers {
		t.Errorf("a key ran twice concurrently: %v; %d keys ran concurrently with %d workers", c.twice, c.most, opts.Workers)
	}
	if left, err := s.Search(t.Context(), store.Namespace{"pending"}, nil); err != nil || len(left) > 0 {
		t.Errorf("%d entries are left, %v", len(left), err)
	}
	if t.Failed() {
		rt.Fail() // so that rapid shrinks the case
	}
}
