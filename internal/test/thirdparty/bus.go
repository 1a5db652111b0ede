package thirdparty

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/bus"
	"github.com/treadle-go/treadle/ledger"
)

const (
	retention = 10 * time.Minute
	queueSize = 256 // further signals to a slow listener are dropped
)

// Exchange connects buses, each of which stands for the bus of one process.
type Exchange struct {
	mu        sync.Mutex
	listeners map[*listener]struct{}
	logs      map[uuid.UUID][]*logged
	appended  chan struct{} // closed and replaced by every append
}

// logged is an appended pack of events. It does not change, except that dropped is set
// when the log no longer contains it.
type logged struct {
	ledger.Events
	at      time.Time
	dropped bool
}

// NewExchange returns an Exchange without buses.
func NewExchange() *Exchange {
	return &Exchange{listeners: map[*listener]struct{}{}, logs: map[uuid.UUID][]*logged{}, appended: make(chan struct{})}
}

// Connect returns a new bus.
func (x *Exchange) Connect() bus.Bus { return &process{exchange: x, closed: make(chan struct{})} }

type process struct {
	exchange *Exchange
	once     sync.Once
	closed   chan struct{}
}

// usable returns an error if the bus is closed or ctx has ended.
func (p *process) usable(ctx context.Context) error {
	select {
	case <-p.closed:
		return bus.ErrClosed
	default:
		return ctx.Err()
	}
}

// Close implements [bus.Bus].
func (p *process) Close() error {
	p.once.Do(func() {
		close(p.closed)
		p.exchange.mu.Lock()
		defer p.exchange.mu.Unlock()
		for l := range p.exchange.listeners {
			if l.owner == p {
				p.exchange.remove(l)
			}
		}
	})
	return nil
}

// Signal implements [bus.Bus].
func (p *process) Signal(ctx context.Context, topic string, payload []byte) error {
	if err := p.usable(ctx); err != nil {
		return fmt.Errorf("thirdparty: signal %q: %w", topic, err)
	}
	p.exchange.mu.Lock()
	defer p.exchange.mu.Unlock()
	for l := range p.exchange.listeners {
		if l.topic != topic {
			continue
		}
		select {
		case l.queue <- bytes.Clone(payload):
		default:
		}
	}
	return nil
}

type listener struct {
	owner *process
	topic string
	fn    func([]byte)
	queue chan []byte

	stopped chan struct{} // closed by remove
}

// Listen implements [bus.Bus].
func (p *process) Listen(topic string, fn func(payload []byte)) (stop func(), err error) {
	x := p.exchange
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := p.usable(context.Background()); err != nil {
		return nil, fmt.Errorf("thirdparty: listen to %q: %w", topic, err)
	}
	l := &listener{owner: p, topic: topic, fn: fn, queue: make(chan []byte, queueSize), stopped: make(chan struct{})}
	x.listeners[l] = struct{}{}
	go x.serve(l)
	return func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.remove(l)
	}, nil
}

// remove stops a listener. The caller holds the lock.
func (x *Exchange) remove(l *listener) {
	if _, ok := x.listeners[l]; ok {
		delete(x.listeners, l)
		close(l.stopped)
	}
}

// serve calls a listener's function until the listener is removed.
func (x *Exchange) serve(l *listener) {
	for {
		select {
		case <-l.stopped:
			return
		case payload := <-l.queue:
			x.mu.Lock()
			_, ok := x.listeners[l]
			x.mu.Unlock()
			if !ok {
				return
			}
			l.fn(payload)
		}
	}
}

// Log implements [bus.Bus].
func (p *process) Log() bus.Log { return p }

// Append implements [bus.Log].
func (p *process) Append(ctx context.Context, e *ledger.Events) error {
	if err := p.usable(ctx); err != nil {
		return fmt.Errorf("thirdparty: append to thread %s: %w", e.Thread, err)
	}
	x := p.exchange
	x.mu.Lock()
	defer x.mu.Unlock()
	x.expire()
	log := x.logs[e.Thread]
	if slices.ContainsFunc(log, func(o *logged) bool { return o.Run == e.Run && o.First == e.First && o.Last == e.Last }) {
		return nil
	}
	kept := &logged{Events: *e, at: time.Now()}
	kept.Data = bytes.Clone(e.Data)
	x.logs[e.Thread] = append(log, kept)
	close(x.appended)
	x.appended = make(chan struct{})
	return nil
}

// expire removes old events. The caller holds the lock.
func (x *Exchange) expire() {
	oldest := time.Now().Add(-retention)
	for thread, log := range x.logs {
		n := 0
		for n < len(log) && log[n].at.Before(oldest) {
			log[n].dropped = true
			n++
		}
		if n == len(log) {
			delete(x.logs, thread)
		} else {
			x.logs[thread] = log[n:]
		}
	}
}

// Drop implements [bus.Log].
func (p *process) Drop(ctx context.Context, thread uuid.UUID) error {
	if err := p.usable(ctx); err != nil {
		return fmt.Errorf("thirdparty: drop events of thread %s: %w", thread, err)
	}
	p.exchange.mu.Lock()
	defer p.exchange.mu.Unlock()
	for _, e := range p.exchange.logs[thread] {
		e.dropped = true
	}
	delete(p.exchange.logs, thread)
	return nil
}

// Read implements [bus.Log].
func (p *process) Read(ctx context.Context, thread uuid.UUID, after uint64, live bool) iter.Seq2[*ledger.Events, error] {
	return func(yield func(*ledger.Events, error) bool) {
		var last *logged // read last
		for {
			if live && ctx.Err() != nil {
				return
			}
			if err := p.usable(ctx); err != nil {
				yield(nil, fmt.Errorf("thirdparty: read events of thread %s: %w", thread, err))
				return
			}
			next, appended := p.exchange.since(thread, last)
			for _, e := range next {
				last = e
				if e.Last <= after {
					continue
				}
				after = e.Last
				out := e.Events
				out.Data = bytes.Clone(e.Data)
				if !yield(&out, nil) {
					return
				}
				if p.usable(ctx) != nil {
					break
				}
			}
			switch {
			case len(next) > 0 && p.usable(ctx) != nil: // reported by the next iteration
			case !live:
				return
			default:
				select {
				case <-appended:
				case <-ctx.Done():
				case <-p.closed:
				}
			}
		}
	}
}

// since returns the events of a thread that follow last, and a channel that is closed by
// the next append.
func (x *Exchange) since(thread uuid.UUID, last *logged) ([]*logged, <-chan struct{}) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.expire()
	log := x.logs[thread]
	if last != nil && !last.dropped {
		log = log[slices.Index(log, last)+1:]
	}
	return slices.Clone(log), x.appended
}
