// Package budget limits the total memory of a process's caches.
//
// A load that fills one cache may leave others empty, so the caches of a process share a
// [Budget] in bytes. When it is exceeded, the least recently used entry is evicted, regardless
// of which cache holds it. Sizes are estimates.
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

// Of returns the budget behind a shared limit, such as a ledger.Memory: shared itself if it is a
// *Budget, and otherwise a new budget of the same size.
func Of(shared interface{ Limit() int64 }) *Budget {
	if b, ok := shared.(*Budget); ok {
		return b
	}
	return New(shared.Limit())
}

// An Evictor holds entries that can be evicted. The budget calls its methods without holding
// locks of the caller. An Evictor may lock, but must not call Reclaim.
type Evictor interface {
	// Oldest returns the tick of the least recently used entry. It reports false if no entry
	// can be evicted.
	Oldest() (tick uint64, ok bool)
	// Evict evicts that entry.
	Evict()
}

// An Ager is an Evictor that can release other memory after it has been unused for a while.
type Ager interface {
	Age() // called by [Budget.Age]
}

// Limit returns the size of the budget in bytes.
func (b *Budget) Limit() int64 { return b.limit }

// Used returns the number of bytes in use.
func (b *Budget) Used() int64 { return b.used.Load() }

// Over reports whether the budget is exceeded.
func (b *Budget) Over() bool { return b.used.Load() > b.limit }

// Tick returns a number greater than all numbers returned before. Entries are ordered by the
// tick of their last use.
func (b *Budget) Tick() uint64 { return b.clock.Add(1) }

// ByKind returns the bytes in use by account kind.
func (b *Budget) ByKind() map[string]int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[string]int64{}
	for _, a := range b.accounts {
		out[a.kind] += a.bytes.Load()
	}
	return out
}

// Register adds e to the evictors used by Reclaim and Age.
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

// Reclaim evicts entries, least recently used first, if the budget is exceeded. It then leaves
// a sixteenth of the budget free, so that most calls have nothing to do. The caller must not
// hold a lock that an Evictor takes.
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

// oldest returns the evictor with the least recently used entry, or nil.
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

// Account returns a new account. Several accounts may have the same kind.
func (b *Budget) Account(kind string) *Account {
	a := &Account{b: b, kind: kind}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.accounts = append(b.accounts, a)
	return a
}

// Add adds n bytes, which may be negative. It evicts nothing; see [Budget.Reclaim].
func (a *Account) Add(n int64) {
	if a == nil || n == 0 {
		return
	}
	a.bytes.Add(n)
	a.b.used.Add(n)
}

// Bytes returns the number of bytes in the account.
func (a *Account) Bytes() int64 {
	if a == nil {
		return 0
	}
	return a.bytes.Load()
}

// close removes the account from its budget.
func (a *Account) close() {
	b := a.b
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used.Add(-a.bytes.Swap(0))
	b.accounts = slices.DeleteFunc(b.accounts, func(o *Account) bool { return o == a })
}
