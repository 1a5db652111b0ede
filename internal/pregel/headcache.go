package pregel

import (
	"container/list"
	"slices"
	"sync"

	"github.com/treadle-go/treadle/checkpoint"
)

// headCache holds the decoded state of threads that ran in this process, so
// that the next turn of a long conversation does not read all of it again. An
// entry is out of date if another process has continued the thread. The first
// put of a run compares the head and detects it.
type headCache struct {
	mu    sync.Mutex
	order list.List // of *head, the most recently used first
	at    map[headKey]*list.Element
}

type headKey struct {
	saver  checkpoint.Saver
	thread string
}

type head struct {
	key      headKey
	id       checkpoint.ID
	slots    []slot
	ver      uint64
	step     int
	joins    []bits
	last     []string
	children map[string]checkpoint.ID
	ask      int64  // see sizeBudget
	branch   string // of the store, if it follows the thread
}

// maxHeads bounds the number of cached threads.
const maxHeads = 256

// useCachedHead starts the run from the cached head of its thread, if there is
// one.
func (r *Run) useCachedHead() bool {
	h := &r.plan.heads
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.at[headKey{r.set.HeadsOf, r.set.Thread}]
	if e == nil {
		return false
	}
	h.order.MoveToFront(e)
	k := e.Value.(*head)
	copy(r.slots, k.slots)
	r.ver, r.step, r.ctl.joins = k.ver, k.step, k.joins
	r.last, r.children = slices.Clone(k.last), k.children
	r.head, r.tip = k.id, k.id
	r.shared.size.left.Store(k.ask)
	if r.follows() {
		r.memory.at = &memoryAt{Branch: k.branch}
	}
	return true
}

// cacheHead caches the head of a run that ended with nothing left to do.
func (r *Run) cacheHead() {
	if r.set.HeadsOf == nil || r.parent() != nil || !r.saving() || !r.ctl.idle() || r.head.IsZero() {
		return
	}
	k := &head{key: headKey{r.set.HeadsOf, r.set.Thread}, id: r.head, slots: slices.Clone(r.slots), ver: r.ver, step: r.step,
		joins: r.ctl.joins, last: slices.Clone(r.last), children: r.children, ask: r.shared.size.left.Load(), branch: r.set.Store.BranchInfo().Name}
	for _, c := range r.plan.schema.channels {
		if c.policy == untracked {
			k.slots[c.id] = c.reset() // untracked fields last for one run
		}
	}
	h := &r.plan.heads
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.at == nil {
		h.at = map[headKey]*list.Element{}
	}
	if e := h.at[k.key]; e != nil {
		e.Value = k
		h.order.MoveToFront(e)
		return
	}
	h.at[k.key] = h.order.PushFront(k)
	if h.order.Len() > maxHeads {
		last := h.order.Back()
		h.order.Remove(last)
		delete(h.at, last.Value.(*head).key)
	}
}

// dropCachedHead drops a cached head that is out of date.
func (r *Run) dropCachedHead() {
	h := &r.plan.heads
	h.mu.Lock()
	defer h.mu.Unlock()
	key := headKey{r.set.HeadsOf, r.set.Thread}
	if e := h.at[key]; e != nil {
		h.order.Remove(e)
		delete(h.at, key)
	}
}
