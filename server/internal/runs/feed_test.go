package runs

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/internal/budget"
	"github.com/treadle-go/treadle/internal/pregel"
)

func text(s string) *Entry { return &Entry{Protocol: Classic, data: json.RawMessage(s)} }

func TestFeedKeepsLatestEntries(t *testing.T) {
	f := &Feed{}
	for range maxEntries + 10 {
		f.append(text("1"))
	}
	es, gap, _ := f.after(0)
	if len(f.entries) != maxEntries || !gap || es[0].Seq != 11 || len(es) != maxTaken {
		t.Errorf("%d entries, of which a reader gets %d from %d on, gap %t", len(f.entries), len(es), es[0].Seq, gap)
	}
	es, gap, more := f.after(f.last())
	if es != nil || gap || more == nil {
		t.Errorf("after the last entry: %v, gap %t", es, gap)
	}
	f.append(text("2"))
	select {
	case <-more:
	default:
		t.Error("a waiting reader is not notified of an entry")
	}
}

func TestFeedIsBoundedInBytes(t *testing.T) {
	f := &Feed{}
	large := make(json.RawMessage, maxBytes/4)
	for range 16 {
		f.append(&Entry{data: large})
	}
	if es := f.entries; len(es) > 4 || len(es) == 0 {
		t.Errorf("%d entries of a quarter of the bound", len(es))
	}
	// One that is larger than the bound is kept until the next one comes.
	f.append(&Entry{data: make(json.RawMessage, 2*maxBytes)})
	if es := f.entries; len(es) != 1 {
		t.Errorf("%d entries in addition to one larger than the limit", len(es))
	}
	// JSON encoded for a reader counts too.
	f = &Feed{}
	for range 16 {
		e := &Entry{make: func() (json.RawMessage, error) { return large, nil }}
		f.append(e)
		e.Data()
	}
	f.append(text("1"))
	if n := f.size.Load(); n > maxBytes {
		t.Errorf("the feed has %d bytes", n)
	}
}

func TestFeedNumbersGrowOverEpochs(t *testing.T) {
	f := &Feed{}
	f.append(text("1"))
	f.startAt(7 << epochBits)
	f.append(text("2"))
	if f.last() != 7<<epochBits+1 {
		t.Errorf("the first number of epoch 7 is %d", f.last())
	}
	f.startAt(3)
	f.append(text("3"))
	if f.last() != 7<<epochBits+2 {
		t.Errorf("numbers have gone back to %d", f.last())
	}
}

func TestFeedsForgetUnusedThreads(t *testing.T) {
	var s feeds
	id := uuid.New()
	f := s.use(id)
	if s.use(id) != f {
		t.Error("two users of a thread have two feeds")
	}
	s.release(f, false)
	if len(s.byID) != 1 {
		t.Error("a feed was dropped while in use")
	}
	s.release(f, false)
	s.sweep(f.idle)
	if len(s.byID) != 1 {
		t.Error("a feed was dropped immediately")
	}
	s.sweep(f.idle.Add(keepIdle + 1))
	if len(s.byID) != 0 {
		t.Error("a feed was kept forever")
	}
}

// state returns an entry whose JSON is encoded when it is read.
func state(size int) *Entry {
	return &Entry{Protocol: Classic, make: func() (json.RawMessage, error) { return make(json.RawMessage, size), nil }}
}

// A run that replaces a large value at every step would otherwise fill the memory with
// unread states.
func TestUnreadStatesCount(t *testing.T) {
	f := &Feed{}
	l := &log{feed: f, memory: &pregel.Memory{}}
	for range 1000 {
		l.memory.Put.Add(maxBytes / 4)
		l.memory.State.Store(maxBytes / 4)
		l.add(state(maxBytes / 4))
	}
	if n := len(f.entries); n > youngStates+4 {
		t.Errorf("the feed holds %d states of a quarter of its bound", n)
	}
	f, l = &Feed{}, &log{}
	l.feed = f
	for range 3 {
		l.add(state(1))
	}
	for _, e := range f.entries {
		if e.make == nil {
			t.Error("a short run encodes JSON that is not read")
		}
	}
}

func TestLateJSONTrimsFeed(t *testing.T) {
	f := &Feed{}
	for range 100 {
		f.append(state(maxBytes / 4))
	}
	for seq, n := uint64(0), 0; seq < f.last(); n++ {
		es, gap, _ := f.after(seq)
		if gap || len(es) != 1 {
			t.Fatalf("after %d: %d states, gap %t", seq, len(es), gap)
		}
		es[0].Data()
		seq = es[0].Seq
		if size := f.size.Load(); size > maxBytes {
			t.Fatalf("the feed has %d bytes", size)
		}
	}
}

func TestReadersTakeOneLargeEntry(t *testing.T) {
	f := &Feed{}
	f.append(text("1"), text("2"), &Entry{data: make(json.RawMessage, largeEntry+1)}, text("4"))
	if es, _, _ := f.after(0); len(es) != 3 {
		t.Errorf("a reader takes %d entries, want those up to the large one", len(es))
	}
	if es, _, _ := f.after(3); len(es) != 1 || es[0].Seq != 4 {
		t.Errorf("after the large entry: %v", es)
	}
}

// The run and other readers continue while the JSON of a large state is encoded.
func TestFeedContinuesDuringEncoding(t *testing.T) {
	f := &Feed{}
	begun, end := make(chan struct{}), make(chan struct{})
	slow := &Entry{make: func() (json.RawMessage, error) {
		close(begun)
		<-end
		return json.RawMessage("1"), nil
	}}
	f.append(slow)
	done := make(chan json.RawMessage)
	go func() { done <- slow.Data() }()
	<-begun
	for range maxEntries { // drops it
		f.append(text("2"))
	}
	if es, gap, _ := f.after(0); !gap || len(es) != maxTaken {
		t.Errorf("%d entries, gap %t", len(es), gap)
	}
	close(end)
	if raw := <-done; string(raw) != "1" {
		t.Errorf("the entry is %s", raw)
	}
	if n := f.size.Load(); n != maxEntries {
		t.Errorf("%d entries of one byte have %d bytes", maxEntries, n)
	}
}

func TestFeedsWithoutUsersAreBoundedInBytes(t *testing.T) {
	var s feeds
	b := budget.New(64 << 20)
	s.limit(b)
	var last *Feed
	for range 100 {
		last = s.use(uuid.New())
		last.append(&Entry{data: make(json.RawMessage, maxBytes/2)})
		s.release(last, false)
		var total int64
		for _, f := range s.byID {
			total += f.total.Load()
		}
		if b.Over() || total != b.Used() {
			t.Fatalf("feeds without users have %d bytes, counted as %d", total, b.Used())
		}
	}
	if s.byID[last.thread] != last {
		t.Error("the most recently used feed was dropped")
	}
	if s.use(last.thread) != last || s.idle.Len() != len(s.byID)-1 {
		t.Errorf("one of %d feeds is used again, and %d are without users", len(s.byID), s.idle.Len())
	}
	s.sweep(time.Now().Add(2 * keepIdle))
	s.release(last, true)
	if b.Used() != 0 || len(s.byID) != 0 {
		t.Errorf("%d feeds are left with %d bytes", len(s.byID), b.Used())
	}
}

// States that no client has read are not encoded, and hold the values of their run.
func TestIdleFeedsCountUnreadStates(t *testing.T) {
	var s feeds
	b := budget.New(16 << 20)
	s.limit(b)
	before := liveHeap()
	for range 200 {
		f := s.use(uuid.New())
		l := &log{feed: f, memory: &pregel.Memory{}}
		value := make([]byte, 1<<20)
		l.memory.Put.Store(1 << 20)
		l.memory.State.Store(1 << 20)
		l.add(&Entry{make: func() (json.RawMessage, error) { return value, nil }})
		s.release(f, false)
	}
	if grown := liveHeap() - before; grown > 20<<20 {
		t.Errorf("live heap grew by %d bytes with a budget of 16 MiB", grown)
	}
	if b.Over() || b.ByKind()["feeds"] < b.Limit()/idleShare-2<<20 {
		t.Errorf("%d of %d bytes used: %v", b.Used(), b.Limit(), b.ByKind())
	}
	runtime.KeepAlive(&s)
}

// Threads used in turn have many feeds, none of which has a user.
func TestIdleFeedsTakeBoundedShare(t *testing.T) {
	var s feeds
	b := budget.New(64 << 20)
	s.limit(b)
	var last *Feed
	for range maxIdle + 10 {
		last = s.use(uuid.New())
		s.release(last, false)
	}
	if s.idle.Len() != maxIdle || len(s.byID) != maxIdle {
		t.Errorf("%d feeds without users, want %d", s.idle.Len(), maxIdle)
	}
	for range 100 {
		last = s.use(uuid.New())
		last.append(&Entry{data: make(json.RawMessage, 1<<20)})
		s.release(last, false)
	}
	if used := b.Used(); used > b.Limit()/idleShare || used < b.Limit()/idleShare-2<<20 {
		t.Errorf("feeds without users have %d bytes with a limit of %d", used, b.Limit())
	}
	if s.byID[last.thread] != last {
		t.Error("the most recently used feed was dropped")
	}
	s.sweep(time.Now().Add(2 * keepIdle))
	if s.idleBytes != 0 || b.Used() != 0 {
		t.Errorf("no feed is left, but %d bytes, %d of them without users", b.Used(), s.idleBytes)
	}
}

// The budget counts structs, closures, and spare capacity, not only JSON.
func TestFeedEstimatesCoverHeap(t *testing.T) {
	for name, entry := range map[string]func() *Entry{
		"events": func() *Entry {
			return &Entry{Name: "custom", data: json.RawMessage(`{"n":` + fmt.Sprint(rand.Int()) + `}`)}
		},
		"ends": func() *Entry { return &Entry{End: &End{Status: "success"}, data: make(json.RawMessage, 10, 2000)} },
		"states": func() *Entry {
			v := treadle.Values{}
			return &Entry{Name: "values", make: sync.OnceValues(func() (json.RawMessage, error) { return v.State.MarshalJSON() })}
		},
	} {
		var s feeds
		b := budget.New(1 << 30)
		s.limit(b)
		before := liveHeap()
		for range 200 {
			f := s.use(uuid.New())
			for range 50 {
				f.append(entry())
			}
			s.release(f, false)
		}
		if grown := liveHeap() - before; grown > b.Used()*5/4 {
			t.Errorf("%s: live heap grew by %d bytes, counted as %d", name, grown, b.Used())
		}
		runtime.KeepAlive(&s)
	}
}

// liveHeap returns the bytes of reachable objects.
func liveHeap() int64 {
	runtime.GC()
	runtime.GC() // the first one may only have queued finalizers
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// States of one run share the values that it has not put in between, so they are not
// counted again.
func TestStatesOfOneRunShareValues(t *testing.T) {
	var s feeds
	b := budget.New(64 << 20)
	s.limit(b)
	l := &log{feed: s.use(uuid.New()), memory: &pregel.Memory{}}
	l.memory.State.Store(10 << 20)
	for range 100 {
		l.memory.Put.Add(100)
		l.add(state(10 << 20))
	}
	if n := len(l.feed.entries); n != 100 || b.Used() > 1<<20 {
		t.Errorf("%d states that share their values with a run count %d bytes", n, b.Used())
	}
	s.release(l.feed, false) // now only the feed holds them
	if b.Used() < 10<<20 || b.Used() > 11<<20 {
		t.Errorf("states that share 10 MiB count %d bytes", b.Used())
	}
	s.use(l.feed.thread)
	if b.Used() > 1<<20 {
		t.Errorf("states of a feed in use count %d bytes", b.Used())
	}
}

// When feeds in use exceed the limit, each gets a share of it, and slow readers lose their
// place.
func TestUsedFeedsShrinkToShare(t *testing.T) {
	var s feeds
	b := budget.New(8 << 20)
	s.limit(b)
	for range 20 {
		l := &log{feed: s.use(uuid.New()), memory: &pregel.Memory{}}
		for range youngStates {
			l.memory.Put.Add(256 << 10)
			l.add(state(1))
		}
	}
	if used := b.Used(); used > 2*b.Limit() {
		t.Errorf("%d bytes used by 20 feeds of 4 MiB with a limit of %d", used, b.Limit())
	}
	for _, f := range s.byID {
		if len(f.entries) == 0 {
			t.Error("feed without its last entry")
		}
	}
}

// The reader of a temporary run leaves before the run does, or after it.
func TestDroppedFeedGoesWithItsLastUser(t *testing.T) {
	for _, readerFirst := range []bool{true, false} {
		var s feeds
		b := budget.New(1 << 20)
		s.limit(b)
		id := uuid.New()
		f := s.use(id)
		s.use(id)
		s.release(f, readerFirst)
		s.release(f, !readerFirst)
		if len(s.byID) != 0 || b.Used() != 0 {
			t.Errorf("reader first %t: %d feeds are left with %d bytes", readerFirst, len(s.byID), b.Used())
		}
	}
}

// Measuring a state does not evict earlier states.
func TestRecentStatesAreKept(t *testing.T) {
	f := &Feed{}
	l := &log{feed: f}
	for range youngStates {
		l.add(state(2 * maxBytes))
	}
	if n := len(f.entries); n != youngStates {
		t.Errorf("the feed holds %d states, want %d", n, youngStates)
	}
}

// A client that waits for its runs reads their ends and nothing else, so the feed of its
// thread does not grow.
func TestFeedDropsWaitedRuns(t *testing.T) {
	for _, joined := range []bool{false, true} {
		var s feeds
		b := budget.New(64 << 20)
		s.limit(b)
		f := s.use(uuid.New())
		if joined { // by another client
			f.reading()
		}
		for range 10 {
			run := uuid.New()
			after := f.last()
			for range 4 {
				f.append(&Entry{Run: run, brief: true, data: make(json.RawMessage, 100)})
			}
			f.append(&Entry{Run: run, brief: true, End: &End{}, data: make(json.RawMessage, 100)})
			f.append(&Entry{Run: uuid.New(), data: make(json.RawMessage, 100)}) // of another run
			if e, _, _, _ := f.end(run, after); e == nil {
				t.Fatal("end of a run missing")
			}
			f.took(run)
		}
		want := 10
		if joined {
			want = 60
		}
		if n := len(f.entries); n != want {
			t.Errorf("joined %t: the feed has %d entries, want %d", joined, n, want)
		}
		if got := b.Used(); got != feedSize+int64(want)*(entrySize+100) {
			t.Errorf("joined %t: %d bytes counted", joined, got)
		}
	}
}
