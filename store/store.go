package store

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

// A Store keeps items. It is safe for concurrent use. The methods of a nil Store return
// [ErrNoStore].
type Store struct {
	backend Backend
	opts    Options
	stamp   string // see Indexed.Stamp
	fields  []path
	cache   *vectorCache
	fresh   *freshness
	branch  *overlay // the backend of a branch; nil for the trunk
	trunk   *Store   // for a branch: the store that it belongs to
}

// New returns a store that keeps its items in backend.
func New(backend Backend, opts *Options) (*Store, error) {
	if backend == nil {
		return nil, &InvalidError{What: "backend", Reason: "is nil: pass a backend, or use NewMemory"}
	}
	s := &Store{backend: backend}
	if opts != nil {
		s.opts = *opts
	}
	if err := s.opts.check(); err != nil {
		return nil, err
	}
	s.opts.Fields = slices.Clone(s.opts.Fields)
	if s.opts.Fields == nil {
		s.opts.Fields = []string{"$"}
	}
	if s.opts.History == 0 {
		s.opts.History = defaultHistory
	}
	if s.opts.Logger == nil {
		s.opts.Logger = slog.Default()
	}
	if s.opts.Now == nil {
		s.opts.Now = time.Now
	}
	if len(s.opts.Keys) > 0 {
		var err error
		if s.backend, err = Encrypted(backend, s.opts.Keys...); err != nil {
			return nil, err
		}
	}
	s.fields = mustPaths(s.opts.Fields)
	s.stamp = stampOf(&s.opts)
	s.cache = newVectorCache()
	s.fresh = &freshness{lock: make(chan struct{}, 1)}
	return s, nil
}

// NewMemory returns an in-memory store, whose items are lost when the process ends.
func NewMemory(opts *Options) (*Store, error) { return New(NewMemoryBackend(), opts) }

// ready returns an error for a nil store or a nil context.
func (s *Store) ready(ctx context.Context) error {
	switch {
	case s == nil:
		return ErrNoStore
	case ctx == nil:
		return &InvalidError{What: "context", Reason: "is nil: pass context.Background()"}
	}
	return nil
}

// Embeds reports whether the store has an embedder and thus supports semantic search.
func (s *Store) Embeds() bool { return s != nil && s.opts.Embedder != nil }

// Get returns the item under key. It returns ErrNotFound if the item does not exist.
func (s *Store) Get(ctx context.Context, n Namespace, key string, opts *GetOptions) (*Item, error) {
	return one(s.do(ctx, time.Time{}, GetOp{n, key, deref(opts)})).get(n, key)
}

// Put stores value under key, replacing any existing item. The value must marshal to a
// JSON object: a struct, a map, or a json.RawMessage.
func (s *Store) Put(ctx context.Context, n Namespace, key string, value any, opts *PutOptions) error {
	return one(s.do(ctx, time.Time{}, PutOp{n, key, value, deref(opts)})).err
}

// Delete removes the item under key, if it exists. The item's history is kept.
func (s *Store) Delete(ctx context.Context, n Namespace, key string, opts *DeleteOptions) error {
	return one(s.do(ctx, time.Time{}, DeleteOp{n, key, deref(opts)})).err
}

// Search returns items in the namespaces under prefix. With a query, the best items
// come first. Without one, it returns the newest items, ordered from oldest to newest.
// A query never finds items that were put with NoIndex.
func (s *Store) Search(ctx context.Context, prefix Namespace, opts *SearchOptions) ([]*Item, error) {
	r := one(s.do(ctx, time.Time{}, SearchOp{prefix, deref(opts)}))
	return r.Items, r.err
}

// Namespaces lists the namespaces that contain items, in order.
func (s *Store) Namespaces(ctx context.Context, opts *NamespacesOptions) ([]Namespace, error) {
	r := one(s.do(ctx, time.Time{}, NamespacesOp{deref(opts)}))
	return r.Namespaces, r.err
}

// Batch performs several operations in one transaction: all reads see the state before
// the writes, and if one operation fails, nothing is written. If several writes have
// the same key, the last wins. The results are in the order of ops.
func (s *Store) Batch(ctx context.Context, ops ...Op) ([]Result, error) {
	return s.do(ctx, time.Time{}, ops...)
}

// History returns the changes of the item under key, newest first. [Options] limits the
// number and age of the changes kept.
func (s *Store) History(ctx context.Context, n Namespace, key string) ([]Change, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	if err := checkKey(n, key); err != nil {
		return nil, err
	}
	records, err := s.backend.History(ctx, n, key)
	if err != nil {
		return nil, err
	}
	changes := make([]Change, len(records))
	for i, r := range records {
		changes[i] = changeOf(r)
	}
	return changes, nil
}

// Forget removes the item under key together with its history. Only a change of kind
// Forgotten remains, so that watchers are notified. Branches forget the item too. In a
// branch, Forget removes the item and its history from the branch's view; a merge then
// forgets it in the trunk.
func (s *Store) Forget(ctx context.Context, n Namespace, key string) error {
	return s.forget(ctx, forgetOp{namespace: n, key: key})
}

// ForgetAll forgets all items in all namespaces under prefix, which must not be empty.
// Branches forget them too; see Forget.
func (s *Store) ForgetAll(ctx context.Context, prefix Namespace) error {
	return s.forget(ctx, forgetOp{namespace: prefix, all: true})
}

// Sweep frees space by removing expired items and history older than
// Options.HistoryAge. Expired items are invisible even before a sweep. Sweep returns
// the number of items that have expired since the last sweep.
func (s *Store) Sweep(ctx context.Context) (expired int, err error) {
	if err := s.ready(ctx); err != nil {
		return 0, err
	}
	sweep := Sweep{Now: s.now(), Keep: s.opts.History}
	if s.opts.HistoryAge > 0 {
		sweep.Before = sweep.Now.Add(-s.opts.HistoryAge)
	}
	expired, _, err = s.backend.Sweep(ctx, sweep)
	return expired, err
}

// A View is a read-only view of a store as of some time.
type View struct {
	store *Store
	at    time.Time
}

// AsOf returns a view of the store as of t, including the changes of that microsecond.
// The view lacks versions removed by the history limits or by Forget.
func (s *Store) AsOf(t time.Time) *View {
	if t = wholeMicros(t); t.IsZero() {
		t = t.Add(time.Microsecond) // zero would mean the current time
	}
	return &View{s, t}
}

// Get is like [Store.Get], but reads as of the view's time.
func (v *View) Get(ctx context.Context, n Namespace, key string) (*Item, error) {
	return one(v.store.do(ctx, v.at, GetOp{Namespace: n, Key: key})).get(n, key)
}

// Search is like [Store.Search], but reads as of the view's time.
func (v *View) Search(ctx context.Context, prefix Namespace, opts *SearchOptions) ([]*Item, error) {
	r := one(v.store.do(ctx, v.at, SearchOp{prefix, deref(opts)}))
	return r.Items, r.err
}

// Batch is like [Store.Batch], but reads as of the view's time. It accepts reads only.
func (v *View) Batch(ctx context.Context, ops ...Op) ([]Result, error) {
	for _, op := range ops {
		switch op.(type) {
		case GetOp, SearchOp, NamespacesOp:
		default:
			return nil, &InvalidError{What: "batch", Reason: fmt.Sprintf("writes to the past with a %T: use reads only", op)}
		}
	}
	return v.store.do(ctx, v.at, ops...)
}

// Namespaces is like [Store.Namespaces], but reads as of the view's time.
func (v *View) Namespaces(ctx context.Context, opts *NamespacesOptions) ([]Namespace, error) {
	r := one(v.store.do(ctx, v.at, NamespacesOp{deref(opts)}))
	return r.Namespaces, r.err
}

func (s *Store) now() time.Time { return wholeMicros(s.opts.Now()) }

// wholeMicros truncates t to the precision of all backends.
func wholeMicros(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

func deref[T any](opts *T) T {
	if opts == nil {
		return *new(T)
	}
	return *opts
}
