package memory

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/treadle-go/treadle/store"
)

// OpenReflector returns a durable reflector, which keeps its pending work in a store, under
// a namespace that nothing else uses. It resumes the work that an earlier reflector left
// there: the work runs when it is due, or immediately if it is overdue. Payloads are stored
// as JSON.
//
// Submitted work runs at least once, even if the process is killed. It is removed from the
// store when its run returns, even with an error: failed work is not retried, because a
// payload that always fails would run forever. A run that was active when the process
// ended, or that [Reflector.Close] canceled, is repeated.
//
// If another process removes the work's entry from the store, as an [Erasure] with Journals
// does, the work does not run. A [StoreManager] also checks for the entry before it writes.
//
// The values of a submit's context do not survive the process, so include everything that
// the run needs in the payload. Only one reflector may use a namespace at a time, so use a
// separate namespace in each process.
func OpenReflector[T, R any](ctx context.Context, s *store.Store, n store.Namespace,
	run func(ctx context.Context, key string, payload T) (R, error), opts *ReflectorOptions[T, R]) (*Reflector[T, R], error) {
	r, err := NewReflector(run, opts)
	if err != nil {
		return nil, err
	}
	if err := r.Open(ctx, s, n); err != nil {
		return nil, err
	}
	return r, nil
}

// Open makes a reflector from [NewReflector] durable, like [OpenReflector]. Call it once,
// before the first Submit. If a server provides the store, call it in the Start function of
// the server's options.
func (r *Reflector[T, R]) Open(ctx context.Context, s *store.Store, n store.Namespace) error {
	switch {
	case s == nil:
		return errors.New("memory: reflector: nil store: pass a store, or use NewReflector without Open")
	case len(n) == 0:
		return errors.New("memory: reflector: empty namespace: pass a namespace that nothing else uses")
	}
	j := &journal[T]{s, n}
	left, err := j.read(ctx)
	if err != nil {
		return err
	}
	work, err := r.resume(left)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return ErrClosed
	case r.journal != nil:
		return fmt.Errorf("memory: reflector: already open in namespace %v", r.journal.namespace)
	case len(r.keys) > 0:
		return errors.New("memory: reflector: Open called after Submit")
	}
	r.journal = j
	for key, w := range work {
		l := &keyState[T, R]{key: key}
		r.keys[key] = l
		r.schedule(l, w)
	}
	return nil
}

// resume creates work from journal entries. It merges the running and pending payloads of a
// key.
func (r *Reflector[T, R]) resume(left map[string]entry[T]) (map[string]*work[T, R], error) {
	all := make(map[string]*work[T, R], len(left))
	for key, e := range left {
		w := &work[T, R]{Reflection: &Reflection[R]{done: make(chan struct{})}, ctx: context.Background(), due: e.Due}
		switch {
		case e.Running == nil && e.Pending == nil:
			continue
		case e.Running == nil:
			w.payload = *e.Pending
		case e.Pending == nil:
			w.payload = *e.Running
		default:
			var err error
			if w.payload, err = r.opts.Merge(*e.Running, *e.Pending); err != nil {
				return nil, fmt.Errorf("memory: reflector: merge pending work of key %q: %w", key, err)
			}
		}
		all[key] = w
	}
	return all, nil
}

// journal stores the work of a reflector, with one item per key.
type journal[T any] struct {
	store     *store.Store
	namespace store.Namespace
}

// entry is the stored work of a key. Running is set only if a payload was submitted during
// a run; until then, the running payload is still stored as Pending.
type entry[T any] struct {
	Running *T        `json:"running,omitempty"`
	Pending *T        `json:"pending,omitempty"`
	Due     time.Time `json:"due,omitzero"`
}

// write stores the work of a key. If e contains no work, write removes the item with its
// history.
func (j *journal[T]) write(ctx context.Context, key string, e entry[T]) error {
	var err error
	if e.Running == nil && e.Pending == nil {
		err = j.store.Forget(ctx, j.namespace, key)
	} else {
		err = j.store.Put(ctx, j.namespace, key, e, &store.PutOptions{NoIndex: true, TTL: store.Forever})
	}
	if err != nil {
		return fmt.Errorf("memory: reflector: write work of key %q: %w", key, err)
	}
	return nil
}

// has reports whether work is stored for a key.
func (j *journal[T]) has(ctx context.Context, key string) (bool, error) {
	_, err := j.store.Get(ctx, j.namespace, key, nil)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("memory: reflector: read work of key %q: %w", key, err)
	}
	return true, nil
}

// read returns all stored work, by key.
func (j *journal[T]) read(ctx context.Context) (map[string]entry[T], error) {
	all, err := j.list(ctx, false)
	if err != nil {
		return nil, err
	}
	left := map[string]entry[T]{}
	for _, p := range all {
		left[p.key] = p.entry
	}
	return left, nil
}

// placed is an entry with its key and its journal.
type placed[T any] struct {
	journal *journal[T]
	key     string
	entry   entry[T]
}

// list returns all stored work. If deep is set, it includes the journals whose namespaces
// begin with j's.
func (j *journal[T]) list(ctx context.Context, deep bool) (all []placed[T], err error) {
	const page = 100
	for offset := 0; ; offset += page {
		items, err := j.store.Search(ctx, j.namespace, &store.SearchOptions{Limit: page, Offset: offset})
		if err != nil {
			return nil, fmt.Errorf("memory: reflector: read pending work: %w", err)
		}
		for _, item := range items {
			if !deep && len(item.Namespace) > len(j.namespace) {
				continue
			}
			p := placed[T]{journal: &journal[T]{j.store, item.Namespace}, key: item.Key}
			if err := item.Decode(&p.entry); err != nil {
				return nil, fmt.Errorf("memory: reflector: read pending work: %w", err)
			}
			all = append(all, p)
		}
		if len(items) < page {
			return all, nil
		}
	}
}

// drop removes the stored work that match selects, unless dry is set, and returns the
// number of entries. If deep is set, it includes the journals whose namespaces begin with
// j's.
func (j *journal[T]) drop(ctx context.Context, dry, deep bool, match func(n store.Namespace, key string, payload T) bool) (n int, err error) {
	all, err := j.list(ctx, deep)
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, p := range all {
		at, e := p.journal.namespace, p.entry
		if e.Running == nil && e.Pending == nil {
			errs = append(errs, fmt.Errorf("memory: reflector: unreadable work of key %q in %v: not written by a reflector, or missing encryption key", p.key, at))
			continue
		}
		if (e.Running == nil || !match(at, p.key, *e.Running)) && (e.Pending == nil || !match(at, p.key, *e.Pending)) {
			continue
		}
		n++
		if !dry {
			errs = append(errs, p.journal.write(ctx, p.key, entry[T]{}))
		}
	}
	return n, errors.Join(errs...)
}
