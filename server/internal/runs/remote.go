package runs

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"math"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/bus"
	"github.com/treadle-go/treadle/internal/delay"
	"github.com/treadle-go/treadle/ledger"
)

// Several processes may share a ledger, and each eventually finds there everything about the
// others that it needs. The bus is faster: it notifies processes of work and of orders to end a
// run, and carries the events of runs to processes whose clients read them.

// Signal topics.
const (
	topicWake   = "wake"   // there may be work to claim
	topicOrder  = "order"  // a run must end; see signalled
	topicEvents = "events" // the ledger has new events of a thread; the payload is its ID
)

// signalled is the payload of an order.
type signalled struct {
	Run   uuid.UUID     `json:"run"`
	Order ledger.Action `json:"order"`
}

// Timeouts, intervals, and limits for the exchange with other processes.
const (
	signalTime = 2 * time.Second        // timeout of a signal
	pollEvents = 250 * time.Millisecond // polling interval for events in the ledger
	pollEnd    = time.Second            // polling interval for the end of a silent run
	keepTrying = 2 * time.Minute        // how long events that cannot be stored are retried
	maxUnkept  = 16 << 20               // maximum bytes of such events per run
	tryAgain   = 500 * time.Millisecond // delay between attempts
	gapTime    = 3 * time.Second        // how long events after a gap wait for the missing ones
	joinPause  = 20 * time.Millisecond  // delay between checks for the last events of the previous run
)

// listen handles the signals of other processes until ctx ends.
func (r *Runner) listen(ctx context.Context) error {
	if r.o.Bus == nil {
		return nil
	}
	for topic, fn := range map[string]func([]byte){
		topicWake: func([]byte) { r.Wake() },
		topicOrder: func(raw []byte) {
			var s signalled
			if json.Unmarshal(raw, &s) == nil { // ignore foreign messages
				r.order(s.Run, s.Order)
			}
		},
		topicEvents: func(raw []byte) {
			if thread, err := uuid.FromBytes(raw); err == nil {
				r.feeds.poke(thread)
			}
		},
	} {
		stop, err := r.o.Bus.Listen(topic, fn)
		if err != nil {
			return err
		}
		context.AfterFunc(ctx, stop)
	}
	return nil
}

// signal sends a signal to the other processes. If it is lost, they find the information in the
// ledger.
func (r *Runner) signal(topic string, payload []byte) {
	if r.o.Bus == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), signalTime)
	defer cancel()
	if err := r.o.Bus.Signal(ctx, topic, payload); err != nil {
		r.logger.DebugContext(ctx, "failed to signal other processes", "topic", topic, "error", err)
	}
}

// announce makes this and all other processes look for work.
func (r *Runner) announce() {
	r.Wake()
	r.signal(topicWake, nil)
}

// tell orders a run to end, in whichever process executes it.
func (r *Runner) tell(run uuid.UUID, a ledger.Action) {
	if !r.order(run, a) {
		r.signal(topicOrder, jsonOf(signalled{run, a}))
	}
}

// eventLog returns the log of the bus, or nil if events are stored in the ledger.
func (r *Runner) eventLog() bus.Log {
	if r.o.Bus == nil {
		return nil
	}
	return r.o.Bus.Log()
}

// keep stores events where all processes can read them: in the log of the bus, or in the ledger
// if there is no log or it is unavailable. A step is not committed before its events are
// stored, so readers miss none of them if this process dies.
func (r *Runner) keep(ctx context.Context, e *ledger.Events) error {
	log := r.eventLog()
	if log != nil {
		err := log.Append(ctx, e)
		if err == nil {
			return nil
		}
		r.logger.DebugContext(ctx, "failed to send events, storing them in the ledger", "run", e.Run, "error", err)
	}
	if err := r.ledger.Append(ctx, e); err != nil {
		return err
	}
	r.signal(topicEvents, e.Thread[:])
	return nil
}

// stored yields the stored events of a thread, or of one of its runs, from both the log and the
// ledger, ordered by number.
func (r *Runner) stored(ctx context.Context, thread, run uuid.UUID, after uint64) iter.Seq2[*ledger.Events, error] {
	log := r.eventLog()
	if log == nil {
		return r.ledger.Events(ctx, thread, run, after)
	}
	return func(yield func(*ledger.Events, error) bool) {
		nextA, stopA := iter.Pull2(log.Read(ctx, thread, after, false))
		defer stopA()
		nextB, stopB := iter.Pull2(r.ledger.Events(ctx, thread, run, after))
		defer stopB()
		a, errA, moreA := nextA()
		b, errB, moreB := nextB()
		for moreA || moreB {
			// A reader that receives an error retries. A reader that receives only part of the
			// events would not notice.
			if err := errors.Join(errA, errB); err != nil {
				yield(nil, err)
				return
			}
			e := a
			if !moreA || moreB && b.First < a.First {
				e = b
				b, errB, moreB = nextB()
			} else {
				a, errA, moreA = nextA()
			}
			if e.Last <= after || run != uuid.Nil && e.Run != run {
				continue
			}
			after = e.Last
			if !yield(e, nil) {
				return
			}
		}
	}
}

// catchUp adds the entries of a thread that other processes have recorded to its feed, before a
// run of this process adds its own, because entries must be shown in order of their numbers.
// The run has fenced off the previous process, so no more entries that belong to a step are
// recorded. catchUp returns the number of the last entry before the run.
//
// If the entries cannot be read, that number is nil, the run gets a new feed, and the readers
// of the old feed must reconnect. catchUp ignores cancellation of the run, because the run's
// end must be shown after these entries.
func (r *Runner) catchUp(ctx context.Context, run *ledger.Run, feed *Feed) (f *Feed, last *uint64) {
	if r.o.Bus == nil {
		return feed, nil
	}
	used := feed.used()
	begin := max(run.Seq, feed.last())
	if run.Attempt <= 1 && (begin == feed.last() || !used) {
		return feed, &begin
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), gapTime)
	defer cancel()
	after := run.Seq
	if used {
		after = feed.last()
	}
	for {
		for pack, err := range r.stored(ctx, run.Thread, uuid.Nil, after) {
			var es []*Entry
			if err == nil {
				es, err = unpackEntries(pack)
			}
			if err != nil {
				r.missed(ctx, "events of other processes", err)
				return r.feeds.replace(feed), nil
			}
			after, begin = pack.Last, max(begin, pack.Last)
			if used {
				feed.insert(es)
			}
		}
		// The last entries of a run are stored just after its end, so they may still be in
		// transit. Entries of a run that ended long ago are no longer stored.
		if last := feed.last(); !used || last == 0 || last >= run.Seq {
			return feed, &begin
		}
		if delay.For(ctx, joinPause) != nil {
			return r.feeds.replace(feed), nil
		}
	}
}

// recorded is like stored, but for readers. While the log is unavailable, it yields the events
// of the ledger as long as none is missing between them.
func (r *Runner) recorded(ctx context.Context, thread, run uuid.UUID, after uint64) iter.Seq2[*ledger.Events, error] {
	return func(yield func(*ledger.Events, error) bool) {
		first := true
		for e, err := range r.stored(ctx, thread, run, after) {
			if err != nil && first && r.eventLog() != nil {
				r.withoutLog(ctx, thread, run, after, err, yield)
				return
			}
			first = false
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// withoutLog yields the events of the ledger. Events of the log may come before, between, or
// after them, so withoutLog yields the log's error where one may be missing. A reader that
// receives it reconnects.
func (r *Runner) withoutLog(ctx context.Context, thread, run uuid.UUID, after uint64, why error, yield func(*ledger.Events, error) bool) {
	last, ended := after, false
	for e, err := range r.ledger.Events(ctx, thread, run, after) {
		var es []*Entry
		if err == nil {
			es, err = unpackEntries(e)
		}
		if err == nil && e.First > last+1 && (es[0].before == nil || *es[0].before > last) && (last > after || run == uuid.Nil || !es[0].first) {
			err = why
		}
		if err != nil {
			yield(nil, err)
			return
		}
		if !yield(e, nil) {
			return
		}
		last, ended = e.Last, es[len(es)-1].End != nil
	}
	whole, err := r.whole(ctx, thread, run, last, ended)
	if err == nil && !whole {
		err = why
	}
	if err != nil {
		yield(nil, err)
	}
}

// whole reports whether no events are missing after the last ones of the ledger, except events
// that are still to come.
func (r *Runner) whole(ctx context.Context, thread, run uuid.UUID, last uint64, ended bool) (bool, error) {
	if run != uuid.Nil {
		over, err := r.over(ctx, &ledger.Run{ID: run, Thread: thread})
		return ended || !over, err
	}
	t, err := r.ledger.Thread(ctx, thread, nil)
	if errors.Is(err, ledger.ErrNotFound) {
		return true, nil
	}
	return err == nil && t.Status != ledger.Busy && t.Seq <= last, err
}

// follow adds the entries that other processes record for a thread to its feed, while the feed
// has readers in this process.
func (r *Runner) follow(feed *Feed) (stop func()) {
	if r.o.Bus == nil {
		return func() {}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.draining { // readers are about to be disconnected
		return func() {}
	}
	feed.mu.Lock()
	defer feed.mu.Unlock()
	feed.followers++
	if feed.followers == 1 {
		ctx, cancel := context.WithCancel(r.ctx)
		feed.unfollow = cancel
		r.loops.Go(func() { r.bring(ctx, feed) })
	}
	return func() {
		feed.mu.Lock()
		defer feed.mu.Unlock()
		feed.followers--
		if feed.followers == 0 {
			feed.unfollow()
		}
	}
}

// bring adds stored events to a feed until ctx ends.
func (r *Runner) bring(ctx context.Context, feed *Feed) {
	live := make(chan *ledger.Events)
	log, every := r.eventLog(), pollEvents
	if log != nil {
		every = pollEnd
		r.loops.Go(func() { r.readLive(ctx, log, feed, live) })
	}
	poll := time.NewTicker(every)
	defer poll.Stop()
	f := follower{r: r, feed: feed}
	for ctx.Err() == nil {
		select {
		case e := <-live:
			f.take(ctx, e)
			continue
		case <-poll.C:
		case <-feed.poked:
		case <-ctx.Done():
			return
		}
		f.look(ctx, log != nil)
	}
}

// readLive sends the events of the log to a channel until ctx ends.
func (r *Runner) readLive(ctx context.Context, log bus.Log, feed *Feed, to chan<- *ledger.Events) {
	for ctx.Err() == nil {
		for e, err := range log.Read(ctx, feed.thread, feed.last(), true) {
			if err != nil {
				r.missed(ctx, "events of other processes", err)
				break
			}
			select {
			case to <- e:
			case <-ctx.Done():
			}
		}
		_ = delay.For(ctx, pollEnd)
	}
}

// follower adds events from two sources to a feed, ordered by number.
type follower struct {
	r     *Runner
	feed  *Feed
	whole time.Time // when the ledger last had no events after a gap
}

// take takes events of the log. Missing events before them may be in the ledger.
func (f *follower) take(ctx context.Context, e *ledger.Events) {
	for e.First > f.feed.last()+1 && !f.read(ctx, e.First) {
		if delay.For(ctx, pollEvents) != nil {
			return
		}
	}
	f.insert(ctx, e, math.MaxUint64)
}

// look takes events of the ledger. If there is a log, which may contain others, events after a
// gap wait for the log. If the missing events do not arrive, look reads both.
func (f *follower) look(ctx context.Context, log bool) {
	if !log {
		f.read(ctx, math.MaxUint64)
		return
	}
	if f.read(ctx, 0) && time.Since(f.whole) >= gapTime {
		f.takeAll(ctx, f.r.stored(ctx, f.feed.thread, uuid.Nil, f.feed.last()), math.MaxUint64)
	}
}

// read takes events of the ledger: all events that start before bound, and later events only if
// they directly follow those in the feed. It reports whether the ledger could be read.
func (f *follower) read(ctx context.Context, bound uint64) bool {
	return f.takeAll(ctx, f.r.ledger.Events(ctx, f.feed.thread, uuid.Nil, f.feed.last()), bound)
}

func (f *follower) takeAll(ctx context.Context, events iter.Seq2[*ledger.Events, error], bound uint64) bool {
	gap := false
	for e, err := range events {
		if err != nil {
			f.r.missed(ctx, "events of other processes", err)
			return false
		}
		gap = !f.insert(ctx, e, bound)
		if gap {
			break
		}
	}
	if !gap {
		f.whole = time.Now()
	}
	return true
}

// insert adds events to the feed. It reports false, and does nothing, if they start at or after
// bound and events before them are missing.
func (f *follower) insert(ctx context.Context, e *ledger.Events, bound uint64) bool {
	es, err := unpackEntries(e)
	if err != nil {
		f.r.logger.WarnContext(ctx, "dropped events of another process", "error", err)
		return true
	}
	last := f.feed.last()
	if e.First >= bound && e.First > last+1 && (es[0].before == nil || *es[0].before > last) {
		return false
	}
	f.feed.insert(es)
	f.feed.of.reclaim()
	return true
}

// insert adds numbered entries of another process. It omits entries that the feed already
// contains, and entries of a process that has lost the run.
func (f *Feed) insert(es []*Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fresh := es[:0]
	for _, e := range es {
		if e.Seq > f.seq {
			f.seq = e.Seq
			fresh = append(fresh, e)
		}
	}
	f.show(fresh)
}

// poke makes a feed read stored events, if it has followers.
func (s *feeds) poke(thread uuid.UUID) {
	s.mu.Lock()
	f := s.byID[thread]
	s.mu.Unlock()
	if f == nil {
		return
	}
	select {
	case f.poked <- struct{}{}:
	default:
	}
}
