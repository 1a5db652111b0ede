package pregel

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/treadle-go/treadle/checkpoint"
)

// Durability says when a step is stored.
type Durability int

// The durabilities of a run.
const (
	Sync  Durability = iota // before the next step starts
	Async                   // while the next step runs
	Exit                    // when the run ends, only its last checkpoint
)

// deferred is a saver that stores later. close stores what is left; failed
// says how the run ended.
type deferred interface {
	checkpoint.Saver
	close(ctx context.Context, failed bool) error
}

// durable wraps a saver for the run's durability.
func durable(s checkpoint.Saver, d Durability) (deferred, error) {
	switch d {
	case Async:
		return newAsyncSaver(s), nil
	case Exit:
		return &exitSaver{Saver: s, lines: map[string]*exitLine{}}, nil
	}
	return nil, fmt.Errorf("unknown durability %d", d)
}

// undeferred is the saver that a run's savers store to in the end.
func undeferred(s checkpoint.Saver) checkpoint.Saver {
	switch d := s.(type) {
	case *asyncSaver:
		return d.Saver
	case *exitSaver:
		return d.Saver
	}
	return s
}

// asyncSaver stores in order on a goroutine of its own. The first error sticks:
// nothing is stored after it, and it is what close returns.
type asyncSaver struct {
	checkpoint.Saver
	work chan func() error
	done chan struct{}

	mu  sync.Mutex
	err error
}

// asyncBacklog is how many stores may wait; a run that is further ahead of its
// saver waits for it.
const asyncBacklog = 64

func newAsyncSaver(s checkpoint.Saver) *asyncSaver {
	a := &asyncSaver{Saver: s, work: make(chan func() error, asyncBacklog), done: make(chan struct{})}
	go func() {
		defer close(a.done)
		for fn := range a.work {
			if err := fn(); err != nil {
				a.mu.Lock()
				a.err = err
				a.mu.Unlock()
			}
		}
	}()
	return a
}

func (a *asyncSaver) failure() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// later stores on the goroutine, unless something has failed before.
func (a *asyncSaver) later(store func() error) error {
	if err := a.failure(); err != nil {
		return err
	}
	a.work <- func() error {
		if err := a.failure(); err != nil {
			return err
		}
		return store()
	}
	return nil
}

// Put stores it later, and fails with what went wrong before.
func (a *asyncSaver) Put(ctx context.Context, p *checkpoint.Put) error {
	return a.later(func() error { return a.Saver.Put(ctx, p) })
}

// PutWrites stores them later, after what was put before.
func (a *asyncSaver) PutWrites(ctx context.Context, at checkpoint.Key, fence uint64, ws []checkpoint.Write) error {
	return a.later(func() error { return a.Saver.PutWrites(ctx, at, fence, ws) })
}

// Get sees everything that was put before.
func (a *asyncSaver) Get(ctx context.Context, key checkpoint.Key) (*checkpoint.Checkpoint, error) {
	flushed := make(chan struct{})
	a.work <- func() error { close(flushed); return nil }
	select {
	case <-flushed:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if err := a.failure(); err != nil {
		return nil, err
	}
	return a.Saver.Get(ctx, key)
}

func (a *asyncSaver) close(context.Context, bool) error {
	close(a.work)
	<-a.done
	return a.failure()
}

// exitSaver keeps the changes of a run and stores them as one checkpoint per
// namespace when it ends: the root's always, those of nested runs only if the
// run did not end well, so that it can be continued.
type exitSaver struct {
	checkpoint.Saver
	mu    sync.Mutex
	lines map[string]*exitLine
}

type exitLine struct {
	put    *checkpoint.Put
	writes []checkpoint.Write
	fence  uint64
}

// Put merges it into what the namespace has to store in the end.
func (e *exitSaver) Put(_ context.Context, p *checkpoint.Put) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.lines[p.Namespace]
	if l == nil || p.Parent != l.put.ID { // a nested run that begins again forgets its last try
		e.lines[p.Namespace] = &exitLine{put: p}
		return nil
	}
	merged := *p
	merged.Parent, merged.Head = l.put.Parent, l.put.Head
	var err error
	if merged.Metadata, err = carryAbandoned(l.put.Metadata, p.Metadata); err != nil {
		return err
	}
	merged.Changes = mergeChanges(l.put.Changes, p.Changes)
	l.put, l.writes = &merged, nil
	return nil
}

// PutWrites keeps what belongs to a checkpoint that is kept here.
func (e *exitSaver) PutWrites(ctx context.Context, at checkpoint.Key, fence uint64, ws []checkpoint.Write) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.lines[at.Namespace]
	if l == nil || l.put.ID != at.ID {
		return e.Saver.PutWrites(ctx, at, fence, ws) // on a checkpoint that an earlier run stored
	}
	l.writes, l.fence = append(l.writes, ws...), fence
	return nil
}

// List is of what is stored; nothing of this run is.
func (e *exitSaver) List(ctx context.Context, q checkpoint.Query) iter.Seq2[*checkpoint.Checkpoint, error] {
	return e.Saver.List(ctx, q)
}

func (e *exitSaver) close(ctx context.Context, failed bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	// Inner ones first: an outer checkpoint may name the head of an inner run,
	// which must be there.
	for _, ns := range slices.Backward(slices.Sorted(maps.Keys(e.lines))) {
		l := e.lines[ns]
		if ns != "" && !failed && !stable(ns) {
			continue
		}
		if err := e.Saver.Put(ctx, l.put); err != nil {
			return err
		}
		if len(l.writes) > 0 {
			if err := e.Saver.PutWrites(ctx, l.put.Key, l.fence, l.writes); err != nil {
				return err
			}
		}
	}
	return nil
}

// mergeChanges is what two steps did, one after the other.
func mergeChanges(first, then []checkpoint.Change) []checkpoint.Change {
	out := slices.Clone(first)
	for _, c := range then {
		i := slices.IndexFunc(out, func(o checkpoint.Change) bool { return o.Channel == c.Channel })
		switch {
		case i < 0:
			out = append(out, c)
		case c.List && out[i].List:
			had := out[i]
			if c.Drop <= len(had.Items) {
				c.Items = slices.Concat(had.Items[:len(had.Items)-c.Drop], c.Items)
				c.Drop = had.Drop
			} else {
				c.Drop += had.Drop - len(had.Items)
			}
			out[i] = c
		default:
			out[i] = c
		}
	}
	return out
}
