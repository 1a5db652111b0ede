package pregel

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/treadle-go/treadle/checkpoint"
)

// DefaultSizeWarning is the default thread size in bytes that triggers a warning.
const DefaultSizeWarning = 64 << 20

// oldThread is the number of steps from which the size of a loaded thread is
// queried. For a younger thread, it is queried if the state is larger than the
// limit divided by oldThread: below both bounds, all its states together are below
// the limit.
//
// Only the saver can determine a thread's size, and the query has a cost. A run
// therefore counts what it saves and queries only when the thread may have reached
// the next warning size: a few times until it doubles, and once for a loaded thread
// that is old or large.
const oldThread = 100

// sizes records the threads that were warned about, so that each doubling is
// reported once per process.
type sizes struct {
	mu   sync.Mutex
	next map[headKey]int64 // the size for the next warning
}

// maxWarned limits the number of recorded threads. Dropped threads are warned about
// again.
const maxWarned = 4096

// reached reports whether a thread of this size requires a warning, and returns the
// size for the next one.
func (s *sizes) reached(key headKey, size, limit int64) (warn bool, next int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next = max(s.next[key], limit)
	if size < limit { // it may have been pruned
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

// loadedSize decides when to query the size of a thread that continues from cp.
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

// stored returns the saved length of a value.
func stored(data []byte, items [][]byte) int64 {
	n := len(data)
	for _, item := range items {
		n += len(item)
	}
	return int64(n)
}

// grewBy records that the run has saved a checkpoint.
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

// grewByWrites records that the run has saved results.
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

// sizeBudget is the number of bytes that may be saved before the thread's size is
// queried.
type sizeBudget struct{ left atomic.Int64 }

func (r *Run) grew(n int64) {
	if r.shared.size.left.Add(-n) < 0 {
		r.root().askSize()
	}
}

// askSize queries the thread's size. It warns if the size has reached the limit or
// doubled since the last warning.
func (r *Run) askSize() {
	limit := r.set.SizeWarning
	r.shared.size.left.Store(limit) // concurrent runs need not query too
	size, err := r.set.Sizer.Size(r.ctx, r.set.Thread)
	if errors.Is(err, checkpoint.ErrNotFound) || r.ctx.Err() != nil { // a deferred save may not have happened yet
		return
	}
	if err != nil {
		r.set.Logger.Warn("treadle: failed to read thread size", "graph", r.plan.name, "thread", r.set.Thread, "error", err)
		return
	}
	warn, next := r.plan.sizes.reached(headKey{r.plan, r.set.HeadsOf, r.set.Thread}, size, limit)
	// A saver needs more space than is counted here, so query again halfway.
	r.shared.size.left.Store(max((next-size)/2, next/16))
	if warn {
		r.set.Logger.Warn("treadle: large thread: prune it, keep large values elsewhere, or raise Options.SizeWarning",
			"graph", r.plan.name, "thread", r.set.Thread, "bytes", size, "next_warning_at", next)
	}
}
