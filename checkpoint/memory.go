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
	"strings"
	"sync"
	"time"
)

// Memory is a [Saver] that keeps checkpoints in memory. Use [NewMemory] to create one.
type Memory struct {
	cache *MemoryCache

	mu      sync.RWMutex
	threads map[string]*thread
}

type thread struct {
	epoch uint64 // epoch of the newest writer; see Fencer
	lines map[string]*line
	bytes int64 // cached size, or -1 after a change
}

// written records a change by a writer with the given fence.
func (t *thread) written(fence uint64) {
	t.epoch = max(t.epoch, fence)
	t.bytes = -1
}

// line is one namespace of a thread.
type line struct {
	order []*record // by ID, oldest first
	byID  map[ID]*record
	head  ID
}

// record is a saved checkpoint. Every field except pending is immutable, and unchanged
// values are shared with the parent's record.
type record struct {
	put     Put
	names   []string // cell names; shared by records with the same channels
	cells   []cell
	pending []Write
}

// cell is the value of one channel. A list is a chain of links, one per change, each
// pointing to its predecessor. Forks share links, so nothing is copied.
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
	return &Memory{cache: NewMemoryCache(), threads: map[string]*thread{}}
}

// Cache implements [Cacher].
func (m *Memory) Cache() Cache { return m.cache }

// Put implements [Saver].
func (m *Memory) Put(_ context.Context, p *Put) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fenced(p.Thread, p.Fence); err != nil {
		return err
	}
	l := m.line(p.Key)
	var head ID
	if l != nil {
		head = l.head
	}
	if head != p.Head {
		return fmt.Errorf("%w: thread %q is at %s, but the put expects %s", ErrConflict, p.Thread, head, p.Head)
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
		return fmt.Errorf("%w: ID %s does not follow %s", ErrConflict, p.ID, head)
	}
	if l == nil {
		l = &line{byID: map[ID]*record{}}
		m.thread(p.Thread).lines[p.Namespace] = l
	}
	m.threads[p.Thread].written(p.Fence)
	r := &record{put: *p, pending: slices.Clone(p.Pending)}
	r.put.Pending = nil
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

func (m *Memory) line(k Key) *line {
	if t := m.threads[k.Thread]; t != nil {
		return t.lines[k.Namespace]
	}
	return nil
}

// thread returns the named thread, creating it if necessary.
func (m *Memory) thread(name string) *thread {
	t := m.threads[name]
	if t == nil {
		t = &thread{lines: map[string]*line{}}
		m.threads[name] = t
	}
	return t
}

// fenced returns ErrFenced if fence is older than the thread's epoch.
func (m *Memory) fenced(name string, fence uint64) error {
	if t := m.threads[name]; t != nil && fence < t.epoch {
		return fmt.Errorf("%w: thread %q is at epoch %d, but the writer is at %d", ErrFenced, name, t.epoch, fence)
	}
	return nil
}

// Scrub implements [Scrubber]. It does nothing, because a Memory has no files.
func (m *Memory) Scrub(ctx context.Context) error { return ctx.Err() }

// Fence implements [Fencer].
func (m *Memory) Fence(_ context.Context, name string, epoch uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.thread(name)
	if epoch <= t.epoch {
		return fmt.Errorf("%w: thread %q is at epoch %d, not below %d", ErrFenced, name, t.epoch, epoch)
	}
	t.epoch = epoch
	return nil
}

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
func (m *Memory) PutWrites(_ context.Context, at Key, fence uint64, writes []Write) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fenced(at.Thread, fence); err != nil {
		return err
	}
	r := m.record(at)
	if r == nil {
		return fmt.Errorf("%w: %s in thread %q", ErrNotFound, at.ID, at.Thread)
	}
	for _, w := range writes {
		same := func(o Write) bool {
			return o.Task == w.Task && o.Kind == w.Kind && (o.RunID == w.RunID || w.Kind == Done)
		}
		if i := slices.IndexFunc(r.pending, same); i >= 0 {
			r.pending[i] = w
		} else {
			r.pending = append(r.pending, w)
		}
	}
	m.threads[at.Thread].written(fence)
	return nil
}

// record returns a checkpoint, or the head if k.ID is zero. It returns nil if none
// exists.
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

// checkpoint returns a copy of r that the caller may modify.
func (r *record) checkpoint() *Checkpoint {
	c := &Checkpoint{
		Key: r.put.Key, Parent: r.put.Parent, Step: r.put.Step, Source: r.put.Source, RunID: r.put.RunID,
		Metadata: bytes.Clone(r.put.Metadata), Control: bytes.Clone(r.put.Control), Pending: latest(r.pending),
		Values: make(map[string]Value, len(r.cells)),
	}
	for i := range c.Pending {
		c.Pending[i].Data = bytes.Clone(c.Pending[i].Data)
	}
	for i, at := range r.cells {
		v := Value{Version: at.version, Data: bytes.Clone(at.data)}
		if at.list != nil {
			v.List, v.Items = true, at.list.elements()
		}
		if v.List || v.Data != nil {
			c.Values[r.names[i]] = v
		}
	}
	return c
}

// latest returns the visible writes: for each task and kind, the last write, at the
// position of the first.
func latest(all []Write) []Write {
	type name struct {
		task string
		kind WriteKind
	}
	out := make([]Write, 0, len(all))
	at := make(map[name]int, len(all))
	for _, w := range all {
		k := name{w.Task, w.Kind}
		if i, ok := at[k]; ok {
			out[i] = w
			continue
		}
		at[k] = len(out)
		out = append(out, w)
	}
	return out
}

// elements returns the elements of the list, built from the first link on. The elements
// are copies that share one allocation.
func (l *link) elements() [][]byte {
	var chain []*link
	for ; l != nil; l = l.prev {
		chain = append(chain, l)
	}
	out := [][]byte{}
	for _, l := range slices.Backward(chain) {
		out = append(out[:max(0, len(out)-l.drop)], l.items...)
	}
	size := 0
	for _, item := range out {
		size += len(item)
	}
	all := make([]byte, 0, size)
	for i, item := range out {
		from := len(all)
		all = append(all, item...)
		out[i] = all[from:len(all):len(all)]
	}
	return out
}

// List implements [Saver].
func (m *Memory) List(_ context.Context, q Query) iter.Seq2[*Checkpoint, error] {
	return func(yield func(*Checkpoint, error) bool) {
		want, err := filter(q.Metadata)
		if err != nil {
			yield(nil, err)
			return
		}
		m.mu.RLock()
		var order []*record
		if l := m.line(Key{Thread: q.Thread, Namespace: q.Namespace}); l != nil {
			order = slices.Clip(l.order) // later records are appended after these
		}
		m.mu.RUnlock()
		n := 0
		for _, r := range slices.Backward(order) {
			if !q.Before.IsZero() && bytes.Compare(r.put.ID[:], q.Before[:]) >= 0 || !matches(r.put.Metadata, want) {
				continue
			}
			m.mu.RLock()
			c := r.checkpoint()
			m.mu.RUnlock()
			if !yield(c, nil) {
				return
			}
			n++
			if n == q.Limit {
				return
			}
		}
	}
}

// filter normalizes the wanted values through JSON, so that 1 and 1.0 compare equal.
func filter(want map[string]any) (map[string]any, error) {
	out := make(map[string]any, len(want))
	for _, k := range slices.Sorted(maps.Keys(want)) {
		raw, err := json.Marshal(want[k])
		if err != nil {
			return nil, fmt.Errorf("metadata %q: value cannot be encoded as JSON: %w", k, err)
		}
		var norm any
		if err := json.Unmarshal(raw, &norm); err != nil {
			return nil, fmt.Errorf("metadata %q: %w", k, err)
		}
		out[k] = norm
	}
	return out, nil
}

// matches reports whether the metadata contains all wanted values.
func matches(metadata json.RawMessage, want map[string]any) bool {
	if len(want) == 0 {
		return true
	}
	var have map[string]any
	if json.Unmarshal(metadata, &have) != nil {
		return false
	}
	for k, v := range want {
		if got, ok := have[k]; !ok || !reflect.DeepEqual(got, v) {
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

// Prune implements [Pruner].
func (m *Memory) Prune(_ context.Context, name string, keep Retention) (removed int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.threads[name]
	if t == nil {
		return 0, fmt.Errorf("%w: thread %q", ErrNotFound, name)
	}
	t.bytes = -1
	for _, l := range t.lines {
		oldest := time.Now().Add(-keep.MaxAge)
		removed += l.remove(func(i int, r *record) bool {
			return r.put.ID != l.head &&
				len(l.order)-i > keep.KeepLast &&
				(keep.MaxAge == 0 || r.put.ID.Time().Before(oldest)) &&
				(!keep.KeepInterrupted || !r.interrupted())
		})
	}
	return removed, nil
}

func (r *record) interrupted() bool {
	return slices.ContainsFunc(r.pending, func(w Write) bool { return w.Kind == Paused || w.Kind == Answers })
}

// remove removes the records that gone selects. The remaining records are unaffected,
// because each holds the list links that it needs.
func (l *line) remove(gone func(i int, r *record) bool) int {
	kept := make([]*record, 0, len(l.order)) // readers may hold the old slice
	for i, r := range l.order {
		if gone(i, r) {
			delete(l.byID, r.put.ID)
		} else {
			kept = append(kept, r)
		}
	}
	n := len(l.order) - len(kept)
	l.order = kept
	return n
}

// CopyThread implements [Copier].
func (m *Memory) CopyThread(_ context.Context, from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	src := m.threads[from]
	if src == nil {
		return fmt.Errorf("%w: thread %q", ErrNotFound, from)
	}
	if m.threads[to] != nil {
		return fmt.Errorf("%w: thread %q exists", ErrConflict, to)
	}
	dst := m.thread(to)
	dst.bytes = -1
	for ns, l := range src.lines {
		c := &line{byID: make(map[ID]*record, len(l.order)), head: l.head}
		for _, r := range l.order {
			rc := *r
			rc.put.Thread, rc.pending = to, slices.Clone(r.pending)
			c.order = append(c.order, &rc)
			c.byID[rc.put.ID] = &rc
		}
		dst.lines[ns] = c
	}
	return nil
}

// DeleteRuns implements [RunDeleter].
func (m *Memory) DeleteRuns(_ context.Context, name string, runs []string) (removed int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.threads[name]
	if t == nil {
		return 0, nil
	}
	t.bytes = -1
	gone := func(run string) bool { return run != "" && slices.Contains(runs, run) }
	for ns, l := range t.lines {
		removed += l.remove(func(_ int, r *record) bool { return gone(r.put.RunID) })
		if len(l.order) == 0 {
			delete(t.lines, ns)
			continue
		}
		if l.byID[l.head] == nil {
			l.head = l.order[len(l.order)-1].put.ID
		}
		for _, r := range l.order {
			r.pending = slices.DeleteFunc(r.pending, func(w Write) bool { return gone(w.RunID) })
		}
	}
	if len(t.lines) == 0 && t.epoch == 0 {
		delete(m.threads, name)
	}
	return removed, nil
}

// Size implements [Sizer]. It counts the bytes of control data, metadata, pending
// writes, and values; a value shared by several checkpoints counts once.
func (m *Memory) Size(_ context.Context, name string) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.threads[name]
	if t == nil {
		return 0, fmt.Errorf("%w: thread %q", ErrNotFound, name)
	}
	return t.size(), nil
}

// size returns the size of the thread, recounting it after a change.
func (t *thread) size() int64 {
	if t.bytes < 0 {
		t.bytes = t.count()
	}
	return t.bytes
}

func (t *thread) count() (n int64) {
	data, links := map[*byte]bool{}, map[*link]bool{}
	for _, l := range t.lines {
		for _, r := range l.order {
			n += int64(len(r.put.Control) + len(r.put.Metadata))
			for _, w := range r.pending {
				n += int64(len(w.Data))
			}
			for i := range r.cells {
				if d := r.cells[i].data; len(d) > 0 && !data[&d[0]] {
					data[&d[0]] = true
					n += int64(len(d))
				}
				for k := r.cells[i].list; k != nil && !links[k]; k = k.prev {
					links[k] = true
					for _, item := range k.items {
						n += int64(len(item))
					}
				}
			}
		}
	}
	return n
}

// Threads implements [ThreadLister].
func (m *Memory) Threads(context.Context) iter.Seq2[Thread, error] {
	return func(yield func(Thread, error) bool) {
		m.mu.Lock()
		all := make([]Thread, 0, len(m.threads))
		for name, t := range m.threads {
			info := Thread{Name: name, Bytes: t.size()}
			for ns, l := range t.lines {
				info.Checkpoints += len(l.order)
				if ns == "" {
					info.Head = l.head
				}
			}
			all = append(all, info)
		}
		m.mu.Unlock()
		slices.SortFunc(all, func(a, b Thread) int { return strings.Compare(a.Name, b.Name) })
		for _, t := range all {
			if !yield(t, nil) {
				return
			}
		}
	}
}

// MemoryCache is an in-memory [Cache].
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
	return bytes.Clone(e.value), ok, nil
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
