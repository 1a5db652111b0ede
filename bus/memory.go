package bus

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/internal/hub"
	"github.com/treadle-go/treadle/ledger"
)

// keep is the retention time of the log in memory.
const keep = 10 * time.Minute

// NewMemory returns a bus for a single process. Its log is in memory.
func NewMemory() Bus {
	return &memory{threads: map[uuid.UUID]*memoryThread{}, closed: make(chan struct{})}
}

type memory struct {
	hub    hub.Hub
	closed chan struct{}

	mu      sync.Mutex
	threads map[uuid.UUID]*memoryThread
	swept   time.Time
}

// memoryThread is the log of a thread. Entries are numbered from the first one ever appended.
type memoryThread struct {
	removed int // number of entries removed from the front
	entries []memoryEntry
	known   map[memoryKey]struct{} // keys of the entries
	readers int                    // number of live readers; the thread is not removed while it has any
	grown   chan struct{}          // closed by the next append; nil if no reader waits
}

type memoryEntry struct {
	*ledger.Events
	appended time.Time
}

type memoryKey struct {
	run         uuid.UUID
	first, last uint64
}

// Log implements [Bus].
func (m *memory) Log() Log { return m }

// Close implements [Bus].
func (m *memory) Close() error {
	if m.hub.Close() {
		close(m.closed)
	}
	return nil
}

// Signal implements [Bus].
func (m *memory) Signal(ctx context.Context, topic string, payload []byte) error {
	if err := m.usable(ctx); err != nil {
		return fmt.Errorf("bus: signal %q: %w", topic, err)
	}
	m.hub.Deliver(topic, payload)
	return nil
}

// usable returns an error if the bus is closed or ctx has ended.
func (m *memory) usable(ctx context.Context) error {
	if m.hub.Closed() {
		return ErrClosed
	}
	return ctx.Err()
}

// Listen implements [Bus].
func (m *memory) Listen(topic string, fn func(payload []byte)) (stop func(), err error) {
	stop, ok := m.hub.Listen(topic, fn)
	if !ok {
		return nil, fmt.Errorf("%w: listen to %q", ErrClosed, topic)
	}
	return stop, nil
}

// Append implements [Log].
func (m *memory) Append(ctx context.Context, e *ledger.Events) error {
	if err := m.usable(ctx); err != nil {
		return fmt.Errorf("bus: append events %d to %d of thread %s: %w", e.First, e.Last, e.Thread, err)
	}
	kept := *e
	kept.Data = bytes.Clone(e.Data)
	key := memoryKey{e.Run, e.First, e.Last}
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweep(now)
	t := m.thread(e.Thread)
	t.trim(now)
	if _, ok := t.known[key]; ok {
		return nil
	}
	t.known[key] = struct{}{}
	t.entries = append(t.entries, memoryEntry{&kept, now})
	if t.grown != nil {
		close(t.grown)
		t.grown = nil
	}
	return nil
}

// thread returns the log of a thread, creating it if necessary. The caller must hold the lock.
func (m *memory) thread(id uuid.UUID) *memoryThread {
	t := m.threads[id]
	if t == nil {
		t = &memoryThread{known: map[memoryKey]struct{}{}}
		m.threads[id] = t
	}
	return t
}

// sweep periodically removes old events of threads that receive no more appends.
func (m *memory) sweep(now time.Time) {
	if now.Sub(m.swept) < keep/10 {
		return
	}
	m.swept = now
	for id, t := range m.threads {
		t.trim(now)
		if len(t.entries) == 0 && t.readers == 0 {
			delete(m.threads, id)
		}
	}
}

// trim removes entries older than keep.
func (t *memoryThread) trim(now time.Time) {
	n := 0
	for n < len(t.entries) && now.Sub(t.entries[n].appended) >= keep {
		n++
	}
	t.remove(n)
}

// remove removes the first n entries.
func (t *memoryThread) remove(n int) {
	for _, e := range t.entries[:n] {
		delete(t.known, memoryKey{e.Run, e.First, e.Last})
	}
	clear(t.entries[:n])
	t.entries = t.entries[n:]
	t.removed += n
}

// Drop implements [Log].
func (m *memory) Drop(ctx context.Context, thread uuid.UUID) error {
	if err := m.usable(ctx); err != nil {
		return fmt.Errorf("bus: drop events of thread %s: %w", thread, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.threads[thread]; t != nil {
		t.remove(len(t.entries))
	}
	return nil
}

// Read implements [Log].
func (m *memory) Read(ctx context.Context, thread uuid.UUID, after uint64, live bool) iter.Seq2[*ledger.Events, error] {
	return func(yield func(*ledger.Events, error) bool) {
		if live {
			m.follow(thread, 1)
			defer m.follow(thread, -1)
		}
		end := m.end(thread)
		for next := 0; ; {
			if ctx.Err() != nil && live {
				return
			}
			if err := m.usable(ctx); err != nil {
				yield(nil, fmt.Errorf("bus: read events of thread %s: %w", thread, err))
				return
			}
			if next >= end && !live {
				return
			}
			e, grown := m.next(thread, &next, live)
			switch {
			case e != nil && e.Last > after:
				after = e.Last
				copied := *e
				copied.Data = bytes.Clone(e.Data)
				if !yield(&copied, nil) {
					return
				}
			case e != nil:
			case !live: // everything was removed
				return
			default:
				select {
				case <-grown:
				case <-ctx.Done():
				case <-m.closed:
				}
			}
		}
	}
}

// follow adds n to the number of live readers of a thread.
func (m *memory) follow(thread uuid.UUID, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.thread(thread).readers += n
}

// end returns the number of entries ever appended to a thread.
func (m *memory) end(thread uuid.UUID) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.threads[thread]; t != nil {
		return t.removed + len(t.entries)
	}
	return 0
}

// next returns entry number *next of a thread, or the first stored entry after it, and advances
// *next. If there is none yet, it returns nil and, for a live reader, a channel that is closed
// when an entry is appended.
func (m *memory) next(thread uuid.UUID, next *int, live bool) (*ledger.Events, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.threads[thread]
	if t == nil {
		return nil, nil
	}
	t.trim(time.Now())
	i := max(*next-t.removed, 0)
	if i < len(t.entries) {
		*next = t.removed + i + 1
		return t.entries[i].Events, nil
	}
	if live && t.grown == nil {
		t.grown = make(chan struct{})
	}
	return nil, t.grown
}
