package runs

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// Protocol says which readers an entry is for.
type Protocol uint8

// The protocols.
const (
	Both    Protocol = iota // the end of a run
	Classic                 // frames of a run's stream
	V2                      // events of a thread's stream
)

// Entry is one event of a run as its readers get it.
type Entry struct {
	Seq      uint64
	Run      uuid.UUID
	Protocol Protocol
	Name     string   // of a frame without its namespace, or the method of an event
	NS       []string // of the graph
	Node     string   // of an event
	Time     time.Time
	End      *End // the run's last entry

	// before is the number of the entry before the first one of a process, if it knows it:
	// numbers are not consecutive when another process goes on.
	before *uint64
	first  bool // of the run

	making  sync.Mutex // held while the JSON is made, which can take long
	mu      sync.Mutex
	data    json.RawMessage
	make    func() (json.RawMessage, error) // of an entry that is not yet JSON
	feed    *Feed                           // that it is in
	counted int64                           // its size in the feed
}

// End is how a run ended.
type End struct {
	Status  string `json:"status"`
	Failed  bool   `json:"failed,omitempty"`
	Class   string `json:"class,omitempty"`
	Message string `json:"message,omitempty"`
	Paused  bool   `json:"paused,omitempty"` // the thread waits for an answer
	Lost    bool   `json:"-"`                // the run goes on in another process
}

// Data is the entry's JSON. It is made when the first reader wants it, since most
// states of a run that nobody watches are never read.
func (e *Entry) Data() json.RawMessage {
	e.mu.Lock()
	data, ready := e.data, e.make == nil
	e.mu.Unlock()
	if ready {
		return data
	}
	data, grown := e.made(true)
	if grown != nil && grown.size.Load() > maxBytes {
		grown.shrink() // no other entry may come that does it
	}
	return data
}

// measure tells the feed how large the entry is. It counts only when it ages, so that
// older states, which clients may be about to read, are not dropped for it.
func (e *Entry) measure() { e.made(false) }

// made makes the entry's JSON. It returns the feed that has grown by it, if it counts.
func (e *Entry) made(count bool) (data json.RawMessage, grown *Feed) {
	e.making.Lock()
	defer e.making.Unlock()
	e.mu.Lock()
	create := e.make
	e.mu.Unlock()
	if create == nil {
		return e.data, nil
	}
	raw, err := create()
	if err != nil { // a value that has no JSON, which a state with a saver cannot have
		raw, _ = json.Marshal(map[string]string{"error": err.Error()})
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.data, e.make = raw, nil
	if e.feed != nil {
		n := int64(len(raw))
		e.feed.state.Store(n)
		if count {
			e.feed.size.Add(n - e.counted)
			e.counted = n
		}
	}
	return raw, e.feed
}

// Large reports whether the entry holds much memory, or may do so because it is not
// JSON yet.
func (e *Entry) Large() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.make != nil || len(e.data) > largeEntry
}

// join makes the entry one of a feed. It reports whether it is a state that is not JSON
// yet.
func (e *Entry) join(f *Feed) (state bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.feed, e.counted = f, int64(len(e.data))
	f.size.Add(e.counted)
	return e.make != nil
}

// age makes a state count. One that is not JSON counts as much as the last one that is: the
// run may have replaced its values, and then only the entry holds them.
func (e *Entry) age() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.feed != nil {
		n := int64(len(e.data))
		if e.make != nil {
			n = e.feed.state.Load()
		}
		e.feed.size.Add(n - e.counted)
		e.counted = n
	}
}

// leave takes the entry out of its feed. Readers may still have it.
func (e *Entry) leave() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.feed.size.Add(-e.counted)
	e.feed = nil
}

// The bounds of a feed.
const (
	maxEntries = 4096
	maxBytes   = 8 << 20
)

// youngStates is how many states that are not JSON yet a feed holds whatever their size,
// so that a client can read the states of a run that makes them faster than their JSON
// can be made. Most of them share their values with the run.
const youngStates = 16

// The bounds of what a reader takes from a feed at a time, which it holds even if the
// feed has dropped it: some small entries, or up to the first large one.
const (
	maxTaken   = 64
	largeEntry = 32 << 10
)

// Feed holds the latest entries of a thread's runs.
type Feed struct {
	thread uuid.UUID

	mu      sync.Mutex
	entries []*Entry
	size    atomic.Int64 // of the entries' JSON
	state   atomic.Int64 // size of the last state that was made JSON
	young   [youngStates]*Entry
	states  int
	seq     uint64 // of the last entry
	dropped uint64 // seq of the last entry that was dropped
	wake    chan struct{}
	users   int       // runs and readers
	watches int       // readers of protocol v2
	idle    time.Time // since when there are no users
	unused  int64     // size since then

	followers int                // readers who want what other processes record
	unfollow  context.CancelFunc // ends that
	poked     chan struct{}      // other processes have recorded something
	cut       chan struct{}      // closed: entries are missing that cannot be read, readers leave
}

func newFeed(thread uuid.UUID) *Feed {
	return &Feed{thread: thread, poked: make(chan struct{}, 1), cut: make(chan struct{})}
}

// used reports whether the feed has entries, or readers who wait for those of other
// processes.
func (f *Feed) used() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.entries) > 0 || f.followers > 0
}

// append numbers entries and shows them to the readers.
func (f *Feed) append(es ...*Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.number(es)
	f.show(es)
}

// number numbers entries.
func (f *Feed) number(es []*Entry) {
	for _, e := range es {
		f.seq++
		e.Seq = f.seq
	}
}

// show shows entries, which have numbers, to the readers. Nearly always they are the
// last ones.
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

// trim drops the oldest entries beyond the bounds. The last one stays.
func (f *Feed) trim() {
	for len(f.entries) > 1 && (len(f.entries) > maxEntries || f.size.Load() > maxBytes) {
		f.dropped = f.entries[0].Seq
		f.entries[0].leave()
		f.forget(f.entries[0])
		f.entries[0] = nil // append moves the rest to a new array when this one is full
		f.entries = f.entries[1:]
	}
}

// forget is called for an entry that was dropped.
func (f *Feed) forget(e *Entry) {
	for i := range f.young {
		if f.young[i] == e {
			f.young[i] = nil
		}
	}
}

// shrink drops the oldest entries beyond the bounds, because some have become JSON.
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

// last is the number of the last entry.
func (f *Feed) last() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seq
}

// watched reports whether somebody reads the thread by protocol v2.
func (f *Feed) watched() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.watches > 0
}

// watch counts readers of protocol v2.
func (f *Feed) watch(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watches += n
}

// clear drops all entries, because their thread is deleted. Readers that have not read
// them go on behind them.
func (f *Feed) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.entries {
		e.leave()
	}
	f.entries, f.young = nil, [youngStates]*Entry{}
}

// after returns the next entries behind seq, and whether some of them are gone. If there
// are none, it returns a channel that is closed when there are.
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

// end returns the last entry of a run, if the feed has it after seq. Otherwise it returns the
// number of the feed's last entry, whether entries after seq are gone, and a channel that is
// closed when there are more.
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

// feeds are the feeds of the threads that runs and readers use, and of those that
// they used a short time ago.
type feeds struct {
	mu   sync.Mutex
	byID map[uuid.UUID]*Feed
	idle int64 // bytes of feeds without users
}

// keepIdle is how long a feed outlives its last user, for a client that comes to read
// a run that it has started.
const keepIdle = 30 * time.Second

// maxIdle bounds the feeds without users.
const (
	maxIdle      = 4096
	maxIdleBytes = 64 << 20
)

// use returns the thread's feed, which is kept until it is released.
func (s *feeds) use(thread uuid.UUID) *Feed {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.byID[thread]
	if f == nil {
		f = newFeed(thread)
		if s.byID == nil {
			s.byID = map[uuid.UUID]*Feed{}
		}
		s.byID[thread] = f
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.users++; f.users == 1 {
		s.idle -= f.unused
		f.unused = 0
	}
	return f
}

// replace ends a use of a feed whose readers cannot go on, and returns the one in its
// place.
func (s *feeds) replace(old *Feed) *Feed {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := newFeed(old.thread)
	f.users = 1
	old.mu.Lock()
	defer old.mu.Unlock()
	old.users--
	f.watches = old.watches
	if s.byID[old.thread] == old {
		s.byID[old.thread] = f
	}
	close(old.cut)
	return f
}

// release ends a use. With drop the feed of a thread that nobody can read again goes
// at once.
func (s *feeds) release(f *Feed, drop bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.users--
	f.idle = time.Now()
	if f.users > 0 || s.byID[f.thread] != f {
		return
	}
	if drop {
		delete(s.byID, f.thread)
		return
	}
	f.unused = f.size.Load()
	if s.idle += f.unused; s.idle > maxIdleBytes {
		s.forget(f)
	}
}

// forget removes feeds without users, those that had some longest ago first, until the
// rest are half of the bound. last, whose lock is held, is kept whatever its size.
func (s *feeds) forget(last *Feed) {
	var unused []*Feed
	for _, f := range s.byID {
		if f == last {
			continue
		}
		f.mu.Lock()
		if f.users == 0 {
			unused = append(unused, f)
		}
		f.mu.Unlock()
	}
	slices.SortFunc(unused, func(a, b *Feed) int { return a.idle.Compare(b.idle) })
	for _, f := range unused {
		if s.idle <= maxIdleBytes/2 {
			return
		}
		s.remove(f)
	}
}

// remove removes a feed without users.
func (s *feeds) remove(f *Feed) {
	delete(s.byID, f.thread)
	s.idle -= f.unused
}

// sweep forgets feeds that have had no users for a while.
func (s *feeds) sweep(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	crowded := len(s.byID) > maxIdle
	for _, f := range s.byID {
		f.mu.Lock()
		if f.users == 0 && (crowded || now.Sub(f.idle) > keepIdle) {
			s.remove(f)
		}
		f.mu.Unlock()
	}
}

// errCut is the error of readers of a feed that was replaced.
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
