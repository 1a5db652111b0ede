package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/delay"
	"github.com/treadle-go/treadle/internal/pregel"
	"github.com/treadle-go/treadle/ledger"
)

// log receives a run's entries. It passes them to the feed of the thread and, if the run's
// events are kept, to the ledger or the log of the bus.
type log struct {
	runner *Runner
	feed   *Feed
	run    *ledger.Run
	keep   bool           // also store the entries outside the feed
	unread bool           // entries other than the last are probably never read
	bound  uint64         // limit of the run's entry numbers; 0 means no limit
	memory *pregel.Memory // memory use of the run
	put    int64          // value of memory.Put when the last state was added
	last   bool           // the following entries are the last ones, and are stored before they are shown
	before *uint64        // the before field of the first entry
	first  bool           // the next entry is the run's first

	mu      sync.Mutex
	waiting []*Entry // entries to be stored
	hidden  []*Entry // entries of waiting that are not yet shown
	bytes   int
	timer   *time.Timer
	flushed time.Time  // when a pack was last stored
	since   time.Time  // since when storing has failed
	dropped bool       // entries were lost before they were stored
	final   bool       // the run has ended, so no step can add the entries again, and they must not be dropped
	writing sync.Mutex // held during writes, so that they stay in order
}

// Entries are stored in packs. A pack is stored when it reaches packBytes, or packTime after
// the previous pack, but at least packSoon after its first entry, so that readers in other
// processes receive a single entry after packSoon. Entries that are probably never read are
// stored after packLate, and not before each step.
const (
	packTime  = 25 * time.Millisecond
	packSoon  = 5 * time.Millisecond
	packLate  = 500 * time.Millisecond
	packBytes = 64 << 10
)

// add shows an entry to readers, and stores it if the run's events are kept.
func (l *log) add(e *Entry) {
	e.Time = time.Now()
	e.before, l.before = l.before, nil
	e.first, l.first = l.first, false
	e.brief = l.unread && !l.keep
	if e.make != nil {
		l.hold(e)
	}
	if l.bound > 0 && l.feed.last() >= l.bound {
		return // another process has taken over the run, and its entries are already here
	}
	if l.last {
		l.addLast(e)
		return
	}
	l.feed.append(e)
	if !l.keep {
		return
	}
	l.mu.Lock()
	l.wait(e)
	full := l.bytes >= packBytes
	if l.timer == nil && !full {
		after := max(packTime-time.Since(l.flushed), packSoon)
		if l.unread {
			after = packLate
		}
		l.timer = time.AfterFunc(after, l.flush)
	}
	l.mu.Unlock()
	if full {
		l.flush()
	}
}

// addLast adds one of the last entries. A client that sees it may start the next run of the
// thread, in another process, and the entries of that run must come after it.
func (l *log) addLast(e *Entry) {
	l.feed.mu.Lock()
	l.feed.number([]*Entry{e})
	l.feed.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wait(e)
	l.hidden = append(l.hidden, e)
}

// hold estimates the bytes held by a state that is not encoded yet: the values that the run has
// put since the previous state. It shares all other values with that state.
func (l *log) hold(e *Entry) {
	if l.memory == nil {
		return
	}
	put := l.memory.Put.Load()
	e.held, l.put = put-l.put, put
	l.feed.base.Store(l.memory.State.Load())
}

// wait adds an entry to those to be stored. The caller holds l.mu.
func (l *log) wait(e *Entry) {
	l.waiting = append(l.waiting, e)
	l.grow(len(e.Data()))
}

// grow adds n to the number of bytes to be stored.
func (l *log) grow(n int) {
	l.bytes += n
	l.runner.unkept.Add(int64(n))
}

// end closes the log after the run has ended. It reports whether entries were dropped; the
// run adds them again when it resumes.
func (l *log) end() (dropped bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.final = true
	return l.dropped && !l.unread
}

// finish stores and shows the last entries. If they cannot be stored, it shows them, and
// returns when they are stored. Until then, the run keeps its slot, which bounds the number of
// unstored entries.
func (l *log) finish() {
	l.flush()
	l.mu.Lock()
	hidden := l.hidden
	l.hidden = nil
	l.mu.Unlock()
	l.feed.mu.Lock()
	l.feed.show(hidden)
	l.feed.mu.Unlock()
	l.feed.of.reclaim()
	if l.stored() {
		return
	}
	_ = l.runner.insist("save last events", l.run.ID, func(context.Context) error { // or the process stops
		l.flush()
		if !l.stored() {
			return checkpoint.ErrUnavailable
		}
		return nil
	})
}

// stored reports whether all entries are stored.
func (l *log) stored() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting) == 0
}

// settle stores the pending entries before a step is committed, so that readers can follow the
// step even if this process dies after it. If they cannot be stored for the duration of a
// lease, the step fails, and runs again when the database is available.
func (l *log) settle() error {
	for end := time.Now().Add(lease); ; {
		l.flush()
		l.mu.Lock()
		failed, dropped := len(l.waiting) > 0 && !l.since.IsZero(), l.dropped
		l.mu.Unlock()
		switch {
		case dropped || failed && time.Now().After(end):
			return fmt.Errorf("failed to store events of the step: %w", checkpoint.ErrUnavailable)
		case !failed:
			return nil
		}
		_ = delay.For(context.Background(), tryAgain/5)
	}
}

// flush stores the pending entries. It retries entries that cannot be stored for a while, and
// then drops them. In that case, the step that added them fails, and adds them again when it
// resumes.
func (l *log) flush() {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	es := l.waiting
	l.waiting = nil
	l.grow(-l.bytes)
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	l.mu.Unlock()
	if len(es) == 0 {
		return
	}
	l.mu.Lock()
	l.flushed = time.Now()
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	pack := &ledger.Events{Thread: l.run.Thread, Run: l.run.ID, First: es[0].Seq, Last: es[len(es)-1].Seq, Data: packEntries(es)}
	err := l.runner.keep(ctx, pack)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.since = time.Time{}
		return
	}
	if l.since.IsZero() {
		l.since = time.Now()
		l.runner.logger.WarnContext(ctx, "failed to store events, retrying", "run", l.run.ID, "events", len(es), "error", err)
	}
	hopeless := time.Since(l.since) > keepTrying || l.bytes+len(pack.Data) > maxUnkept || l.runner.unkept.Bytes() > l.runner.memory.Limit()/2
	mustWait := l.final && (ctx.Err() != nil || errors.Is(err, checkpoint.ErrUnavailable))
	if hopeless && !mustWait || l.runner.isStopped() {
		l.runner.logger.WarnContext(ctx, "failed to store events", "run", l.run.ID, "events", len(es), "error", err)
		l.dropped = true
		return
	}
	l.waiting = append(es, l.waiting...)
	l.grow(len(pack.Data))
	if l.timer == nil {
		l.timer = time.AfterFunc(tryAgain, l.flush)
	}
}

// stored is the stored form of an entry.
type stored struct {
	Seq      uint64          `json:"s"`
	Before   *uint64         `json:"b,omitempty"`
	First    bool            `json:"f,omitempty"`
	Protocol Protocol        `json:"p"`
	Name     string          `json:"e,omitempty"`
	NS       []string        `json:"ns,omitempty"`
	Node     string          `json:"n,omitempty"`
	Time     int64           `json:"t"` // in milliseconds
	End      *End            `json:"end,omitempty"`
	Data     json.RawMessage `json:"d,omitempty"`
}

func packEntries(es []*Entry) []byte {
	list := make([]stored, len(es))
	for i, e := range es {
		list[i] = stored{
			Seq:      e.Seq,
			Before:   e.before,
			First:    e.first,
			Protocol: e.Protocol,
			Name:     e.Name,
			NS:       e.NS,
			Node:     e.Node,
			Time:     e.Time.UnixMilli(),
			End:      e.End,
			Data:     e.Data(),
		}
	}
	return jsonOf(list)
}

func unpackEntries(p *ledger.Events) ([]*Entry, error) {
	var list []stored
	if err := json.Unmarshal(p.Data, &list); err != nil {
		return nil, fmt.Errorf("events %d to %d of run %s are damaged: %w", p.First, p.Last, p.Run, err)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("events %d to %d of run %s are damaged: no events", p.First, p.Last, p.Run)
	}
	out := make([]*Entry, len(list))
	for i, s := range list {
		out[i] = &Entry{
			Seq:      s.Seq,
			before:   s.Before,
			first:    s.First,
			Run:      p.Run,
			Protocol: s.Protocol,
			Name:     s.Name,
			NS:       s.NS,
			Node:     s.Node,
			Time:     time.UnixMilli(s.Time),
			End:      s.End,
			data:     s.Data,
		}
	}
	return out, nil
}
