package memory

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/treadle-go/treadle/store"
)

// OpenReflector returns a reflector that keeps its pending work in a store, under a
// namespace that nothing else uses. It takes over the work that an earlier reflector
// left there, which runs when it is due, or at once if that time has passed. Payloads
// are stored as JSON.
//
// Submitted work runs at least once, also if the process is killed. It is removed from
// the store when its run has returned, even with an error: failed work is not repeated,
// because a payload that always fails would run forever. A run that was under way when
// the process ended, or that [Reflector.Close] cancelled, is repeated.
//
// Values of a submit's context do not survive the process; put into the payload what
// the run needs. Only one reflector may use a namespace at a time.
func OpenReflector[T, R any](ctx context.Context, s *store.Store, n store.Namespace,
	run func(ctx context.Context, key string, payload T) (R, error), opts *ReflectorOptions[T, R]) (*Reflector[T, R], error) {
	if len(n) == 0 {
		return nil, errors.New("memory: reflector: the namespace for its work is empty: give it one that nothing else uses")
	}
	r, err := NewReflector(run, opts)
	if err != nil {
		return nil, err
	}
	switch {
	case s == nil:
		return nil, errors.New("memory: reflector: there is no store to keep the work in; see NewReflector for one without")
	case len(n) == 0:
		return nil, errors.New("memory: reflector: there is no namespace to keep the work in")
	}
	r.journal = &journal[T]{s, n}
	left, err := r.journal.read(ctx)
	if err != nil {
		return nil, err
	}
	work, err := r.resume(left)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, w := range work {
		l := &keyState[T, R]{key: key}
		r.keys[key] = l
		r.schedule(l, w)
	}
	return r, nil
}

// resume makes work from journal entries. Running and pending payloads of a key are
// merged.
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
				return nil, fmt.Errorf("memory: reflector: merge the work that was left for key %q: %w", key, err)
			}
		}
		all[key] = w
	}
	return all, nil
}

// journal stores the work of a reflector, in an item per key.
type journal[T any] struct {
	store     *store.Store
	namespace store.Namespace
}

// entry is the stored work of a key. Running is set only if something was submitted
// during a run; before that, the running payload is still Pending.
type entry[T any] struct {
	Running *T        `json:"running,omitempty"`
	Pending *T        `json:"pending,omitempty"`
	Due     time.Time `json:"due,omitzero"`
}

// write stores the work of a key. If there is none, it removes the item with its
// history.
func (j *journal[T]) write(ctx context.Context, key string, e entry[T]) error {
	var err error
	if e.Running == nil && e.Pending == nil {
		err = j.store.Forget(ctx, j.namespace, key)
	} else {
		err = j.store.Put(ctx, j.namespace, key, e, &store.PutOptions{NoIndex: true, TTL: store.Forever})
	}
	if err != nil {
		return fmt.Errorf("memory: reflector: record the work of key %q: %w", key, err)
	}
	return nil
}

// read returns all stored work, by key.
func (j *journal[T]) read(ctx context.Context) (map[string]entry[T], error) {
	const page = 100
	left := map[string]entry[T]{}
	for offset := 0; ; offset += page {
		items, err := j.store.Search(ctx, j.namespace, &store.SearchOptions{Limit: page, Offset: offset})
		if err != nil {
			return nil, fmt.Errorf("memory: reflector: read the work that was left: %w", err)
		}
		for _, item := range items {
			if len(item.Namespace) > len(j.namespace) {
				continue
			}
			var e entry[T]
			if err := item.Decode(&e); err != nil {
				return nil, fmt.Errorf("memory: reflector: read the work that was left: %w", err)
			}
			left[item.Key] = e
		}
		if len(items) < page {
			return left, nil
		}
	}
}

// drop removes the stored work that match selects, and returns how much there was.
func (j *journal[T]) drop(ctx context.Context, dry bool, match func(key string, payload T) bool) (n int, err error) {
	left, err := j.read(ctx)
	if err != nil {
		return 0, err
	}
	var errs []error
	for key, e := range left {
		if e.Running == nil && e.Pending == nil {
			errs = append(errs, fmt.Errorf("memory: reflector: the work of key %q cannot be read: no reflector wrote it, or the store has no key for it", key))
			continue
		}
		if (e.Running == nil || !match(key, *e.Running)) && (e.Pending == nil || !match(key, *e.Pending)) {
			continue
		}
		n++
		if !dry {
			errs = append(errs, j.write(ctx, key, entry[T]{}))
		}
	}
	return n, errors.Join(errs...)
}
