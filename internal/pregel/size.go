package pregel

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/treadle-go/treadle/checkpoint"
)

// DefaultSizeWarning is the size from which a thread is worth a warning.
const DefaultSizeWarning = 64 << 20

// oldThread is the number of steps from which the size of a loaded thread is
// queried. For a younger thread it is queried if the state is larger than the
// limit divided by oldThread: below both, all its states together are below the
// limit.
//
// Only the saver knows a thread's size, and asking costs something. So a run
// counts what it stores and asks only when the thread may have reached the next
// size worth a warning: a few times until it doubles, and once for a loaded
// thread that is old or large.
const oldThread = 100

// sizes records which threads were warned about, so that each doubling is
// reported once per process.
type sizes struct {
	mu   sync.Mutex
	next map[headKey]int64 // the size for the next warning
}

// maxWarned bounds the number of recorded threads. One that was dropped is
// warned about again.
const maxWarned = 4096

// reached reports whether a thread of this size is worth a warning, and the
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

// stored returns the stored length of a value.
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

// grewByWrites notes that the run has stored results.
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

// sizeBudget is how much may be stored until the thread's size is queried.
type sizeBudget struct{ left atomic.Int64 }

func (r *Run) grew(n int64) {
	if r.shared.size.left.Add(-n) < 0 {
		r.root().askSize()
	}
}

// askSize queries the thread's size and warns if it has reached the limit or
// doubled since.
func (r *Run) askSize() {
	limit := r.set.SizeWarning
	r.shared.size.left.Store(limit) // runs at the same time need not ask too
	size, err := r.set.Sizer.Size(r.ctx, r.set.Thread)
	if errors.Is(err, checkpoint.ErrNotFound) || r.ctx.Err() != nil { // a deferred store may not have happened yet
		return
	}
	if err != nil {
		r.set.Logger.Warn("treadle: the size of a thread could not be read", "graph", r.plan.name, "thread", r.set.Thread, "error", err)
		return
	}
	warn, next := r.plan.sizes.reached(headKey{r.plan, r.set.HeadsOf, r.set.Thread}, size, limit)
	// A saver needs more than what is counted here, so ask again halfway.
	r.shared.size.left.Store(max((next-size)/2, next/16))
	if warn {
		r.set.Logger.Warn("treadle: a thread has grown large: prune it, keep big values elsewhere, or raise Options.SizeWarning",
			"graph", r.plan.name, "thread", r.set.Thread, "bytes", size, "next_warning_at", next)
	}
}
