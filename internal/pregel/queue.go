package pregel

import "sync"

// Queue carries events from the run to the reader of a stream. Writers wait while
// it is full; the reader takes all queued events together.
type Queue struct {
	mu      sync.Mutex
	filled  sync.Cond
	drained sync.Cond
	settled sync.Cond
	events  []Event
	spare   []Event
	reading bool // the reader is processing a batch
	closed  bool
}

// queueLimit limits the number of events that a run can be ahead of its reader.
const queueLimit = 1024

// queueSpaces holds the slices of released queues, as *[]Event.
var queueSpaces sync.Pool

// NewQueue returns an empty Queue.
func NewQueue() *Queue {
	q := &Queue{}
	q.filled.L, q.drained.L, q.settled.L = &q.mu, &q.mu, &q.mu
	for _, events := range []*[]Event{&q.events, &q.spare} {
		if space, ok := queueSpaces.Get().(*[]Event); ok {
			*events = *space
		}
	}
	return q
}

func (q *Queue) push(ev *Event) {
	q.mu.Lock()
	for len(q.events) >= queueLimit && !q.closed {
		q.drained.Wait()
	}
	if q.closed {
		q.mu.Unlock()
		return
	}
	q.events = append(q.events, *ev)
	first := len(q.events) == 1
	q.mu.Unlock()
	if first {
		q.filled.Signal()
	}
}

// Take waits for events and returns all of them, or none if the queue is closed and
// empty. The slice is valid until the next call.
func (q *Queue) Take() []Event {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.reading = false
	if len(q.events) == 0 {
		q.settled.Broadcast()
	}
	for len(q.events) == 0 && !q.closed {
		q.filled.Wait()
	}
	q.reading = true
	clear(q.spare)
	full := len(q.events) >= queueLimit
	batch := q.events
	q.events, q.spare = q.spare[:0], batch
	if full {
		q.drained.Broadcast()
	}
	return batch
}

// Settle waits until the reader has handled all events pushed before.
func (q *Queue) Settle() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for (q.reading || len(q.events) > 0) && !q.closed {
		q.settled.Wait()
	}
}

// Close ends the stream. Queued events can still be taken; later events are
// dropped.
func (q *Queue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.filled.Broadcast()
	q.drained.Broadcast()
	q.settled.Broadcast()
}

// Release closes the queue and frees its memory. The reader must not call Take
// afterward.
func (q *Queue) Release() {
	q.Close()
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, events := range []*[]Event{&q.events, &q.spare} {
		if space := *events; cap(space) > 0 {
			*events = nil
			clear(space[:cap(space)])
			space = space[:0]
			queueSpaces.Put(&space)
		}
	}
}
