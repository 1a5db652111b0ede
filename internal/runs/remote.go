package runs

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/bus"
	"github.com/treadle-go/treadle/ledger"
)

// Several processes may use one ledger. What one of them has to know of the others it
// finds there, in the end. The bus makes it sooner: it tells processes that there is
// work or that a run is to end, and brings the events of runs to processes whose clients
// read them.

// The topics of signals.
const (
	topicWake   = "wake"   // there is something to claim
	topicOrder  = "order"  // a run is to end: a signalled
	topicEvents = "events" // the ledger has new events of a thread: its id
)

// signalled is an order to a run.
type signalled struct {
	Run   uuid.UUID     `json:"run"`
	Order ledger.Action `json:"order"`
}

// The times of what other processes do.
const (
	signalTime = 2 * time.Second        // a signal may take
	pollEvents = 250 * time.Millisecond // the ledger is asked for events, without a signal
	pollEnd    = time.Second            // the ledger is asked whether a run has ended that nothing is heard of
	keepTrying = 2 * time.Minute        // events that cannot be stored are tried again
	maxUnkept  = 16 << 20               // bytes of them, for each run
	tryAgain   = 500 * time.Millisecond // between two attempts
)

// listen obeys the signals of other processes until ctx ends.
func (r *Runner) listen(ctx context.Context) error {
	if r.o.Bus == nil {
		return nil
	}
	for topic, fn := range map[string]func([]byte){
		topicWake: func([]byte) { r.Wake() },
		topicOrder: func(raw []byte) {
			var s signalled
			if json.Unmarshal(raw, &s) == nil { // what is no order is not from us
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

// signal tells the other processes something. They find it in the ledger without it.
func (r *Runner) signal(topic string, payload []byte) {
	if r.o.Bus == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), signalTime)
	defer cancel()
	if err := r.o.Bus.Signal(ctx, topic, payload); err != nil {
		r.logger.DebugContext(ctx, "other processes are not told", "topic", topic, "error", err)
	}
}

// announce makes this process and the others look for work.
func (r *Runner) announce() {
	r.Wake()
	r.signal(topicWake, nil)
}

// tell tells a run to end, wherever it is executed.
func (r *Runner) tell(run uuid.UUID, a ledger.Action) {
	if !r.order(run, a) {
		r.signal(topicOrder, jsonOf(signalled{run, a}))
	}
}

// eventLog is the log of the bus, or nil if the ledger has the events.
func (r *Runner) eventLog() bus.Log {
	if r.o.Bus == nil {
		return nil
	}
	return r.o.Bus.Log()
}

// store stores events where all processes find them.
func (r *Runner) keep(ctx context.Context, e *ledger.Events) error {
	if log := r.eventLog(); log != nil {
		return log.Append(ctx, e)
	}
	if err := r.ledger.Append(ctx, e); err != nil {
		return err
	}
	r.signal(topicEvents, e.Thread[:])
	return nil
}

// stored yields the stored events of a thread, or of one of its runs.
func (r *Runner) stored(ctx context.Context, thread, run uuid.UUID, after uint64) iter.Seq2[*ledger.Events, error] {
	log := r.eventLog()
	if log == nil {
		return r.ledger.Events(ctx, thread, run, after)
	}
	return func(yield func(*ledger.Events, error) bool) {
		for e, err := range log.Read(ctx, thread, after, false) {
			if err == nil && run != uuid.Nil && e.Run != run {
				continue
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// follow brings what other processes record of a thread into its feed, while
// somebody reads it here.
func (r *Runner) follow(feed *Feed) (stop func()) {
	if r.o.Bus == nil {
		return func() {}
	}
	feed.mu.Lock()
	defer feed.mu.Unlock()
	if feed.followers++; feed.followers == 1 {
		ctx, cancel := context.WithCancel(r.ctx)
		feed.unfollow = cancel
		r.loops.Go(func() { r.bring(ctx, feed) })
	}
	return func() {
		feed.mu.Lock()
		defer feed.mu.Unlock()
		if feed.followers--; feed.followers == 0 {
			feed.unfollow()
		}
	}
}

// bring brings stored events into a feed until ctx ends.
func (r *Runner) bring(ctx context.Context, feed *Feed) {
	read := func() iter.Seq2[*ledger.Events, error] {
		if log := r.eventLog(); log != nil {
			return log.Read(ctx, feed.thread, feed.last(), true)
		}
		return r.ledger.Events(ctx, feed.thread, uuid.Nil, feed.last())
	}
	poll := time.NewTicker(pollEvents)
	defer poll.Stop()
	for ctx.Err() == nil {
		for pack, err := range read() {
			if err == nil {
				var es []*Entry
				if es, err = unpackEntries(pack); err == nil {
					feed.insert(es)
				}
			}
			if err != nil && ctx.Err() == nil {
				r.logger.WarnContext(ctx, "events of another process are not read", "thread", feed.thread, "error", err)
				break
			}
		}
		select {
		case <-poll.C:
		case <-feed.poked:
		case <-ctx.Done():
		}
	}
}

// insert adds entries of another process, which have numbers. Those that the feed
// has, and those of a process that has lost the run, are left out.
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

// poke makes a feed look for stored events, if somebody follows it.
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
