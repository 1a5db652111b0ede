// Package hub delivers signals to the listeners within a process. Every bus uses a [Hub].
package hub

import (
	"bytes"
	"cmp"
	"log/slog"
	"sync"
)

// queued is the maximum number of signals waiting for a listener; further signals are dropped.
const queued = 256

// A Hub delivers signals to the listeners of topics. The zero value is an empty hub. It is safe
// for concurrent use.
type Hub struct {
	// Logger receives one warning per listener whose signals are dropped; nil means
	// slog.Default().
	Logger *slog.Logger

	mu     sync.Mutex
	topics map[string]map[*listener]struct{}
	closed bool
}

type listener struct {
	fn      func([]byte)
	queue   chan []byte
	ended   chan struct{} // closed by end
	dropped bool          // the listener missed a signal; guarded by the hub's lock

	mu      sync.Mutex
	stopped bool
}

// Listen starts a goroutine that calls fn for each signal of a topic. stop does not wait for a
// call of fn in progress, so fn may call it. After Close, Listen returns false.
func (h *Hub) Listen(topic string, fn func(payload []byte)) (stop func(), ok bool) {
	l := &listener{fn: fn, queue: make(chan []byte, queued), ended: make(chan struct{})}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, false
	}
	if h.topics == nil {
		h.topics = map[string]map[*listener]struct{}{}
	}
	if h.topics[topic] == nil {
		h.topics[topic] = map[*listener]struct{}{}
	}
	h.topics[topic][l] = struct{}{}
	go l.run()
	return func() { h.stop(topic, l) }, true
}

func (h *Hub) stop(topic string, l *listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l.end()
	delete(h.topics[topic], l)
	if len(h.topics[topic]) == 0 {
		delete(h.topics, topic)
	}
}

// Deliver queues a signal for the listeners of its topic. It never blocks: a listener whose
// queue is full misses the signal. Each listener receives its own copy of the payload.
func (h *Hub) Deliver(topic string, payload []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.topics[topic] {
		select {
		case l.queue <- bytes.Clone(payload):
		default:
			h.warn(topic, l)
		}
	}
}

// Dropped records that signals of a topic were lost before they reached the hub.
func (h *Hub) Dropped(topic string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.topics[topic] {
		h.warn(topic, l)
	}
}

func (h *Hub) warn(topic string, l *listener) {
	if !l.dropped {
		cmp.Or(h.Logger, slog.Default()).Warn("bus: slow listener misses signals", "topic", topic)
	}
	l.dropped = true
}

// Close stops all listeners. It reports whether this is the first call.
func (h *Hub) Close() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.closed = true
	for _, listeners := range h.topics {
		for l := range listeners {
			l.end()
		}
	}
	clear(h.topics)
	return true
}

// Closed reports whether Close was called.
func (h *Hub) Closed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closed
}

func (l *listener) run() {
	for {
		select {
		case <-l.ended:
			return
		case payload := <-l.queue:
			if !l.begin() {
				return
			}
			l.fn(payload)
		}
	}
}

// begin reports whether a call may start. The lock orders it before or after end.
func (l *listener) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.stopped
}

func (l *listener) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.stopped {
		l.stopped = true
		close(l.ended)
	}
}
