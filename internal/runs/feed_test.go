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
	if len(es) != maxEntries || !gap || es[0].Seq != 11 {
		t.Errorf("%d entries from %d on, gap %t", len(es), es[0].Seq, gap)
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
	if es, _, _ := f.after(0); len(es) > 4 || len(es) == 0 {
		t.Errorf("%d entries of a quarter of the bound", len(es))
	}
	// One that is larger than the bound is kept until the next one comes.
	f.append(&Entry{data: make(json.RawMessage, 2*maxBytes)})
	if es, _, _ := f.after(0); len(es) != 1 {
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
