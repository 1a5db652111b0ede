package natsbus

import (
	"sync"

	"github.com/nats-io/nats.go"
)

// The limits of a live reader's queue. When it overflows, the reader catches up from the
// stream.
const (
	queuedMessages = 512
	queuedBytes    = 4 << 20
)

// followed is a thread with live readers in this process. They share a subscription.
type followed struct {
	sub     *nats.Subscription
	readers map[*follower]struct{}
}

// follower is the queue of a live reader.
type follower struct {
	wake chan struct{} // buffered, with capacity 1

	mu     sync.Mutex
	queue  []*nats.Msg
	bytes  int
	missed bool // messages may have been lost and must be read from the stream
	anew   bool // whether the stream was replaced, so sequence numbers start over
}

// follow subscribes to the messages of a thread that are stored from now on. The reader must
// read earlier messages from the stream, so missed is set.
func (b *Bus) follow(subject string) (*follower, error) {
	f := &follower{wake: make(chan struct{}, 1), missed: true}
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.followed[subject]
	if t == nil {
		sub, err := b.nc.ChanSubscribe(subject, b.live)
		if err != nil {
			return nil, err
		}
		t = &followed{sub: sub, readers: map[*follower]struct{}{}}
		b.followed[subject] = t
	}
	t.readers[f] = struct{}{}
	return f, nil
}

func (b *Bus) unfollow(subject string, f *follower) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.followed[subject]
	delete(t.readers, f)
	if len(t.readers) > 0 {
		return
	}
	delete(b.followed, subject)
	_ = t.sub.Unsubscribe() // fails if the connection is closed, which also ends the subscription
}

// missed notifies the readers of a subject, or all readers if subject is empty, that messages
// may have been lost.
func (b *Bus) missed(subject string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for followed, t := range b.followed {
		if subject == "" || subject == followed {
			for f := range t.readers {
				f.miss()
			}
		}
	}
}

// dealEvents distributes messages to the readers of their threads. It does not wait for any
// reader.
func (b *Bus) dealEvents() {
	for {
		select {
		case <-b.ctx.Done():
			return
		case m := <-b.live:
			b.mu.Lock()
			if t := b.followed[m.Subject]; t != nil {
				for f := range t.readers {
					f.push(m)
				}
			}
			b.mu.Unlock()
		}
	}
}

func (f *follower) push(m *nats.Msg) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.missed: // the reader is about to read the stream, which contains m
	case len(f.queue) >= queuedMessages || f.bytes+len(m.Data) > queuedBytes && len(f.queue) > 0:
		f.queue, f.bytes, f.missed = nil, 0, true
	default:
		f.queue = append(f.queue, m)
		f.bytes += len(m.Data)
	}
	f.signal()
}

// miss records that messages may have been lost.
func (f *follower) miss() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.missed = true
	f.signal()
}

// restart records that the stream was replaced.
func (f *follower) restart() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.missed, f.anew = true, true
	f.signal()
}

func (f *follower) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// take returns the contents of the queue and its flags, and resets them.
func (f *follower) take() (queue []*nats.Msg, missed, anew bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	queue, missed, anew = f.queue, f.missed, f.anew
	f.queue = nil
	f.bytes = 0
	f.missed = false
	f.anew = false
	return queue, missed, anew
}
