package thirdparty

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/treadle-go/treadle/store"
)

// Backend is a [store.Backend] in memory without any index: a search reads every item.
type Backend struct {
	mu      sync.Mutex
	seq     int64               // of the newest record
	swept   int64               // greatest Seq of a current record dropped by a sweep
	log     []*entry            // all records, by Seq
	keys    map[string][]*entry // the records of each key, oldest first; see keyOf
	changed chan struct{}       // closed and replaced when a record is added
}

// entry is a record with its index entry. Readers share the record, so a change replaces it.
type entry struct {
	*store.Record
	indexed store.Indexed
}

// NewBackend returns an empty Backend.
func NewBackend() *Backend {
	return &Backend{keys: map[string][]*entry{}, changed: make(chan struct{})}
}

// keyOf returns the map key of an item. An encoded namespace contains no NUL.
func keyOf(n store.Namespace, key string) string { return n.Encode() + "\x00" + key }

func newerFirst(a, b *entry) int { return cmp.Compare(b.Seq, a.Seq) }

// Do implements [store.Backend].
func (b *Backend) Do(ctx context.Context, batch *store.Batch) (*store.Results, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if batch.Until > 1 && batch.Until <= b.swept {
		return nil, &store.GoneError{Version: batch.Until - 1}
	}
	for _, w := range batch.Writes {
		if w.If == nil {
			continue
		}
		var have int64
		if e := b.live(w.Namespace, w.Key, batch.Now); e != nil {
			have = e.Seq
		}
		if have != *w.If {
			return nil, &store.ConflictError{Namespace: w.Namespace, Key: w.Key, Want: *w.If, Have: have}
		}
	}
	r := &reader{Backend: b, batch: batch, refreshed: map[*entry]*store.Record{}}
	results := r.read()
	if r.gone != nil {
		return nil, r.gone
	}
	for e, fresh := range r.refreshed { // after all reads, so that no read sees a refresh
		e.Record = fresh
	}
	for i := range batch.Writes {
		results.Writes = append(results.Writes, b.write(&batch.Writes[i], batch.Now))
	}
	return results, nil
}

// live returns the current entry of a key if the item is live, or nil.
func (b *Backend) live(n store.Namespace, key string, now time.Time) *entry {
	all := b.keys[keyOf(n, key)]
	if len(all) == 0 || !all[len(all)-1].Live(now) {
		return nil
	}
	return all[len(all)-1]
}

// write performs a write and returns the new record, or nil if nothing changed.
func (b *Backend) write(w *store.Write, now time.Time) *store.Record {
	before := b.live(w.Namespace, w.Key, now)
	r := &store.Record{Kind: w.Kind, Namespace: w.Namespace, Key: w.Key, Updated: now}
	switch {
	case w.Times != nil:
		r.Created, r.Updated, r.Expires = w.Times.Created, w.Times.Updated, w.Times.Expires
	case w.Kind == store.Forgotten && w.Key == "":
		b.drop(func(e *entry) bool { return e.Key != "" && e.Namespace.HasPrefix(w.Namespace) })
	case w.Kind == store.Forgotten:
		b.drop(func(e *entry) bool { return e.Key == w.Key && slices.Equal(e.Namespace, w.Namespace) })
	case w.Kind == store.Deleted:
		if before == nil {
			return nil
		}
	default:
		r.Created = now
		if before != nil {
			r.Created = before.Created
		}
		if w.TTL > 0 {
			r.Expires = now.Add(w.TTL)
		}
	}
	if w.Kind == store.Put {
		r.TTL = w.TTL
		r.Value = w.Value
		r.Meta = w.Meta
		r.Paths = w.Indexed.Paths
	}
	b.add(r, w.Indexed, w.Keep)
	return r
}

// add makes r the current record of its key, which keeps the given number of records. It
// returns the number of removed records.
func (b *Backend) add(r *store.Record, indexed store.Indexed, keep int) (removed int) {
	b.seq++
	r.Seq = b.seq
	e := &entry{r, indexed}
	b.log = append(b.log, e)
	if r.Key != "" { // a record without a key belongs to no item
		at := keyOf(r.Namespace, r.Key)
		b.keys[at] = append(b.keys[at], e)
		removed = len(b.keys[at]) - keep
		if removed > 0 {
			last := b.keys[at][removed-1].Seq
			b.drop(func(e *entry) bool { return e.Seq <= last && e.Key == r.Key && slices.Equal(e.Namespace, r.Namespace) })
		}
	}
	close(b.changed)
	b.changed = make(chan struct{})
	return max(0, removed)
}

// drop removes records and returns their number.
func (b *Backend) drop(gone func(*entry) bool) int {
	n := len(b.log)
	touched := map[string]bool{}
	b.log = slices.DeleteFunc(b.log, func(e *entry) bool {
		if !gone(e) {
			return false
		}
		touched[keyOf(e.Namespace, e.Key)] = true
		return true
	})
	for at := range touched {
		kept := slices.DeleteFunc(b.keys[at], gone)
		if len(kept) == 0 {
			delete(b.keys, at)
		} else {
			b.keys[at] = kept
		}
	}
	return n - len(b.log)
}

// History implements [store.Backend].
func (b *Backend) History(ctx context.Context, n store.Namespace, key string) ([]*store.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []*store.Record
	for _, e := range slices.Backward(b.keys[keyOf(n, key)]) {
		out = append(out, e.Record)
	}
	return out, nil
}

// Changes implements [store.Backend].
func (b *Backend) Changes(ctx context.Context, prefix store.Namespace, after int64, limit int) ([]*store.Record, int64, error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if after != 0 && after < b.swept {
		return nil, 0, store.ErrCompacted
	}
	var out []*store.Record
	for _, e := range b.log {
		if limit == 0 {
			break
		}
		if e.Seq > after && (e.Namespace.HasPrefix(prefix) || e.Key == "" && prefix.HasPrefix(e.Namespace)) {
			if out = append(out, e.Record); len(out) == limit {
				return out, e.Seq, nil
			}
		}
	}
	return out, b.seq, nil
}

// Wait implements [store.Backend].
func (b *Backend) Wait(ctx context.Context, seq int64) error {
	b.mu.Lock()
	now, changed := b.seq, b.changed
	b.mu.Unlock()
	if now > seq {
		return nil
	}
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Sweep implements [store.Backend].
func (b *Backend) Sweep(ctx context.Context, s store.Sweep) (expired, dropped int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var due []*entry
	for _, all := range b.keys {
		if e := all[len(all)-1]; e.Kind == store.Put && !e.Live(s.Now) {
			due = append(due, e)
		}
	}
	slices.SortFunc(due, func(a, b *entry) int { return newerFirst(b, a) })
	for _, e := range due {
		dropped += b.add(&store.Record{Kind: store.Expired, Namespace: e.Namespace, Key: e.Key, Updated: s.Now}, store.Indexed{}, s.Keep)
	}
	if s.Before.IsZero() {
		return len(due), dropped, nil
	}
	gone := map[*entry]bool{}
	end := func(current *entry) { // of an item, or of several
		if current.Kind != store.Put && current.Updated.Before(s.Before) {
			gone[current], b.swept = true, max(b.swept, current.Seq)
		}
	}
	for _, all := range b.keys {
		for i, next := range all[1:] {
			gone[all[i]] = next.Updated.Before(s.Before)
		}
		end(all[len(all)-1])
	}
	for _, e := range b.log {
		if e.Key == "" {
			end(e)
		}
	}
	return len(due), dropped + b.drop(func(e *entry) bool { return gone[e] }), nil
}

// Stale implements [store.Backend].
func (b *Backend) Stale(ctx context.Context, stamp string, after int64, limit int) ([]*store.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []*store.Record
	for _, e := range b.log {
		if len(out) < limit && e.Seq > after && e.Kind == store.Put && e.indexed.Stamp != "" && e.indexed.Stamp != stamp {
			out = append(out, e.Record)
		}
	}
	return out, nil
}

// Stamps implements [store.Backend].
func (b *Backend) Stamps(ctx context.Context) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
	for _, e := range b.log {
		if stamp := e.indexed.Stamp; stamp != "" && !slices.Contains(out, stamp) {
			out = append(out, stamp)
		}
	}
	return out, nil
}

// Reindex implements [store.Backend].
func (b *Backend) Reindex(ctx context.Context, by map[int64]store.Indexed) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.log {
		if indexed, ok := by[e.Seq]; ok {
			e.indexed = indexed
		}
	}
	return nil
}
