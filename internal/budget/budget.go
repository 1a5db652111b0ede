// Package budget limits the memory that caches take together.
//
// The caches of a process differ in what they hold, and a load that fills one leaves
// others empty. So they share a [Budget] in bytes: when it is exceeded, the entry that was
// used least recently is evicted, whatever cache holds it. Sizes are estimates.
//
//	        ┌── Cache "heads"    ──┐
//	Budget ─┼── Cache "database" ──┼── Reclaim evicts the oldest entry of all
//	        ├── feeds (an Evictor)─┘
//	        └── Account "events"    (counted, but cannot be evicted)
package budget

import (
	"slices"
	"sync"
	"sync/atomic"
)

// A Budget is a number of bytes that caches share. It is safe for concurrent use.
type Budget struct {
	limit int64
	used  atomic.Int64
	clock atomic.Uint64 // counts uses of entries; see Tick

	evicting sync.Mutex // held while entries are evicted; no Evictor is called without it
	mark     uint64     // the clock at the last Age

	mu       sync.Mutex
	accounts []*Account
	evictors []Evictor
}

// New returns a budget of limit bytes.
func New(limit int64) *Budget { return &Budget{limit: limit} }

// Of returns the budget that is shared as a limit, such as ledger.Memory. For another
// implementation, it returns a new budget of the same size.
func Of(shared interface{ Limit() int64 }) *Budget {
	if b, ok := shared.(*Budget); ok {
		return b
	}
	return New(shared.Limit())
}

// An Evictor holds entries that can be dropped. The budget calls its methods without
// holding locks of the caller, so an Evictor may lock, but must not call Reclaim.
type Evictor interface {
	// Oldest returns the tick of the entry that was used least recently. It reports
	// false if no entry can be dropped.
	Oldest() (tick uint64, ok bool)
	// Evict drops that entry.
	Evict()
}

// An Ager is an Evictor that also has memory without entries to release when it has not
// been used for a while.
type Ager interface {
	Age() // called by [Budget.Age]
}

// Limit returns the size of the budget in bytes.
func (b *Budget) Limit() int64 { return b.limit }

// Used returns the number of bytes in use.
func (b *Budget) Used() int64 { return b.used.Load() }

// Over reports whether more bytes are in use than the budget has.
func (b *Budget) Over() bool { return b.used.Load() > b.limit }

// Tick returns a number greater than those returned before. Entries are ordered by the
// tick of their last use.
func (b *Budget) Tick() uint64 { return b.clock.Add(1) }

// ByKind returns the bytes in use by the kinds of the accounts.
func (b *Budget) ByKind() map[string]int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[string]int64{}
	for _, a := range b.accounts {
		out[a.kind] += a.bytes.Load()
	}
	return out
}

// Register makes e one of those that Reclaim and Age evict from.
func (b *Budget) Register(e Evictor) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.evictors = append(b.evictors, e)
}

// Unregister reverts Register.
func (b *Budget) Unregister(e Evictor) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.evictors = slices.DeleteFunc(b.evictors, func(o Evictor) bool { return o == e })
}

func (b *Budget) registered() []Evictor {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.evictors)
}

// Reclaim evicts entries, least recently used first, if the budget is exceeded. It then
// leaves a sixteenth of the budget free, so that it has nothing to do most of the time.
// The caller must not hold a lock that an Evictor takes.
func (b *Budget) Reclaim() {
	if !b.Over() || !b.evicting.TryLock() {
		return // another goroutine evicts
	}
	defer b.evicting.Unlock()
	all := b.registered()
	for b.used.Load() > b.limit-b.limit/16 {
		e := oldest(all)
		if e == nil {
			return
		}
		e.Evict()
	}
}

// Age evicts the entries that have not been used since the previous call.
func (b *Budget) Age() {
	b.evicting.Lock()
	defer b.evicting.Unlock()
	for _, e := range b.registered() {
		for {
			tick, ok := e.Oldest()
			if !ok || tick > b.mark {
				break
			}
			e.Evict()
		}
		if a, ok := e.(Ager); ok {
			a.Age()
		}
	}
	b.mark = b.clock.Load()
}

// oldest returns the evictor with the entry that was used least recently, or nil.
func oldest(all []Evictor) (found Evictor) {
	var at uint64
	for _, e := range all {
		if tick, ok := e.Oldest(); ok && (found == nil || tick < at) {
			found, at = e, tick
		}
	}
	return found
}

// An Account counts the bytes of one kind. A nil *Account counts nothing.
type Account struct {
	b     *Budget
	kind  string
	bytes atomic.Int64
}

// Account returns a new account. Several accounts may have one kind.
func (b *Budget) Account(kind string) *Account {
	a := &Account{b: b, kind: kind}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.accounts = append(b.accounts, a)
	return a
}

// Add adds n bytes, which may be negative. It evicts nothing: see [Budget.Reclaim].
func (a *Account) Add(n int64) {
	if a == nil || n == 0 {
		return
	}
	a.bytes.Add(n)
	a.b.used.Add(n)
}

// Bytes returns the sum of what was added.
func (a *Account) Bytes() int64 {
	if a == nil {
		return 0
	}
	return a.bytes.Load()
}

// close takes the account out of its budget.
func (a *Account) close() {
	b := a.b
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used.Add(-a.bytes.Swap(0))
	b.accounts = slices.DeleteFunc(b.accounts, func(o *Account) bool { return o == a })
}
