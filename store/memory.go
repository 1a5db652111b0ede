package store

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/treadle-go/treadle/internal/vecindex"
)

// NewMemoryBackend returns a backend that keeps everything in memory. [NewMemory] uses
// it, and test suites compare other backends with it.
func NewMemoryBackend() Backend {
	return &memory{
		byName:      map[string]*space{},
		vectors:     map[string]*vecindex.Index{},
		indexed:     map[int64]*entry{},
		changed:     make(chan struct{}),
		searchSlots: make(chan struct{}, runtime.GOMAXPROCS(0)),
		few:         fewItems,
	}
}

// memory keeps all records in order of Seq, and also by namespace for searches and
// gets.
type memory struct {
	// searchSlots limits the number of searches that hold mu concurrently. A writer
	// waits for them, and running more searches than processors only slows all of them
	// down.
	searchSlots chan struct{}
	few         int // a search examines up to this many items one by one
	mu          sync.RWMutex
	seq         int64
	swept       int64    // greatest Seq of a current record dropped by a sweep
	log         []*entry // by Seq, including removed entries
	removed     int      // number of removed entries in log
	byName      map[string]*space
	spaces      []*space                   // by name
	vectors     map[string]*vecindex.Index // vectors of the current records, by stamp
	indexed     map[int64]*entry           // the entries in vectors, by Seq
	changed     chan struct{}              // closed and replaced when a record is added
}

// entry is a record with its positions. The record is shared with readers, so it is
// replaced, never modified.
type entry struct {
	record  *Record
	indexed Indexed
	length  int // in words
	space   *space
	at      int  // index in space.items
	removed bool // from the log
	old     bool // no longer the current entry of its key
}

// Do implements [Backend].
func (m *memory) Do(ctx context.Context, b *Batch) (*Results, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(b.Searches) > 0 {
		select {
		case m.searchSlots <- struct{}{}:
			defer func() { <-m.searchSlots }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if len(b.Writes) == 0 {
		m.mu.RLock()
		r := reading{memory: m, batch: b}
		if b.Until > 1 && b.Until <= m.swept {
			r.gone = &GoneError{Version: b.Until - 1}
		}
		results := r.all()
		m.mu.RUnlock()
		if r.gone != nil {
			return nil, r.gone
		}
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

// live returns the entry of an item that is live at now, or nil.
func (m *memory) live(n Namespace, key string, now time.Time) *entry {
	s := m.byName[n.Encode()]
	if s == nil {
		return nil
	}
	versions := s.versions[key]
	if len(versions) == 0 || !versions[len(versions)-1].record.Live(now) {
		return nil
	}
	return versions[len(versions)-1]
}

func (m *memory) write(b *Batch) []*Record {
	if len(b.Writes) == 0 {
		return nil
	}
	records := make([]*Record, len(b.Writes))
	for i := range b.Writes {
		w := &b.Writes[i]
		switch {
		case w.Times != nil:
			r := &Record{Kind: w.Kind, Created: w.Times.Created, Updated: w.Times.Updated, Expires: w.Times.Expires}
			if w.Kind == Put {
				r.TTL = w.TTL
				r.Value = w.Value
				r.Meta = w.Meta
				r.Paths = w.Indexed.Paths
			}
			records[i] = m.add(w, r)
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
	m.notifyWaiters()
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
	versions := s.versions[w.Key]
	if len(versions) > 0 {
		m.retire(versions[len(versions)-1])
	}
	s.versions[w.Key] = append(versions, e)
	m.trim(s, w.Key, w.Keep)
	if r.Kind == Put {
		s.add(e)
		m.addVectors(e)
	}
	return r
}

// trim keeps the newest keep records of a key.
func (m *memory) trim(s *space, key string, keep int) {
	versions := s.versions[key]
	gone := max(0, len(versions)-keep)
	for _, e := range versions[:gone] {
		m.drop(e)
	}
	s.versions[key] = slices.Delete(versions, 0, gone)
}

// drop removes an entry from the log. The caller removes it from its namespace.
func (m *memory) drop(e *entry) {
	e.removed = true
	m.removed++
	if m.removed > 1000 && m.removed > len(m.log)/2 {
		m.log = slices.DeleteFunc(m.log, func(e *entry) bool { return e.removed })
		m.removed = 0
	}
}

// retire marks an entry as no longer current.
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
	versions := s.versions[key]
	if len(versions) == 0 {
		return
	}
	m.retire(versions[len(versions)-1])
	m.trim(s, key, 0)
	delete(s.versions, key)
	m.removeEmpty(s)
}

func (m *memory) forgetAll(w *Write, now time.Time) *Record {
	for _, s := range slices.Clone(m.under(w.Namespace)) {
		for key := range s.versions {
			m.forget(s.name, key)
		}
	}
	// The record belongs to no key, so only the log contains it.
	m.seq++
	r := &Record{Seq: m.seq, Kind: Forgotten, Namespace: w.Namespace, Updated: now}
	m.log = append(m.log, &entry{record: r})
	return r
}

// notifyWaiters wakes all callers of Wait.
func (m *memory) notifyWaiters() {
	close(m.changed)
	m.changed = make(chan struct{})
}
