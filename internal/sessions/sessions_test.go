package sessions

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
)

func TestSessionsAreLimited(t *testing.T) {
	live := map[string]bool{}
	l := New(3, 2, func() iter.Seq[string] { return maps.Keys(live) })
	start := func(user, id string) (full *FullError) {
		started, err := l.Start(user)
		if err != nil {
			full, _ = errors.AsType[*FullError](err)
			return full
		}
		if id != "" {
			live[id] = true
		}
		started(id)
		return nil
	}
	for i, c := range []struct {
		user, id, ends string
		want           *FullError
	}{
		{user: "ann", id: "1"},
		{user: "ann"}, // no session results
		{user: "ann", id: "2"},
		{user: "ann", id: "3", want: &FullError{2, true}},
		{user: "ben", id: "4"},
		{user: "cleo", id: "5", want: &FullError{3, false}},
		{user: "ann", id: "6", ends: "1"},
		{user: "cleo", id: "7", ends: "6"},
		{user: "ben", id: "8", want: &FullError{3, false}},
	} {
		delete(live, c.ends)
		got := start(c.user, c.id)
		if (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%d: session of %s: %v, want %v", i, c.user, got, c.want)
		}
	}
}

func TestConcurrentStartsAreLimited(t *testing.T) {
	var all sync.WaitGroup
	var open atomic.Int32
	var mu sync.Mutex
	live := map[string]bool{}
	l := New(10, 4, func() iter.Seq[string] {
		mu.Lock()
		defer mu.Unlock()
		return maps.Keys(maps.Clone(live))
	})
	for i := range 200 {
		all.Go(func() {
			started, err := l.Start(fmt.Sprint(i % 5))
			if err != nil {
				return
			}
			open.Add(1)
			id := fmt.Sprint("id ", i)
			mu.Lock()
			live[id] = true
			mu.Unlock()
			started(id)
		})
	}
	all.Wait()
	if n := open.Load(); n != 10 {
		t.Errorf("%d sessions, want 10", n)
	}
}
