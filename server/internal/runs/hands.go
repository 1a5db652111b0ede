package runs

import (
	"sync"
	"time"
)

// hands is a pool of goroutines that execute functions. A run needs a deep stack, and a new
// goroutine would copy its stack several times until it is large enough. The zero value is an
// empty pool.
type hands struct {
	all sync.WaitGroup // all goroutines

	mu      sync.Mutex
	idle    []chan func() // idle goroutines, most recent last
	stopped bool
}

// handRests is the idle time after which a goroutine ends.
const handRests = time.Second

// do calls fn in an idle goroutine, or in a new one.
func (h *hands) do(fn func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.idle); n > 0 {
		h.idle[n-1] <- fn // does not block: the channel is buffered
		h.idle = h.idle[:n-1]
		return
	}
	h.all.Go(func() { h.work(fn) })
}

func (h *hands) work(fn func()) {
	next := make(chan func(), 1)
	rest := time.NewTimer(handRests)
	defer rest.Stop()
	for {
		fn()
		if !h.wait(next) {
			return
		}
		rest.Reset(handRests)
		select {
		case fn = <-next:
		case <-rest.C:
			if h.leave(next) {
				return
			}
			fn = <-next
		}
		if fn == nil {
			return
		}
	}
}

// wait adds next to the idle goroutines. It reports false if the goroutine must end.
func (h *hands) wait(next chan func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped {
		return false
	}
	h.idle = append(h.idle, next)
	return true
}

// leave reverts wait. It reports false if next is about to receive a function.
func (h *hands) leave(next chan func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, c := range h.idle {
		if c == next {
			h.idle = append(h.idle[:i], h.idle[i+1:]...)
			return true
		}
	}
	return false
}

// stop ends the idle goroutines immediately, and the others when their functions return. It
// waits for all of them.
func (h *hands) stop() {
	h.mu.Lock()
	h.stopped = true
	for _, c := range h.idle {
		close(c)
	}
	h.idle = nil
	h.mu.Unlock()
	h.all.Wait()
}
