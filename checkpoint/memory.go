package checkpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"
)

// Memory is a Saver that lives in the process. Its zero value is not usable;
// see [NewMemory].
type Memory struct {
	cache *MemoryCache

	mu      sync.RWMutex
	threads map[string]map[string]*line // thread, namespace
}

// line is one namespace of one thread.
type line struct {
	order []*record // by id, oldest first
	byID  map[ID]*record
	head  ID
}

// record is a stored checkpoint. Everything but pending is immutable, and
// values are shared with the parent's record wherever they did not change.
type record struct {
	put     Put
	names   []string // of the cells; shared by records with the same channels
	cells   []cell
	pending []Write
}

// cell is the value of one channel. A list is the chain of what its steps did
// to it, each link naming the one before: forks share links, nothing is copied.
type cell struct {
	version uint64
	data    []byte
	list    *link
}

type link struct {
	prev  *link
	drop  int
	items [][]byte
}

// NewMemory returns an empty Memory.
func NewMemory() *Memory {
	return &Memory{cache: NewMemoryCache(), threads: map[string]map[string]*line{}}
}

// Cache implements [Cacher].
func (m *Memory) Cache() Cache { return m.cache }

// Put implements [Saver].
func (m *Memory) Put(_ context.Context, p *Put) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.line(p.Key)
	var head ID
	if l != nil {
		head = l.head
	}
	if head != p.Head {
		return fmt.Errorf("%w: thread %q has %s, the put expected %s", ErrConflict, p.Thread, head, p.Head)
	}
	var parent *record
	if !p.Parent.IsZero() {
		if l != nil {
			parent = l.byID[p.Parent]
		}
		if parent == nil {
			return fmt.Errorf("%w: parent %s in thread %q", ErrNotFound, p.Parent, p.Thread)
		}
	}
	if p.ID.IsZero() || bytes.Compare(p.ID[:], head[:]) <= 0 {
		return fmt.Errorf("%w: id %s does not follow %s", ErrConflict, p.ID, head)
	}
	if l == nil {
		l = &line{byID: map[ID]*record{}}
		if m.threads[p.Thread] == nil {
			m.threads[p.Thread] = map[string]*line{}
		}
		m.threads[p.Thread][p.Namespace] = l
	}
	r := &record{put: *p}
	r.inherit(parent)
	for i := range p.Changes {
		r.apply(&p.Changes[i])
	}
	r.put.Changes = nil
	if parent != nil {
		parent.pending = slices.DeleteFunc(parent.pending, func(w Write) bool { return w.Kind == Done })
	}
	l.order = append(l.order, r)
	l.byID[p.ID] = r
	l.head = p.ID
	return nil
}

func (m *Memory) line(k Key) *line { return m.threads[k.Thread][k.Namespace] }

func (r *record) inherit(parent *record) {
	if parent == nil {
		return
	}
	r.names = parent.names
	r.cells = slices.Clone(parent.cells)
}

func (r *record) apply(c *Change) {
	i := slices.Index(r.names, c.Channel)
	if i < 0 {
		i = len(r.names)
		r.names = append(slices.Clip(r.names), c.Channel)
		r.cells = append(r.cells, cell{})
	}
	at := &r.cells[i]
	at.version = c.Version
	switch {
	case c.Clear:
		at.data, at.list = nil, nil
	case c.List:
		at.data, at.list = nil, &link{prev: at.list, drop: c.Drop, items: c.Items}
	default:
		at.data, at.list = c.Data, nil
	}
}

// PutWrites implements [Saver].
func (m *Memory) PutWrites(_ context.Context, at Key, writes []Write) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.record(at)
	if r == nil {
		return fmt.Errorf("%w: %s in thread %q", ErrNotFound, at.ID, at.Thread)
	}
	pending := slices.Clone(r.pending) // a reader may hold the old slice
	for _, w := range writes {
		same := func(o Write) bool { return o.Task == w.Task && o.Kind == w.Kind }
		if i := slices.IndexFunc(pending, same); i >= 0 {
			pending[i] = w
		} else {
			pending = append(pending, w)
		}
	}
	r.pending = pending
	return nil
}

// record finds a checkpoint, the head if k names no id, or nil.
func (m *Memory) record(k Key) *record {
	l := m.line(k)
	if l == nil {
		return nil
	}
	if k.ID.IsZero() {
		return l.byID[l.head]
	}
	return l.byID[k.ID]
}

// Get implements [Saver].
func (m *Memory) Get(_ context.Context, key Key) (*Checkpoint, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	r := m.record(key)
	if r == nil {
		return nil, fmt.Errorf("%w: thread %q, namespace %q, id %q", ErrNotFound, key.Thread, key.Namespace, key.ID)
	}
	return r.checkpoint(), nil
}

func (r *record) checkpoint() *Checkpoint {
	c := &Checkpoint{
		Key: r.put.Key, Parent: r.put.Parent, Step: r.put.Step, Source: r.put.Source, RunID: r.put.RunID,
		Metadata: r.put.Metadata, Control: r.put.Control, Pending: slices.Clone(r.pending),
		Values: make(map[string]Value, len(r.cells)),
	}
	for i, at := range r.cells {
		v := Value{Version: at.version, Data: at.data}
		if at.list != nil {
			v.List, v.Items = true, at.list.elements()
		}
		if v.List || v.Data != nil {
			c.Values[r.names[i]] = v
		}
	}
	return c
}

// elements walks the chain from its first link.
func (l *link) elements() [][]byte {
	var chain []*link
	for ; l != nil; l = l.prev {
		chain = append(chain, l)
	}
	out := [][]byte{}
	for _, l := range slices.Backward(chain) {
		out = append(out[:max(0, len(out)-l.drop)], l.items...)
	}
	return out
}

// List implements [Saver].
func (m *Memory) List(_ context.Context, q Query) iter.Seq2[*Checkpoint, error] {
	return func(yield func(*Checkpoint, error) bool) {
		m.mu.RLock()
		var order []*record
		if l := m.line(Key{Thread: q.Thread, Namespace: q.Namespace}); l != nil {
			order = l.order[:len(l.order):len(l.order)] // records are only ever added behind these
		}
		m.mu.RUnlock()
		n := 0
		for _, r := range slices.Backward(order) {
			if !q.Before.IsZero() && bytes.Compare(r.put.ID[:], q.Before[:]) >= 0 || !matches(r.put.Metadata, q.Metadata) {
				continue
			}
			m.mu.RLock()
			c := r.checkpoint()
			m.mu.RUnlock()
			if !yield(c, nil) {
				return
			}
			if n++; n == q.Limit {
				return
			}
		}
	}
}

// matches compares as JSON, so that 1 and 1.0 are one number.
func matches(metadata json.RawMessage, want map[string]any) bool {
	if len(want) == 0 {
		return true
	}
	var have map[string]any
	if json.Unmarshal(metadata, &have) != nil {
		return false
	}
	for k, v := range want {
		raw, err := json.Marshal(v)
		if err != nil {
			return false
		}
		var norm any
		if json.Unmarshal(raw, &norm) != nil || !reflect.DeepEqual(have[k], norm) {
			return false
		}
	}
	return true
}

// DeleteThread implements [Saver].
func (m *Memory) DeleteThread(_ context.Context, thread string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.threads, thread)
	return nil
}

// MemoryCache is a [Cache] that lives in the process.
type MemoryCache struct {
	mu     sync.Mutex
	spaces map[string]map[string]entry
}

type entry struct {
	value   []byte
	expires time.Time // zero: never
}

// NewMemoryCache returns an empty MemoryCache.
func NewMemoryCache() *MemoryCache { return &MemoryCache{spaces: map[string]map[string]entry{}} }

// Get implements [Cache].
func (c *MemoryCache) Get(_ context.Context, space, key string) ([]byte, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.spaces[space][key]
	if ok && !e.expires.IsZero() && !time.Now().Before(e.expires) {
		delete(c.spaces[space], key)
		return nil, false, nil
	}
	return e.value, ok, nil
}

// Set implements [Cache].
func (c *MemoryCache) Set(_ context.Context, space, key string, value []byte, ttl time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.spaces[space] == nil {
		c.spaces[space] = map[string]entry{}
	}
	e := entry{value: bytes.Clone(value)}
	if ttl > 0 {
		e.expires = time.Now().Add(ttl)
	}
	c.spaces[space][key] = e
	return nil
}

// Clear implements [Cache].
func (c *MemoryCache) Clear(_ context.Context, spaces ...string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(spaces) == 0 {
		clear(c.spaces)
	}
	maps.DeleteFunc(c.spaces, func(space string, _ map[string]entry) bool { return slices.Contains(spaces, space) })
	return nil
}
