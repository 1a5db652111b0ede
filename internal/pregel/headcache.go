package pregel

import (
	"slices"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/budget"
)

// Heads caches the decoded state of threads that ran in this process, so that the
// next turn of a long conversation need not read all of it again. An entry is stale
// if another process has continued the thread. The first put of a run compares the
// head and detects this.
type Heads struct {
	cache *budget.Cache[headKey, *head]
}

// NewHeads returns an empty cache that takes its memory from b.
func NewHeads(b *budget.Budget) *Heads {
	return &Heads{budget.NewCache[headKey, *head](b, "heads")}
}

// Limits of the cache of a graph that runs without a server.
const (
	ownHeads      = 256      // threads
	ownHeadsBytes = 64 << 20 // estimated
)

// newOwnHeads returns the cache of a graph that runs without a server.
func newOwnHeads() *Heads {
	h := NewHeads(budget.New(ownHeadsBytes))
	h.cache.Bound(ownHeads)
	return h
}

type headKey struct {
	plan   *Plan
	saver  checkpoint.Saver
	thread string
}

type head struct {
	id       checkpoint.ID
	slots    []slot
	weights  *weights
	ver      uint64
	step     int
	joins    []bits
	last     []string
	children map[string]checkpoint.ID
	ask      int64  // see sizeBudget
	branch   string // of the store, if it follows the thread
}

// cachedHeads returns the cache used by the run, and the key of its thread.
func (r *Run) cachedHeads() (*budget.Cache[headKey, *head], headKey) {
	key := headKey{r.plan, r.set.HeadsOf, r.set.Thread}
	if m := r.set.Memory; m != nil && m.Heads != nil {
		return m.Heads.cache, key
	}
	r.plan.headsOnce.Do(func() { r.plan.heads = newOwnHeads() })
	return r.plan.heads.cache, key
}

// useCachedHead starts the run from the cached head of its thread. It reports
// whether there was one.
func (r *Run) useCachedHead() bool {
	heads, key := r.cachedHeads()
	k, ok := heads.Get(key)
	if !ok {
		return false
	}
	copy(r.slots, k.slots)
	r.weights = k.weights.clone()
	r.ver, r.step, r.ctl.joins = k.ver, k.step, k.joins
	r.last, r.children = slices.Clone(k.last), k.children
	r.head, r.tip = k.id, k.id
	r.shared.size.left.Store(k.ask)
	if r.follows() {
		r.memory.at = &memoryAt{Branch: k.branch}
	}
	return true
}

// cacheHead caches the head of a run that ended with nothing scheduled.
func (r *Run) cacheHead() {
	if r.set.HeadsOf == nil || r.parent() != nil || !r.saving() || !r.ctl.idle() || r.head.IsZero() {
		return
	}
	k := &head{
		id:       r.head,
		slots:    slices.Clone(r.slots),
		weights:  r.weights,
		ver:      r.ver,
		step:     r.step,
		joins:    r.ctl.joins,
		last:     slices.Clone(r.last),
		children: r.children,
		ask:      r.shared.size.left.Load(),
		branch:   r.set.Store.BranchInfo().Name,
	}
	r.weights = nil // the head owns them now
	for _, c := range r.plan.schema.channels {
		if c.policy == untracked {
			k.slots[c.id] = c.reset() // untracked fields last for one run
		}
	}
	heads, key := r.cachedHeads()
	heads.Set(key, k, k.weights.total()+headWeight+int64(len(k.slots))*slotWeight)
}

// dropCachedHead drops a stale cached head.
func (r *Run) dropCachedHead() {
	heads, key := r.cachedHeads()
	heads.Delete(key)
}
