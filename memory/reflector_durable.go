package memory

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/treadle-go/treadle/store"
)

// OpenReflector makes a reflector that keeps pending work in a store, under a
// namespace that is its own, and takes over what an earlier one has left there:
// at the time it was due, or at once if that has passed. T is written as JSON.
//
// What was submitted runs at least once, whatever happens to the process. It is
// removed off when the run has returned, be it with an error: what failed is told
// and not tried again, since a payload that cannot be worked on would never end.
// A run that was under way when the process ended runs again, and so does one that
// [Reflector.Close] had to cancel.
//
// Values of the contexts of submits do not survive; put into the payload what is
// needed. A namespace is for one reflector at a time.
func OpenReflector[T, R any](ctx context.Context, s *store.Store, n store.Namespace,
	run func(ctx context.Context, key string, payload T) (R, error), opts *ReflectorOptions[T, R]) (*Reflector[T, R], error) {
	if len(n) == 0 {
		return nil, errors.New("memory: reflector: the namespace of its work is empty: give it one of its own")
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

// resume makes work of what was left. What was running and what came while it ran
// is one.
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

// A journal keeps what is to be done, an item for each key.
type journal[T any] struct {
	store     *store.Store
	namespace store.Namespace
}

// An entry is what a key has to do. Running is there only if more came while it
// ran; before that what runs is still Pending.
type entry[T any] struct {
	Running *T        `json:"running,omitempty"`
	Pending *T        `json:"pending,omitempty"`
	Due     time.Time `json:"due,omitzero"`
}

// write records what a key has to do; if it is nothing, no trace is left of what
// was there.
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

// read is all that is recorded.
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
