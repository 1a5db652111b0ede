package store

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/treadle-go/treadle/internal/vecindex"
)

// NewMemoryBackend makes a backend that keeps everything in the process. It is
// what [NewMemory] stands on, and what suites compare other backends with.
func NewMemoryBackend() Backend {
	return &memory{
		byName:  map[string]*space{},
		vectors: map[string]*vecindex.Index{},
		indexed: map[int64]*entry{},
		changed: make(chan struct{}),
		seats:   make(chan struct{}, runtime.GOMAXPROCS(0)),
	}
}

// memory keeps all records in the order of their Seqs, and again by namespace,
// where searches and gets look.
type memory struct {
	// seats bounds how many searches hold mu at a time. A writer waits for those
	// that do, and they take the longer the more they are: beyond one for each
	// processor none is done any sooner for it.
	seats   chan struct{}
	mu      sync.RWMutex
	seq     int64
	swept   int64    // the greatest Seq of a current record that a sweep dropped
	log     []*entry // by Seq, removed ones among them
	removed int      // how many of the log are
	byName  map[string]*space
	spaces  []*space                   // by name
	vectors map[string]*vecindex.Index // of the current records, by stamp
	indexed map[int64]*entry           // those in vectors, by Seq
	changed chan struct{}              // closed and replaced when there is a record more
}

// An entry is a record in its places. The record itself is shared with readers
// and never changed, only replaced.
type entry struct {
	record  *Record
	indexed Indexed
	length  int // in words
	space   *space
	at      int  // where in space.items
	removed bool // from the log
	old     bool // not the current one of its key any more
}

// Do is that of [Backend].
func (m *memory) Do(ctx context.Context, b *Batch) (*Results, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(b.Searches) > 0 {
		select {
		case m.seats <- struct{}{}:
			defer func() { <-m.seats }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if len(b.Writes) == 0 {
		m.mu.RLock()
		r := reading{memory: m, batch: b}
		results := r.all()
		m.mu.RUnlock()
		if !r.mustWrite {
			return results, nil
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.checkConditions(b); err != nil {
		return nil, err
	}
	r := reading{memory: m, batch: b, exclusive: true}
	results := r.all()
	results.Writes = m.write(b)
	return results, nil
}

func (m *memory) checkConditions(b *Batch) error {
	for i := range b.Writes {
		w := &b.Writes[i]
		if w.If == nil {
			continue
		}
		var have int64
		if e := m.live(w.Namespace, w.Key, b.Now); e != nil {
			have = e.record.Seq
		}
		if have != *w.If {
			return &ConflictError{w.Namespace, w.Key, *w.If, have}
		}
	}
	return nil
}

// live is the entry of an item that is live now, or nil.
func (m *memory) live(n Namespace, key string, now time.Time) *entry {
	s := m.byName[n.Encode()]
	if s == nil {
		return nil
	}
	line := s.lines[key]
	if len(line) == 0 || !line[len(line)-1].record.Live(now) {
		return nil
	}
	return line[len(line)-1]
}

func (m *memory) write(b *Batch) []*Record {
	if len(b.Writes) == 0 {
		return nil
	}
	records := make([]*Record, len(b.Writes))
	for i := range b.Writes {
		w := &b.Writes[i]
		switch {
		case w.Kind == Forgotten && w.Key == "":
			records[i] = m.forgetAll(w, b.Now)
		case w.Kind == Forgotten:
			m.forget(w.Namespace.Encode(), w.Key)
			records[i] = m.add(w, &Record{Kind: Forgotten, Updated: b.Now})
		case w.Kind == Deleted:
			if m.live(w.Namespace, w.Key, b.Now) != nil {
				records[i] = m.add(w, &Record{Kind: Deleted, Updated: b.Now})
			}
		default:
			records[i] = m.put(w, b.Now)
		}
	}
	m.announce()
	return records
}

func (m *memory) put(w *Write, now time.Time) *Record {
	r := &Record{Kind: Put, Created: now, Updated: now, TTL: w.TTL, Value: w.Value, Meta: w.Meta, Paths: w.Indexed.Paths}
	if before := m.live(w.Namespace, w.Key, now); before != nil {
		r.Created = before.record.Created
	}
	if w.TTL > 0 {
		r.Expires = now.Add(w.TTL)
	}
	return m.add(w, r)
}

// add makes r the current record of w's key.
func (m *memory) add(w *Write, r *Record) *Record {
	m.seq++
	r.Seq, r.Namespace, r.Key = m.seq, w.Namespace, w.Key
	s := m.space(w.Namespace)
	e := &entry{record: r, indexed: w.Indexed, space: s}
	for _, t := range e.indexed.Terms {
		e.length += t.Count
	}
	m.log = append(m.log, e)
	line := s.lines[w.Key]
	if len(line) > 0 {
		m.retire(line[len(line)-1])
	}
	s.lines[w.Key] = append(line, e)
	m.trim(s, w.Key, w.Keep)
	if r.Kind == Put {
		s.add(e)
		m.addVectors(e)
	}
	return r
}

// trim keeps the newest records of a key.
func (m *memory) trim(s *space, key string, keep int) {
	line := s.lines[key]
	gone := max(0, len(line)-keep)
	for _, e := range line[:gone] {
		m.drop(e)
	}
	s.lines[key] = slices.Delete(line, 0, gone)
}

// drop removes an entry from the log. Others still have to.
func (m *memory) drop(e *entry) {
	e.removed = true
	m.removed++
	if m.removed > 1000 && m.removed > len(m.log)/2 {
		m.log = slices.DeleteFunc(m.log, func(e *entry) bool { return e.removed })
		m.removed = 0
	}
}

// retire makes an entry a matter of history.
func (m *memory) retire(e *entry) {
	if e.old || e.record.Kind != Put {
		return
	}
	m.removeVectors(e)
	e.old = true
	e.space.retired()
}

func (m *memory) addVectors(e *entry) {
	if len(e.indexed.Vectors) == 0 {
		return
	}
	index := m.vectors[e.indexed.Stamp]
	if index == nil {
		index = vecindex.New()
		m.vectors[e.indexed.Stamp] = index
	}
	vectors := make([][]float32, len(e.indexed.Vectors))
	for i, v := range e.indexed.Vectors {
		vectors[i] = v.Data
	}
	index.Add(e.space.name, e.record.Seq, vectors...)
	m.indexed[e.record.Seq] = e
}

func (m *memory) removeVectors(e *entry) {
	if index := m.vectors[e.indexed.Stamp]; index != nil {
		index.Remove(e.space.name, e.record.Seq)
		delete(m.indexed, e.record.Seq)
		if index.Len() == 0 {
			delete(m.vectors, e.indexed.Stamp)
		}
	}
}

// forget removes all records of a key.
func (m *memory) forget(name, key string) {
	s := m.byName[name]
	if s == nil {
		return
	}
	line := s.lines[key]
	if len(line) == 0 {
		return
	}
	m.retire(line[len(line)-1])
	m.trim(s, key, 0)
	delete(s.lines, key)
	m.tidy(s)
}

func (m *memory) forgetAll(w *Write, now time.Time) *Record {
	for _, s := range slices.Clone(m.under(w.Namespace)) {
		for key := range s.lines {
			m.forget(s.name, key)
		}
	}
	// It belongs to no key, so it is in the log alone.
	m.seq++
	r := &Record{Seq: m.seq, Kind: Forgotten, Namespace: w.Namespace, Updated: now}
	m.log = append(m.log, &entry{record: r})
	return r
}

// announce wakes those who wait.
func (m *memory) announce() {
	close(m.changed)
	m.changed = make(chan struct{})
}
