package natsbus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/treadle-go/treadle/bus"
	"github.com/treadle-go/treadle/internal/delay"
	"github.com/treadle-go/treadle/ledger"
)

const (
	// The limits of a batch of stored messages, which are read with one request.
	batchMessages = 256
	batchBytes    = 4 << 20
	// pollEvery is the interval at which an idle live reader checks the stream for messages
	// that it did not receive. It is a last resort: broken connections and new stream leaders
	// are detected immediately.
	pollEvery = 10 * time.Second
	// retryFor is the time that a reader that is not live retries without progress before it fails.
	retryFor = 2 * patience
)

// Headers set by the server in republished messages and in responses.
const (
	headerStatus = "Status"
	headerSeq    = "Nats-Sequence"
	// headerBefore is the sequence number of the previous message of the same thread, if it is
	// still stored.
	headerBefore  = "Nats-Last-Sequence"
	headerPending = "Nats-Num-Pending"
)

// reader is a Read in progress.
type reader struct {
	eventLog
	ctx    context.Context
	thread uuid.UUID
	yield  func(*ledger.Events, error) bool
	ended  bool   // yield has returned false
	seq    uint64 // sequence number of the last message read from the stream
	last   uint64 // Last of the events yielded last
	// parts contains the incomplete events.
	parts map[partsKey]*assembly
}

type partsKey struct {
	run         uuid.UUID
	first, last uint64
}

// Read implements [bus.Log].
func (l eventLog) Read(ctx context.Context, thread uuid.UUID, after uint64, live bool) iter.Seq2[*ledger.Events, error] {
	return func(yield func(*ledger.Events, error) bool) {
		r := &reader{eventLog: l, ctx: ctx, thread: thread, yield: yield, last: after}
		read := r.kept
		if live {
			read = r.live
		}
		if err := read(); err != nil && !r.ended {
			yield(nil, fmt.Errorf("natsbus: read events of thread %s: %w", thread, err))
		}
	}
}

// kept reads the events stored when it starts, and not those appended while it runs.
func (r *reader) kept() error {
	until, seq, upTo := time.Now().Add(retryFor), r.seq, uint64(0)
	for {
		var err error
		if upTo == 0 {
			upTo, _, err = r.get(&getRequest{LastOf: r.eventSubject(r.thread.String())})
		}
		if err == nil && upTo > 0 {
			err = r.catchUp(upTo)
		}
		// If there has been no connection for longer than grace, retrying is pointless.
		if err == nil || r.ended || !temporary(err) || errors.Is(err, nats.ErrDisconnected) {
			return err
		}
		if r.seq > seq { // there was progress
			until, seq = time.Now().Add(retryFor), r.seq
		}
		if time.Now().After(until) {
			return err
		}
		if err := delay.For(r.ctx, reconnectWait); err != nil {
			return err
		}
	}
}

// live reads events until the context ends.
func (r *reader) live() error {
	subject := r.liveSubject(r.thread.String())
	f, err := r.follow(subject)
	if err != nil {
		if r.hub.Closed() {
			err = bus.ErrClosed
		}
		return err
	}
	defer r.unfollow(subject, f)
	poll := time.NewTimer(r.pollEvery)
	defer poll.Stop()
	for pause := time.Duration(0); !r.ended; {
		queue, missed, anew := f.take()
		if anew {
			r.seq, r.parts = 0, nil
		}
		err := r.takeAll(queue, missed)
		switch {
		case err == nil:
			pause = 0
		case r.ctx.Err() != nil || r.hub.Closed():
		default:
			f.miss()
			<-f.wake // sent by miss
			pause = min(max(2*pause, reconnectWait/4), time.Second)
		}
		if r.ended {
			return nil
		}
		var again <-chan time.Time
		if pause > 0 {
			again = time.After(pause)
		}
		poll.Reset(r.pollEvery)
		select {
		case <-r.ctx.Done():
			return nil
		case <-r.Bus.ctx.Done():
			return bus.ErrClosed
		case <-again:
		case <-f.wake:
		case <-poll.C:
			f.miss()
		}
	}
	return nil
}

// takeAll takes messages sent to this process, or reads the stream if messages were missed.
func (r *reader) takeAll(queue []*nats.Msg, missed bool) error {
	if missed {
		return r.catchUp(math.MaxUint64) // the stream contains those in the queue too
	}
	for _, m := range queue {
		seq, ok := number(m, headerSeq)
		before, _ := number(m, headerBefore)
		switch {
		case !ok || seq <= r.seq: // not from the server, or already taken
		case before > r.seq:
			return r.catchUp(math.MaxUint64) // the stream contains this message and those after it
		default:
			r.take(seq, m.Data)
			if r.ended {
				return nil
			}
		}
	}
	return nil
}

// number returns a number from the header of a message.
func number(m *nats.Msg, name string) (uint64, bool) {
	n, err := strconv.ParseUint(m.Header.Get(name), 10, 64)
	return n, err == nil
}

// catchUp takes all stored messages after the last one taken, up to a sequence number. In a
// cluster, any server may answer a batch request, even one that does not have the newest
// messages, so catchUp finally asks the leader.
func (r *reader) catchUp(upTo uint64) error {
	for !r.ended && r.seq < upTo {
		batch, more, err := r.fetch()
		if err != nil {
			return err
		}
		for _, m := range batch {
			if seq, _ := number(m, headerSeq); seq > r.seq && r.seq < upTo {
				r.take(seq, m.Data)
				if r.ended {
					return nil
				}
			}
		}
		if more && len(batch) > 0 {
			continue
		}
		if r.seq >= upTo {
			return nil
		}
		seq, data, err := r.get(&getRequest{Seq: r.seq + 1, Subject: r.eventSubject(r.thread.String())})
		if err != nil || seq == 0 {
			return err
		}
		r.take(seq, data)
	}
	return nil
}

// take yields the events of a stream message, unless they are old or incomplete.
func (r *reader) take(seq uint64, message []byte) {
	r.seq = seq
	h, data, err := decode(message)
	if err != nil {
		r.damaged(seq, err)
		return
	}
	if h.last <= r.last {
		return
	}
	key := partsKey{h.run, h.first, h.last}
	if h.parts > 1 {
		a := r.parts[key]
		if a == nil {
			if r.parts == nil {
				r.parts = map[partsKey]*assembly{}
			}
			a = &assembly{}
			r.parts[key] = a
		}
		if data, err = a.add(&h, data); err != nil {
			delete(r.parts, key)
			r.damaged(seq, err)
			return
		}
		if data == nil {
			return
		}
	}
	r.last = h.last
	for key := range r.parts {
		if key.last <= r.last {
			delete(r.parts, key)
		}
	}
	r.ended = !r.yield(&ledger.Events{Thread: r.thread, Run: h.run, First: h.first, Last: h.last, Data: data}, nil)
}

func (r *reader) damaged(seq uint64, err error) {
	r.ended = !r.yield(nil, fmt.Errorf("natsbus: damaged message %d of thread %s in stream %s: %w", seq, r.thread, r.stream, err))
}

// getRequest requests messages of a subject starting at a sequence number, or the last message.
type getRequest struct {
	Seq      uint64 `json:"seq,omitempty"`
	Subject  string `json:"next_by_subj,omitempty"`
	LastOf   string `json:"last_by_subj,omitempty"`
	Batch    int    `json:"batch,omitempty"`
	MaxBytes int    `json:"max_bytes,omitempty"`
}

// fetch returns a batch of messages after the last one taken, and whether there are more.
func (r *reader) fetch() (batch []*nats.Msg, more bool, err error) {
	if err := r.connected(r.ctx); err != nil {
		return nil, false, err
	}
	select {
	case r.fetching <- struct{}{}:
		defer func() { <-r.fetching }()
	case <-r.ctx.Done():
		return nil, false, context.Cause(r.ctx)
	}
	body, err := json.Marshal(&getRequest{Seq: r.seq + 1, Subject: r.eventSubject(r.thread.String()), Batch: batchMessages, MaxBytes: batchBytes})
	if err != nil {
		return nil, false, err
	}
	inbox, answers := r.nc.NewInbox(), make(chan *nats.Msg, batchMessages+1)
	sub, err := r.nc.ChanSubscribe(inbox, answers)
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = sub.Unsubscribe() }() // fails if the connection is closed
	if err := r.nc.PublishRequest("$JS.API.DIRECT.GET."+r.stream, inbox, body); err != nil {
		return nil, false, err
	}
	patient := time.NewTimer(patience)
	defer patient.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return nil, false, context.Cause(r.ctx)
		case <-r.Bus.ctx.Done():
			return nil, false, bus.ErrClosed
		case <-patient.C:
			return nil, false, fmt.Errorf("%w: no response from JetStream within %v", nats.ErrTimeout, patience)
		case m := <-answers:
			switch status := m.Header.Get(headerStatus); status {
			case "":
				// A message missing within a batch was lost with a connection.
				if before, _ := number(m, headerBefore); before != lastSeq(batch) {
					return batch, true, nil
				}
				batch = append(batch, m)
			case "204": // end of the batch
				pending, _ := number(m, headerPending)
				return batch, pending > 0, nil
			case "404": // no messages
				return nil, false, nil
			case "503":
				r.recheck() // the stream may not exist
				return nil, false, nats.ErrNoResponders
			default:
				return nil, false, fmt.Errorf("JetStream responded %s %s", status, m.Header.Get("Description"))
			}
		}
	}
}

func lastSeq(batch []*nats.Msg) uint64 {
	if len(batch) == 0 {
		return 0
	}
	seq, _ := number(batch[len(batch)-1], headerSeq)
	return seq
}

// get returns a message from the stream leader, or a seq of 0 if there is none.
func (r *reader) get(request *getRequest) (seq uint64, data []byte, err error) {
	body, err := json.Marshal(request)
	if err != nil {
		return 0, nil, err
	}
	a, err := r.request(r.ctx, &nats.Msg{Subject: "$JS.API.STREAM.MSG.GET." + r.stream, Data: body})
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return 0, nil, nil
	}
	if err != nil {
		return 0, nil, err
	}
	return a.Message.Seq, a.Message.Data, nil
}
