package store

import (
	"context"
	"slices"
	"time"
)

// A Store keeps items. All its methods may be called concurrently.
type Store struct {
	backend Backend
	opts    Options
	stamp   string // see Indexed.Stamp
	fields  []path
	cache   *vectorCache
	fresh   freshness
}

// New makes a store that keeps its items in backend.
func New(backend Backend, opts *Options) (*Store, error) {
	if backend == nil {
		return nil, &InvalidError{What: "backend", Reason: "is nil: give one, or use NewMemory"}
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
	s.fresh.lock = make(chan struct{}, 1)
	return s, nil
}

// NewMemory makes a store that lives in the process and ends with it.
func NewMemory(opts *Options) (*Store, error) { return New(NewMemoryBackend(), opts) }

// ready refuses calls of no store, and without a context.
func (s *Store) ready(ctx context.Context) error {
	switch {
	case s == nil:
		return ErrNoStore
	case ctx == nil:
		return &InvalidError{What: "context", Reason: "is nil: pass context.Background() if there is no other"}
	}
	return nil
}

// Embeds reports whether the store has an embedder, so that it can rank by
// meaning.
func (s *Store) Embeds() bool { return s != nil && s.opts.Embedder != nil }

// Get returns the item under key, or ErrNotFound.
func (s *Store) Get(ctx context.Context, n Namespace, key string, opts *GetOptions) (*Item, error) {
	return one(s.do(ctx, time.Time{}, GetOp{n, key, deref(opts)})).get(n, key)
}

// Put stores value under key, in place of what was there. The value is what
// marshals to a JSON object: a struct, a map, or a json.RawMessage.
func (s *Store) Put(ctx context.Context, n Namespace, key string, value any, opts *PutOptions) error {
	return one(s.do(ctx, time.Time{}, PutOp{n, key, value, deref(opts)})).err
}

// Delete removes the item under key, if there is one. Its history stays.
func (s *Store) Delete(ctx context.Context, n Namespace, key string, opts *DeleteOptions) error {
	return one(s.do(ctx, time.Time{}, DeleteOp{n, key, deref(opts)})).err
}

// Search returns items of the namespaces under prefix. With a query they come
// best first, without one it is the newest of them, oldest first. Items put with
// NoIndex are never found by a query.
func (s *Store) Search(ctx context.Context, prefix Namespace, opts *SearchOptions) ([]*Item, error) {
	r := one(s.do(ctx, time.Time{}, SearchOp{prefix, deref(opts)}))
	return r.Items, r.err
}

// Namespaces lists the namespaces that hold items, in order.
func (s *Store) Namespaces(ctx context.Context, opts *NamespacesOptions) ([]Namespace, error) {
	r := one(s.do(ctx, time.Time{}, NamespacesOp{deref(opts)}))
	return r.Namespaces, r.err
}

// Batch does several operations as one: all its reads see the state before its
// writes, and if one fails nothing is written. Of several writes to one key the
// last wins. The results are in the order of ops.
func (s *Store) Batch(ctx context.Context, ops ...Op) ([]Result, error) {
	return s.do(ctx, time.Time{}, ops...)
}

// History returns the changes of the item under key, newest first. How far it
// goes back is a matter of [Options].
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

// Forget removes the item under key with its history. What is left is the
// change itself, so that those who watch can forget it too.
func (s *Store) Forget(ctx context.Context, n Namespace, key string) error {
	return one(s.do(ctx, time.Time{}, forgetOp{namespace: n, key: key})).err
}

// ForgetAll is Forget for all items of all namespaces under prefix, which must
// not be empty.
func (s *Store) ForgetAll(ctx context.Context, prefix Namespace) error {
	return one(s.do(ctx, time.Time{}, forgetOp{namespace: prefix, all: true})).err
}

// Sweep removes what has expired, and history older than Options.HistoryAge. It
// makes room; what has expired is invisible before. It returns how many items
// have expired since the last sweep.
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

// A View is a store as it was at some time, for reading.
type View struct {
	store *Store
	at    time.Time
}

// AsOf returns a view of the store as it was at t, after the changes of that
// microsecond. Versions that the bounds of history or Forget have removed are
// not in it.
func (s *Store) AsOf(t time.Time) *View {
	if t = wholeMicros(t); t.IsZero() {
		t = t.Add(time.Microsecond) // in a batch, zero is the present
	}
	return &View{s, t}
}

// Get is [Store.Get] at the view's time.
func (v *View) Get(ctx context.Context, n Namespace, key string) (*Item, error) {
	return one(v.store.do(ctx, v.at, GetOp{Namespace: n, Key: key})).get(n, key)
}

// Search is [Store.Search] at the view's time.
func (v *View) Search(ctx context.Context, prefix Namespace, opts *SearchOptions) ([]*Item, error) {
	r := one(v.store.do(ctx, v.at, SearchOp{prefix, deref(opts)}))
	return r.Items, r.err
}

// Namespaces is [Store.Namespaces] at the view's time.
func (v *View) Namespaces(ctx context.Context, opts *NamespacesOptions) ([]Namespace, error) {
	r := one(v.store.do(ctx, v.at, NamespacesOp{deref(opts)}))
	return r.Namespaces, r.err
}

func (s *Store) now() time.Time { return wholeMicros(s.opts.Now()) }

// wholeMicros is t as all backends can keep it.
func wholeMicros(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

func deref[T any](opts *T) T {
	if opts == nil {
		return *new(T)
	}
	return *opts
}
