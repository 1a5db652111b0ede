package pregel

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/caught"
)

// Durability says when a step is stored.
type Durability int

// The durabilities of a run.
const (
	Sync  Durability = iota // before the next step starts
	Async                   // while the next step runs
	Exit                    // when the run ends, only its last checkpoint
)

// deferred is a saver that stores later. What it is given stands for itself: it
// is stored whatever becomes of the context it came with.
type deferred interface {
	checkpoint.Saver
	// once calls tell when a checkpoint is stored. One that never is, because a
	// later one is stored instead or storing fails, is not told of.
	once(at checkpoint.Key, tell func())
	// close stores what is left; failed says how the run ended.
	close(failed bool) error
}

// durable wraps the saver of a run for its durability.
func durable(r *Run) (deferred, error) {
	switch d := r.set.Durability; d {
	case Async:
		return newAsyncSaver(r), nil
	case Exit:
		return &exitSaver{Saver: r.set.Saver, run: r, lines: map[string]*exitLine{}}, nil
	default:
		return nil, fmt.Errorf("graph %q: unknown durability %d", r.plan.name, d)
	}
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
	run  *Run
	work chan func() error
	done chan struct{}

	mu   sync.Mutex
	err  error
	sure map[string]checkpoint.ID // by namespace, the newest checkpoint that is known to be stored
}

// asyncBacklog is how many stores may wait; a run that is further ahead of its
// saver waits for it.
const asyncBacklog = 64

func newAsyncSaver(r *Run) *asyncSaver {
	a := &asyncSaver{Saver: r.set.Saver, run: r, work: make(chan func() error, asyncBacklog), done: make(chan struct{}), sure: map[string]checkpoint.ID{}}
	go a.store()
	return a
}

// store does what is to be done, until close. If the saver ends the goroutine
// the rest is done on another one.
func (a *asyncSaver) store() {
	ended := false
	defer func() {
		if ended {
			close(a.done)
			return
		}
		a.fail(caught.New("the saver: ", recover()))
		go a.store()
	}()
	for fn := range a.work {
		if err := fn(); err != nil {
			a.fail(err)
		}
	}
	ended = true
}

func (a *asyncSaver) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err == nil {
		a.err = err
	}
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
func (a *asyncSaver) Put(_ context.Context, p *checkpoint.Put) error {
	return a.later(func() error {
		if err := a.run.savePut(a.Saver, p); err != nil {
			return err
		}
		a.know(p.Key)
		return nil
	})
}

// PutWrites stores them later, after what was put before.
func (a *asyncSaver) PutWrites(_ context.Context, at checkpoint.Key, _ uint64, ws []checkpoint.Write) error {
	return a.later(func() error { return a.run.saveWrites(a.Saver, at, ws) })
}

// once tells after what was put before is stored.
func (a *asyncSaver) once(_ checkpoint.Key, tell func()) {
	_ = a.later(func() error { tell(); return nil }) // it is told to nobody then
}

func (a *asyncSaver) know(at checkpoint.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sure[at.Namespace] = at.ID
}

func (a *asyncSaver) knows(at checkpoint.Key) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sure[at.Namespace] == at.ID
}

// await returns when the checkpoint is stored.
func (a *asyncSaver) await(ctx context.Context, at checkpoint.Key) error {
	if a.knows(at) {
		return nil
	}
	if err := a.flush(ctx); err != nil {
		return err
	}
	a.know(at)
	return nil
}

// awaitHead returns when the checkpoint is stored from which the tasks of the
// step have their ids: the idempotency key of an effect is to be the same if the
// process dies after it.
func (r *Run) awaitHead(ctx context.Context) error {
	for ; r != nil; r = r.above() {
		if !r.saving() {
			continue // the ids are those of the run around it
		}
		a, ok := r.set.Saver.(*asyncSaver)
		if !ok {
			return nil
		}
		err := a.await(ctx, r.key())
		if err != nil && ctx.Err() == nil {
			err = r.saverFault(fmt.Errorf("graph %q: store thread %q: %w", r.plan.name, r.set.Thread, err))
		}
		return err
	}
	return nil
}

// Get sees everything that was put before.
func (a *asyncSaver) Get(ctx context.Context, key checkpoint.Key) (*checkpoint.Checkpoint, error) {
	if err := a.flush(ctx); err != nil {
		return nil, err
	}
	return a.Saver.Get(ctx, key)
}

// flush returns when everything that was put before is stored.
func (a *asyncSaver) flush(ctx context.Context) error {
	flushed := make(chan struct{})
	select {
	case a.work <- func() error { close(flushed); return nil }:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-flushed:
		return a.failure()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (a *asyncSaver) close(bool) error {
	close(a.work)
	<-a.done
	return a.failure()
}

// exitSaver keeps the changes of a run and stores them as one checkpoint per
// namespace when it ends: the root's always, those of nested runs only if the
// run did not end well, so that it can be continued.
type exitSaver struct {
	checkpoint.Saver
	run   *Run
	mu    sync.Mutex
	lines map[string]*exitLine
}

type exitLine struct {
	put    *checkpoint.Put
	writes []checkpoint.Write
	told   checkpoint.ID // the checkpoint of
	tell   func()        // what is told when it is stored
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
func (e *exitSaver) PutWrites(_ context.Context, at checkpoint.Key, _ uint64, ws []checkpoint.Write) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.lines[at.Namespace]
	if l == nil || l.put.ID != at.ID {
		return e.run.saveWrites(e.Saver, at, ws) // on a checkpoint that an earlier run stored
	}
	l.writes = append(l.writes, ws...)
	return nil
}

// once tells when the run ends, or at once of a checkpoint that an earlier run
// stored.
func (e *exitSaver) once(at checkpoint.Key, tell func()) {
	e.mu.Lock()
	l := e.lines[at.Namespace]
	kept := l != nil && l.put.ID == at.ID
	if kept {
		l.told, l.tell = at.ID, tell
	}
	e.mu.Unlock()
	if !kept {
		tell()
	}
}

// List is of what is stored; nothing of this run is.
func (e *exitSaver) List(ctx context.Context, q checkpoint.Query) iter.Seq2[*checkpoint.Checkpoint, error] {
	return e.Saver.List(ctx, q)
}

func (e *exitSaver) close(failed bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	// Inner ones first: an outer checkpoint may name the head of an inner run,
	// which must be there.
	for _, ns := range slices.Backward(slices.Sorted(maps.Keys(e.lines))) {
		l := e.lines[ns]
		if ns != "" && !failed && !stable(ns) {
			continue
		}
		if err := e.run.savePut(e.Saver, l.put); err != nil {
			return err
		}
		if len(l.writes) > 0 {
			if err := e.run.saveWrites(e.Saver, l.put.Key, l.writes); err != nil {
				return err
			}
		}
		if l.tell != nil && l.told == l.put.ID {
			l.tell()
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
