package runs

import (
	"context"
	"encoding/json"
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

	mu   sync.Mutex
	data json.RawMessage
	make func() (json.RawMessage, error) // of an entry that is not yet JSON
	size *atomic.Int64                   // of the feed that it is in
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
	defer e.mu.Unlock()
	if e.make != nil {
		raw, err := e.make()
		if err != nil { // a value that has no JSON, which a state with a saver cannot have
			raw, _ = json.Marshal(map[string]string{"error": err.Error()})
		}
		e.data, e.make = raw, nil
		if e.size != nil {
			e.size.Add(int64(len(raw)))
		}
	}
	return e.data
}

// join makes the entry one of a feed whose data have the given size. An entry that is
// not JSON yet counts nothing, because it shares its values with the run.
func (e *Entry) join(size *atomic.Int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.size = size
	size.Add(int64(len(e.data)))
}

// leave takes the entry out of its feed. Readers may still have it.
func (e *Entry) leave() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.size.Add(-int64(len(e.data)))
	e.size = nil
}

// The bounds of a feed.
const (
	maxEntries = 4096
	maxBytes   = 8 << 20
)

// Feed holds the latest entries of a thread's runs.
type Feed struct {
	thread uuid.UUID

	mu      sync.Mutex
	entries []*Entry
	size    atomic.Int64
	seq     uint64 // of the last entry
	dropped uint64 // seq of the last entry that was dropped
	wake    chan struct{}
	users   int       // runs and readers
	watches int       // readers of protocol v2
	idle    time.Time // since when there are no users
}

// Append numbers entries and shows them to the readers.
func (f *Feed) append(es ...*Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range es {
		f.seq++
		e.Seq = f.seq
		e.join(&f.size)
	}
	f.entries = append(f.entries, es...)
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
		f.entries[0] = nil // append moves the rest to a new array when this one is full
		f.entries = f.entries[1:]
	}
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
	f.entries = nil
}

// after returns the entries behind seq, and whether some of them are gone. If there
// are none, it returns a channel that is closed when there are.
func (f *Feed) after(seq uint64) (es []*Entry, gap bool, more <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := len(f.entries)
	for i > 0 && f.entries[i-1].Seq > seq {
		i--
	}
	if i < len(f.entries) {
		return append([]*Entry(nil), f.entries[i:]...), seq < f.dropped, nil
	}
	if f.wake == nil {
		f.wake = make(chan struct{})
	}
	return nil, false, f.wake
}

// feeds are the feeds of the threads that runs and readers use, and of those that
// they used a short time ago.
type feeds struct {
	mu   sync.Mutex
	byID map[uuid.UUID]*Feed
}

// keepIdle is how long a feed outlives its last user, for a client that comes to read
// a run that it has started.
const keepIdle = 30 * time.Second

// maxIdle bounds the feeds without users.
const maxIdle = 4096

// use returns the thread's feed, which is kept until it is released.
func (s *feeds) use(thread uuid.UUID) *Feed {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.byID[thread]
	if f == nil {
		f = &Feed{thread: thread}
		if s.byID == nil {
			s.byID = map[uuid.UUID]*Feed{}
		}
		s.byID[thread] = f
	}
	f.mu.Lock()
	f.users++
	f.mu.Unlock()
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
	if drop && f.users == 0 && s.byID[f.thread] == f {
		delete(s.byID, f.thread)
	}
}

// sweep forgets feeds that have had no users for a while.
func (s *feeds) sweep(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	crowded := len(s.byID) > maxIdle
	for id, f := range s.byID {
		f.mu.Lock()
		if f.users == 0 && (crowded || now.Sub(f.idle) > keepIdle) {
			delete(s.byID, id)
		}
		f.mu.Unlock()
	}
}

// wait blocks until a feed has more entries.
func wait(ctx context.Context, more <-chan struct{}, stop <-chan struct{}) error {
	select {
	case <-more:
		return nil
	case <-stop:
		return errStopped
	case <-ctx.Done():
		return ctx.Err()
	}
}
