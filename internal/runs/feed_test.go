package runs

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"
)

func text(s string) *Entry { return &Entry{Protocol: Classic, data: json.RawMessage(s)} }

func TestFeedKeepsTheLatestEntries(t *testing.T) {
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
		t.Errorf("behind the last entry there are %v, gap %t", es, gap)
	}
	f.append(text("2"))
	select {
	case <-more:
	default:
		t.Error("a reader that waits is not told of an entry")
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
		t.Errorf("%d entries beside one that is larger than the bound", len(es))
	}
	// JSON that is made for a reader counts as well.
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

func TestFeedsForgetThreadsThatNobodyUses(t *testing.T) {
	var s feeds
	id := uuid.New()
	f := s.use(id)
	if s.use(id) != f {
		t.Error("two users of a thread have two feeds")
	}
	s.release(f, true)
	if len(s.byID) != 1 {
		t.Error("a feed is dropped while somebody uses it")
	}
	s.release(f, false)
	s.sweep(f.idle)
	if len(s.byID) != 1 {
		t.Error("a feed is dropped at once")
	}
	s.sweep(f.idle.Add(keepIdle + 1))
	if len(s.byID) != 0 {
		t.Error("a feed is kept for ever")
	}
}

// state is an entry whose JSON is made when somebody reads it.
func state(size int) *Entry {
	return &Entry{Protocol: Classic, make: func() (json.RawMessage, error) { return make(json.RawMessage, size), nil }}
}

// A run that replaces a large value at every step would otherwise fill the memory with
// states that nobody reads.
func TestStatesThatNobodyReadsCount(t *testing.T) {
	f := &Feed{}
	l := &log{feed: f}
	for range 1000 {
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
			t.Error("a short run makes JSON that nobody reads")
		}
	}
}

func TestFeedIsTrimmedWhenALateReaderMakesJSON(t *testing.T) {
	f := &Feed{}
	for range 100 {
		f.append(state(maxBytes / 4))
	}
	for seq, n := uint64(0), 0; seq < f.last(); n++ {
		es, gap, _ := f.after(seq)
		if gap || len(es) != 1 {
			t.Fatalf("behind %d there are %d states, gap %t", seq, len(es), gap)
		}
		es[0].Data()
		seq = es[0].Seq
		if size := f.size.Load(); size > maxBytes {
			t.Fatalf("the feed has %d bytes", size)
		}
	}
}

func TestReadersTakeOneLargeEntryAtATime(t *testing.T) {
	f := &Feed{}
	f.append(text("1"), text("2"), &Entry{data: make(json.RawMessage, largeEntry+1)}, text("4"))
	if es, _, _ := f.after(0); len(es) != 3 {
		t.Errorf("a reader takes %d entries, want those up to the large one", len(es))
	}
	if es, _, _ := f.after(3); len(es) != 1 || es[0].Seq != 4 {
		t.Errorf("behind the large entry there are %v", es)
	}
}

// The run and other readers go on while the JSON of a large state is made.
func TestFeedGoesOnWhileJSONIsMade(t *testing.T) {
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
	var last *Feed
	for range 100 {
		last = s.use(uuid.New())
		last.append(&Entry{data: make(json.RawMessage, maxBytes/2)})
		s.release(last, false)
		var total int64
		for _, f := range s.byID {
			total += f.size.Load()
		}
		if total > maxIdleBytes || total != s.idle {
			t.Fatalf("feeds without users have %d bytes, counted as %d", total, s.idle)
		}
	}
	if s.byID[last.thread] != last {
		t.Error("the feed that was used last is gone")
	}
	if s.use(last.thread); s.idle < 0 || s.byID[last.thread] != last {
		t.Errorf("the feed is used again, and those without users have %d bytes", s.idle)
	}
}

// A state that is measured does not push out those before it.
func TestYoungStatesAreKeptWhateverTheirSize(t *testing.T) {
	f := &Feed{}
	l := &log{feed: f}
	for range youngStates {
		l.add(state(2 * maxBytes))
	}
	if n := len(f.entries); n != youngStates {
		t.Errorf("the feed holds %d states, want %d", n, youngStates)
	}
}
