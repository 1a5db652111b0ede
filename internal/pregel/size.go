package pregel

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/treadle-go/treadle/checkpoint"
)

// DefaultSizeWarning is the size of a thread that is worth a warning.
const DefaultSizeWarning = 64 << 20

// A thread's size is the saver's to tell, and asking costs something. So a run
// counts what it stores, which costs nothing, and asks only when the thread may
// have come to the size that is next to be warned of: a few times until it
// doubles, and once when a thread is loaded that is old or big enough to be
// large already.

// oldThread is the number of steps from which on a loaded thread is asked for
// its size. A younger one is asked if its state is bigger than the limit
// divided by this: below both, all its states together are below the limit.
const oldThread = 100

// sizes remembers which threads were warned of, so that each doubling is told
// once in the life of the process.
type sizes struct {
	mu   sync.Mutex
	next map[headKey]int64 // the size that is next to be warned of
}

// maxWarned bounds how many threads are remembered; one that is forgotten is
// warned of again.
const maxWarned = 4096

// reached tells whether a thread of this size is to be warned of, and from what
// size on it will be again.
func (s *sizes) reached(key headKey, size, limit int64) (warn bool, next int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next = max(s.next[key], limit)
	if size < limit { // it was pruned, perhaps
		delete(s.next, key)
		return false, limit
	}
	for ; size >= next; next *= 2 {
		warn = true
	}
	if s.next == nil || len(s.next) >= maxWarned {
		s.next = map[headKey]int64{}
	}
	s.next[key] = next
	return warn, next
}

// loadedSize decides when to ask for the size of a thread that goes on from cp.
func (r *Run) loadedSize(cp *checkpoint.Checkpoint) {
	if r.set.Sizer == nil || r.parent() != nil {
		return
	}
	limit, state := r.set.SizeWarning, int64(0)
	for _, v := range cp.Values {
		state += stored(v.Data, v.Items)
	}
	r.shared.size.left.Store(limit / 4)
	if cp.Step >= oldThread || state >= limit/oldThread {
		r.shared.size.left.Store(0)
	}
}

// stored is the length of a value as it is stored.
func stored(data []byte, items [][]byte) int64 {
	n := len(data)
	for _, item := range items {
		n += len(item)
	}
	return int64(n)
}

// grewBy notes that the run has stored a checkpoint.
func (r *Run) grewBy(p *checkpoint.Put) {
	if r.set.Sizer == nil {
		return
	}
	n := int64(len(p.Control))
	for i := range p.Changes {
		n += stored(p.Changes[i].Data, p.Changes[i].Items)
	}
	r.grew(n)
}

// grewByWrites notes that it has stored results.
func (r *Run) grewByWrites(ws []checkpoint.Write) {
	if r.set.Sizer == nil {
		return
	}
	n := int64(0)
	for _, w := range ws {
		n += int64(len(w.Data))
	}
	r.grew(n)
}

// sizeBudget is how much a thread may grow until its size is asked for.
type sizeBudget struct{ left atomic.Int64 }

func (r *Run) grew(n int64) {
	if r.shared.size.left.Add(-n) < 0 {
		r.root().askSize()
	}
}

// askSize finds out how big the thread is and warns if it has come to the limit
// or has doubled since.
func (r *Run) askSize() {
	limit := r.set.SizeWarning
	r.shared.size.left.Store(limit) // whoever runs at the same time need not ask as well
	size, err := r.set.Sizer.Size(r.ctx, r.set.Thread)
	if errors.Is(err, checkpoint.ErrNotFound) || r.ctx.Err() != nil { // what is stored later is not there yet
		return
	}
	if err != nil {
		r.set.Logger.Warn("treadle: the size of a thread cannot be told", "graph", r.plan.name, "thread", r.set.Thread, "error", err)
		return
	}
	warn, next := r.plan.sizes.reached(headKey{r.set.HeadsOf, r.set.Thread}, size, limit)
	// What is counted is less than what the saver needs for it, so half the way
	// is a good time to look again.
	r.shared.size.left.Store(max((next-size)/2, next/16))
	if warn {
		r.set.Logger.Warn("treadle: a thread has grown large: prune it, keep big values elsewhere, or raise Options.SizeWarning",
			"graph", r.plan.name, "thread", r.set.Thread, "bytes", size, "next_warning_at", next)
	}
}
