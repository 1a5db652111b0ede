package runs

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestHandsAreReusedAndEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h hands
		idle := func() int {
			synctest.Wait()
			h.mu.Lock()
			defer h.mu.Unlock()
			return len(h.idle)
		}
		calls := 0
		for range 100 {
			h.do(func() { calls++ })
			if n := idle(); n != 1 {
				t.Fatalf("%d goroutines wait after %d calls one by one, want 1", n, calls)
			}
		}
		// A call never waits for another one.
		var all sync.WaitGroup
		all.Add(10)
		for range 10 {
			h.do(func() { all.Done(); all.Wait() })
		}
		if n := idle(); n != 10 {
			t.Errorf("%d goroutines wait after 10 concurrent calls, want 10", n)
		}
		time.Sleep(2 * handRests) //nolint:forbidigo // virtual time
		if n := idle(); n != 0 {
			t.Errorf("%d goroutines without work are left", n)
		}
		ended := false
		h.do(func() { calls++ })
		h.do(func() { time.Sleep(time.Minute); ended = true }) //nolint:forbidigo // virtual time
		h.stop()
		if !ended || calls != 101 {
			t.Errorf("stop returns before the calls have: %d calls, long one ended %t", calls, ended)
		}
	})
}

// A goroutine may get a function at the moment at which it has waited long enough.
func TestLeavingHandsLoseNoCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h hands
		var mu sync.Mutex
		calls := 0
		for range 50 {
			for range 4 {
				h.do(func() { mu.Lock(); defer mu.Unlock(); calls++ })
			}
			time.Sleep(handRests) //nolint:forbidigo // virtual time
		}
		h.stop()
		if calls != 200 {
			t.Errorf("%d of 200 functions were called", calls)
		}
	})
}
