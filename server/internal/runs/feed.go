package runs

import (
	"container/list"
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/internal/budget"
)

// Protocol determines which readers an entry is for.
type Protocol uint8

// The protocols.
const (
	Both    Protocol = iota // the end of a run
	Classic                 // frames of a run's stream
	V2                      // events of a thread's stream
)

// An Entry is one event of a run, as readers receive it.
type Entry struct {
	Seq      uint64
	Run      uuid.UUID
	Protocol Protocol
	Name     string   // of a frame, without its namespace; or the method of an event
	NS       []string // namespace of the graph
	Node     string   // node of an event
	Time     time.Time
	End      *End // set in the run's last entry

	// before is the number of the entry before the first entry of a process, if known. Numbers
	// are not consecutive when another process continues the run.
	before *uint64
	first  bool // the run's first entry
	brief  bool // only needed by the client that waits for the run's end; see Feed.took

	making  sync.Mutex // held while the JSON is encoded, which can take long
	mu      sync.Mutex
	data    json.RawMessage
	make    func() (json.RawMessage, error) // encodes the JSON; nil once data is set
	held    int64                           // estimated bytes held only by an entry that is not encoded yet
	feed    *Feed                           // the feed that contains the entry
	counted int64                           // size counted in the feed
	charged int64                           // bytes charged to the memory limit
}

// The estimated sizes of an entry without its data, and of a state that is not encoded yet
// without its values.
const (
	entrySize = 384
	stateSize = 512
)

// End describes how a run ended.
type End struct {
	Status  string `json:"status"`
	Failed  bool   `json:"failed,omitempty"`
	Class   string `json:"class,omitempty"`
	Message string `json:"message,omitempty"`
	Paused  bool   `json:"paused,omitempty"` // the thread waits for an answer
	Lost    bool   `json:"-"`                // the run continues in another process
}

// Data returns the entry's JSON. It is encoded when the first reader needs it, because most
// states of a run without readers are never read.
func (e *Entry) Data() json.RawMessage {
	e.mu.Lock()
	data, ready := e.data, e.make == nil
	e.mu.Unlock()
	if ready {
		return data
	}
	data, grown := e.made()
	if grown != nil {
		if grown.size.Load() > maxBytes {
			grown.shrink() // no other entry may come to trigger this
		}
		grown.of.reclaim()
	}
	return data
}

// made encodes the entry's JSON. It returns the feed, which has grown by it.
func (e *Entry) made() (data json.RawMessage, grown *Feed) {
	e.making.Lock()
	defer e.making.Unlock()
	e.mu.Lock()
	create := e.make
	e.mu.Unlock()
	if create == nil {
		return e.data, nil
	}
	raw, err := create()
	if err != nil { // a value without a JSON form, which a saved state cannot contain
		raw, _ = json.Marshal(map[string]string{"error": err.Error()})
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.data, e.make = raw, nil
	if e.feed != nil {
		e.count(int64(len(raw)))
		e.charge(entrySize + int64(cap(raw)))
	}
	return raw, e.feed
}

// Large reports whether the entry holds much memory, or may do so because it is not encoded
// yet.
func (e *Entry) Large() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.make != nil || len(e.data) > largeEntry
}

// join adds the entry to a feed's accounting. It reports whether the entry is a state that is
// not encoded yet.
func (e *Entry) join(f *Feed) (state bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.feed = f
	e.count(int64(len(e.data)))
	n := entrySize + int64(cap(e.data)) + e.held
	if e.make != nil {
		n += stateSize
	}
	e.charge(n)
	return e.make != nil
}

// count sets the entry's size in its feed. A young state is charged to the memory limit, but
// not counted.
func (e *Entry) count(n int64) {
	e.feed.size.Add(n - e.counted)
	e.counted = n
}

func (e *Entry) charge(n int64) {
	e.feed.charge(n - e.charged)
	e.charged = n
}

// age makes a state count. If it is not encoded yet, only the bytes that it alone holds count,
// because the run may have replaced its values.
func (e *Entry) age() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.feed != nil && e.make != nil {
		e.count(e.held)
	}
}

// leave removes the entry from its feed's accounting. Readers may still hold it.
func (e *Entry) leave() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.count(0)
	e.charge(0)
	e.feed = nil
}

// The limits of a feed.
const (
	maxEntries = 4096
	maxBytes   = 8 << 20
)

// youngStates is the number of states not yet encoded that a feed holds regardless of their
// size. It lets clients read the states of a run that produces them faster than they can be
// encoded. Most of these states share their values with the run.
const youngStates = 16

// The limits of the entries that a reader takes from a feed at a time: some small entries, or
// up to the first large one. The reader holds them even if the feed drops them.
const (
	maxTaken   = 64
	largeEntry = 32 << 10
)

// A Feed holds the latest entries of a thread's runs.
type Feed struct {
	thread uuid.UUID
	of     *feeds       // nil in tests, which have no memory limit
	total  atomic.Int64 // bytes charged to the memory limit; negative after giveUp
	base   atomic.Int64 // size of the latest state, which most entries share

	mu      sync.Mutex
	entries []*Entry
	size    atomic.Int64 // of the entries' JSON, and of what older states hold
	young   [youngStates]*Entry
	states  int
	seq     uint64 // number of the last entry
	dropped uint64 // number of the last dropped entry
	wake    chan struct{}
	users   int           // number of runs and readers
	watches int           // number of readers of protocol v2
	read    bool          // whether it had readers other than clients that wait for their runs
	drop    bool          // the feed cannot be read again after its users have left
	idle    time.Time     // when the last user left
	tick    uint64        // the same, as a tick of the memory budget
	place   *list.Element // in feeds.idle; nil while there are users
	// resting is the part of total that accounts for base. It is not charged while there are
	// users, because a run holds the state anyway.
	resting int64
	listed  int64 // bytes counted in feeds.idleBytes

	followers int                // number of readers that need entries recorded by other processes
	unfollow  context.CancelFunc // stops following other processes
	poked     chan struct{}      // receives when other processes have recorded entries
	cut       chan struct{}      // closed if missing entries cannot be read, so readers must leave
}

func (s *feeds) newFeed(thread uuid.UUID) *Feed {
	f := &Feed{thread: thread, of: s, poked: make(chan struct{}, 1), cut: make(chan struct{})}
	f.charge(feedSize)
	return f
}

// feedSize is the estimated size of a feed without entries.
const feedSize = 1 << 10

// charge adds n bytes to the feed's charge against the memory limit.
func (f *Feed) charge(n int64) {
	for {
		was := f.total.Load()
		if was < 0 {
			return // entries that readers still hold no longer count
		}
		if f.total.CompareAndSwap(was, was+n) {
			f.of.charge(n)
			return
		}
	}
}

// giveUp removes the feed's charge against the memory limit.
func (f *Feed) giveUp() {
	if was := f.total.Swap(-1); was > 0 {
		f.of.charge(-was)
	}
}

// used reports whether the feed has entries, or readers that wait for entries of other
// processes.
func (f *Feed) used() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.entries) > 0 || f.followers > 0
}

// append numbers entries and shows them to readers.
func (f *Feed) append(es ...*Entry) {
	f.mu.Lock()
	f.number(es)
	f.show(es)
	f.mu.Unlock()
	f.of.reclaim()
}

// number assigns numbers to entries. The caller holds f.mu.
func (f *Feed) number(es []*Entry) {
	for _, e := range es {
		f.seq++
		e.Seq = f.seq
	}
}

// show shows numbered entries to readers. They nearly always come last. The caller holds f.mu.
func (f *Feed) show(es []*Entry) {
	if len(es) == 0 {
		return
	}
	for _, e := range es {
		if e.join(f) {
			if old := f.young[f.states%youngStates]; old != nil {
				old.age()
			}
			f.young[f.states%youngStates] = e
			f.states++
		}
	}
	at := len(f.entries)
	for at > 0 && f.entries[at-1].Seq > es[0].Seq {
		at--
	}
	f.entries = slices.Insert(f.entries, at, es...)
	f.trim()
	if f.wake != nil {
		close(f.wake)
		f.wake = nil
	}
}

// trim drops the oldest entries beyond the limits, except the last one. When memory is short,
// it also drops young states.
func (f *Feed) trim() {
	share := f.of.share()
	for len(f.entries) > 1 && (len(f.entries) > maxEntries || f.size.Load() > maxBytes || f.total.Load() > share) {
		f.dropped = f.entries[0].Seq
		f.entries[0].leave()
		f.forget(f.entries[0])
		f.entries[0] = nil // append moves the rest to a new array when this one is full
		f.entries = f.entries[1:]
	}
}

// forget removes a dropped entry from the young states.
func (f *Feed) forget(e *Entry) {
	for i := range f.young {
		if f.young[i] == e {
			f.young[i] = nil
		}
	}
}

// shrink drops the oldest entries beyond the limits after entries have been encoded.
func (f *Feed) shrink() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trim()
}

// startAt makes the next entry's number greater than seq.
func (f *Feed) startAt(seq uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seq = max(f.seq, seq)
}

// last returns the number of the last entry.
func (f *Feed) last() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seq
}

// watched reports whether a client reads the thread with protocol v2.
func (f *Feed) watched() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.watches > 0
}

// watch adds n to the number of readers of protocol v2.
func (f *Feed) watch(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watches += n
	f.read = true
}

// reading makes the feed keep its entries, because a reader may return to them.
func (f *Feed) reading() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.read = true
}

// took drops the brief entries of a run after the client that created it has received its end,
// because no other reader has the run's ID. Later readers read the result from the thread, as
// they do when the feed no longer exists.
func (f *Feed) took(run uuid.UUID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.read {
		return
	}
	f.entries = slices.DeleteFunc(f.entries, func(e *Entry) bool {
		if !e.brief || e.Run != run {
			return false
		}
		e.leave()
		f.forget(e)
		return true
	})
	if len(f.entries) == 0 {
		f.base.Store(0)
	}
}

// clear drops all entries, because their thread was deleted. Readers that have not read them
// continue after them.
func (f *Feed) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.entries {
		e.leave()
	}
	f.entries, f.young = nil, [youngStates]*Entry{}
	f.base.Store(0)
}

// after returns the next entries after seq, and whether some entries after seq were dropped. If
// there are none, it returns a channel that is closed when there are more.
func (f *Feed) after(seq uint64) (es []*Entry, gap bool, more <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := sort.Search(len(f.entries), func(i int) bool { return f.entries[i].Seq > seq })
	if i < len(f.entries) {
		end := i + 1
		for end < min(len(f.entries), i+maxTaken) && !f.entries[end-1].Large() {
			end++
		}
		return slices.Clone(f.entries[i:end]), seq < f.dropped, nil
	}
	if f.wake == nil {
		f.wake = make(chan struct{})
	}
	return nil, false, f.wake
}

// end returns the last entry of a run, if the feed contains it after seq. Otherwise, it returns
// the number of the feed's last entry, whether entries after seq were dropped, and a channel
// that is closed when there are more.
func (f *Feed) end(run uuid.UUID, seq uint64) (end *Entry, last uint64, gap bool, more <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := len(f.entries) - 1; i >= 0 && f.entries[i].Seq > seq; i-- {
		if e := f.entries[i]; e.End != nil && e.Run == run {
			return e, e.Seq, false, nil
		}
	}
	last, gap = seq, seq < f.dropped
	if n := len(f.entries); n > 0 {
		last = max(last, f.entries[n-1].Seq)
	}
	if f.wake == nil {
		f.wake = make(chan struct{})
	}
	return nil, last, gap, f.wake
}

// feeds holds the feeds of threads with runs or readers, and feeds that were in use recently.
type feeds struct {
	memory  *budget.Budget // nil in tests, which have no memory limit
	account *budget.Account
	inUse   atomic.Int64 // number of feeds with users

	mu        sync.Mutex
	byID      map[uuid.UUID]*Feed
	idle      list.List // *Feed values without users, longest idle first
	idleBytes int64     // sum of their sizes when they became idle
}

// limit charges the feeds to a memory budget.
func (s *feeds) limit(b *budget.Budget) {
	s.memory, s.account = b, b.Account("feeds")
	b.Register(s)
}

func (s *feeds) charge(n int64) {
	if s != nil {
		s.account.Add(n)
	}
}

// reclaim frees memory if the limit is exceeded. The caller must hold no lock.
func (s *feeds) reclaim() {
	if s != nil && s.memory != nil {
		s.memory.Reclaim()
	}
}

// leastShare is the number of bytes that a feed with users may always hold, even when memory is
// short.
const leastShare = 64 << 10

// share returns the maximum size of a feed. There is no limit unless memory is short.
func (s *feeds) share() int64 {
	if s == nil || s.memory == nil || !s.memory.Over() {
		return math.MaxInt64
	}
	return max(leastShare, s.memory.Limit()/2/max(s.inUse.Load(), 1))
}

// Oldest implements [budget.Evictor].
func (s *feeds) Oldest() (tick uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first := s.idle.Front(); first != nil {
		return first.Value.(*Feed).tick, true
	}
	return 0, false
}

// Evict implements [budget.Evictor].
func (s *feeds) Evict() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first := s.idle.Front(); first != nil {
		s.remove(first.Value.(*Feed))
	}
}

// keepIdle is the time that a feed is kept after its last user, for clients that read a run after
// starting it.
const keepIdle = 30 * time.Second

// The limits of idle feeds: their number, and the divisor of the memory limit that yields their
// share.
const (
	maxIdle   = 4096
	idleShare = 4
)

// use returns the thread's feed. The caller must release it.
func (s *feeds) use(thread uuid.UUID) *Feed {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.byID[thread]
	if f == nil {
		f = s.newFeed(thread)
		if s.byID == nil {
			s.byID = map[uuid.UUID]*Feed{}
		}
		s.byID[thread] = f
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.users++
	if f.users == 1 {
		s.inUse.Add(1)
		s.unlist(f)
	}
	return f
}

// replace ends a use of a feed whose readers cannot continue, and returns the feed that
// replaces it.
func (s *feeds) replace(old *Feed) *Feed {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.newFeed(old.thread)
	f.users = 1
	s.inUse.Add(1)
	old.mu.Lock()
	defer old.mu.Unlock()
	old.users--
	if old.users == 0 {
		s.inUse.Add(-1)
	}
	f.watches = old.watches
	if s.byID[old.thread] == old {
		s.byID[old.thread] = f
	}
	old.giveUp()
	close(old.cut)
	return f
}

// release ends a use of a feed. If drop is set, the feed is removed after its last use, because
// it cannot be read again.
func (s *feeds) release(f *Feed, drop bool) {
	s.leave(f, drop)
	s.reclaim()
}

func (s *feeds) leave(f *Feed, drop bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.users--
	f.drop = f.drop || drop
	f.idle = time.Now()
	if f.users > 0 {
		return
	}
	s.inUse.Add(-1)
	switch {
	case s.byID[f.thread] != f:
	case f.drop:
		s.remove(f)
	default:
		if s.memory != nil {
			f.tick = s.memory.Tick()
		}
		f.place = s.idle.PushBack(f)
		f.resting = f.base.Load()
		f.charge(f.resting)
		f.listed = f.total.Load()
		s.idleBytes += f.listed
		s.bound()
	}
}

// bound removes idle feeds beyond the limits, except the last one.
func (s *feeds) bound() {
	most := int64(math.MaxInt64)
	if s.memory != nil {
		most = s.memory.Limit() / idleShare
	}
	for s.idle.Len() > 1 && (s.idle.Len() > maxIdle || s.idleBytes > most) {
		s.remove(s.idle.Front().Value.(*Feed))
	}
}

// remove removes a feed without users.
func (s *feeds) remove(f *Feed) {
	delete(s.byID, f.thread)
	s.unlist(f)
	f.giveUp()
}

// unlist removes a feed from the idle feeds.
func (s *feeds) unlist(f *Feed) {
	if f.place != nil {
		s.idle.Remove(f.place)
		f.place = nil
		f.charge(-f.resting)
		s.idleBytes -= f.listed
	}
}

// sweep removes feeds that have been idle for a while.
func (s *feeds) sweep(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for first := s.idle.Front(); first != nil; first = s.idle.Front() {
		f := first.Value.(*Feed)
		if now.Sub(f.idle) <= keepIdle {
			return
		}
		s.remove(f)
	}
}

// errCut is returned to readers of a feed that was replaced.
var errCut = errors.New("events of another process cannot be read")

// waitMore blocks until a feed has more entries.
func (f *Feed) waitMore(ctx context.Context, more <-chan struct{}, stop <-chan struct{}) error {
	select {
	case <-more:
		return nil
	case <-f.cut:
		return errCut
	case <-stop:
		return ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
}
