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

// Durability controls when a step is saved.
type Durability uint8

// The durabilities of a run.
const (
	Sync  Durability = iota // before the next step starts
	Async                   // while the next step runs
	Exit                    // when the run ends, only its last checkpoint
)

// deferred is a saver that saves later. It saves what it receives even if the
// context of the call ends.
type deferred interface {
	checkpoint.Saver
	// once calls tell when the checkpoint is saved. It does not call tell if a
	// later checkpoint is saved instead or if saving fails.
	once(at checkpoint.Key, tell func())
	// close saves what is left. failed reports whether the run failed.
	close(failed bool) error
}

// durable wraps the saver of a run for its durability.
func durable(r *Run) (deferred, error) {
	switch d := r.set.Durability; d {
	case Async:
		return newAsyncSaver(r), nil
	case Exit:
		return &exitSaver{Saver: r.set.Saver, run: r, buffered: map[string]*bufferedPut{}}, nil
	default:
		return nil, fmt.Errorf("graph %q: unknown durability %d", r.plan.name, d)
	}
}

// undeferred returns the saver wrapped by a deferred saver.
func undeferred(s checkpoint.Saver) checkpoint.Saver {
	switch d := s.(type) {
	case *asyncSaver:
		return d.Saver
	case *exitSaver:
		return d.Saver
	}
	return s
}

// asyncSaver saves in order on a separate goroutine. After the first error, it
// saves nothing more, and close returns that error.
type asyncSaver struct {
	checkpoint.Saver
	run  *Run
	work chan func() error
	done chan struct{}

	mu   sync.Mutex
	err  error
	sure map[string]checkpoint.ID // per namespace, the newest checkpoint known to be saved
}

// asyncBacklog is the maximum number of queued saves; beyond it, the run waits for
// its saver.
const asyncBacklog = 64

func newAsyncSaver(r *Run) *asyncSaver {
	a := &asyncSaver{Saver: r.set.Saver, run: r, work: make(chan func() error, asyncBacklog), done: make(chan struct{}), sure: map[string]checkpoint.ID{}}
	go a.store()
	return a
}

// store runs the queued saves until close. If the saver ends the goroutine, another
// goroutine continues.
func (a *asyncSaver) store() {
	ended := false
	defer func() {
		if ended {
			close(a.done)
			return
		}
		a.fail(caught.New("saver: ", recover()))
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

// later queues a save. It fails if an earlier save has failed.
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

// Put saves the checkpoint later. It fails if an earlier save has failed.
func (a *asyncSaver) Put(_ context.Context, p *checkpoint.Put) error {
	return a.later(func() error {
		if err := a.run.savePut(a.Saver, p); err != nil {
			return err
		}
		a.know(p.Key)
		return nil
	})
}

// PutWrites saves the writes later, after everything queued before.
func (a *asyncSaver) PutWrites(_ context.Context, at checkpoint.Key, _ uint64, ws []checkpoint.Write) error {
	return a.later(func() error { return a.run.saveWrites(a.Saver, at, ws) })
}

// once calls tell after everything queued before is saved.
func (a *asyncSaver) once(_ checkpoint.Key, tell func()) {
	_ = a.later(func() error { tell(); return nil }) // after a failure, nothing is reported
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

// await waits until the checkpoint is saved.
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

// awaitHead waits until the checkpoint that determines the step's task IDs is
// saved. The idempotency key of a side effect then stays the same if the process
// dies after the effect.
func (r *Run) awaitHead(ctx context.Context) error {
	for ; r != nil; r = r.above() {
		if !r.saving() {
			continue // the IDs derive from the parent run's checkpoint
		}
		a, ok := r.set.Saver.(*asyncSaver)
		if !ok {
			return nil
		}
		err := a.await(ctx, r.key())
		if err != nil && ctx.Err() == nil {
			err = r.saverFault(fmt.Errorf("graph %q: save thread %q: %w", r.plan.name, r.set.Thread, err))
		}
		return err
	}
	return nil
}

// Get waits until everything queued before is saved, then reads the checkpoint.
func (a *asyncSaver) Get(ctx context.Context, key checkpoint.Key) (*checkpoint.Checkpoint, error) {
	if err := a.flush(ctx); err != nil {
		return nil, err
	}
	return a.Saver.Get(ctx, key)
}

// flush waits until everything queued before is saved.
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

// exitSaver collects the changes of a run and saves them as one checkpoint per
// namespace when the run ends. It always saves the checkpoint of the top-level run
// and those of per-thread subgraphs. It saves those of other subgraph runs only if
// the run failed, so that it can be continued.
type exitSaver struct {
	checkpoint.Saver
	run      *Run
	mu       sync.Mutex
	buffered map[string]*bufferedPut
}

// bufferedPut is the checkpoint of one namespace to save when the run ends.
type bufferedPut struct {
	put    *checkpoint.Put
	writes []checkpoint.Write
	told   checkpoint.ID // the checkpoint that tell refers to
	tell   func()        // called when it is saved
}

// Put merges the checkpoint into the buffered checkpoint of its namespace.
func (e *exitSaver) Put(_ context.Context, p *checkpoint.Put) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	b := e.buffered[p.Namespace]
	if b == nil || p.Parent != b.put.ID { // a subgraph run that starts over drops its earlier attempt
		e.buffered[p.Namespace] = &bufferedPut{put: p}
		return nil
	}
	merged := *p
	merged.Parent, merged.Head = b.put.Parent, b.put.Head
	var err error
	if merged.Metadata, err = carryAbandoned(b.put.Metadata, p.Metadata); err != nil {
		return err
	}
	merged.Changes = mergeChanges(b.put.Changes, p.Changes)
	b.put, b.writes = &merged, nil
	return nil
}

// PutWrites buffers the writes of a buffered checkpoint.
func (e *exitSaver) PutWrites(_ context.Context, at checkpoint.Key, _ uint64, ws []checkpoint.Write) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	b := e.buffered[at.Namespace]
	if b == nil || b.put.ID != at.ID {
		return e.run.saveWrites(e.Saver, at, ws) // on a checkpoint saved by an earlier run
	}
	b.writes = append(b.writes, ws...)
	return nil
}

// once calls tell when the run ends, or immediately for a checkpoint saved by an
// earlier run.
func (e *exitSaver) once(at checkpoint.Key, tell func()) {
	e.mu.Lock()
	b := e.buffered[at.Namespace]
	kept := b != nil && b.put.ID == at.ID
	if kept {
		b.told, b.tell = at.ID, tell
	}
	e.mu.Unlock()
	if !kept {
		tell()
	}
}

// List lists the saved checkpoints, which include none of this run.
func (e *exitSaver) List(ctx context.Context, q checkpoint.Query) iter.Seq2[*checkpoint.Checkpoint, error] {
	return e.Saver.List(ctx, q)
}

func (e *exitSaver) close(failed bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	// Save the inner namespaces first: the checkpoint of a parent graph may name
	// the head of a subgraph run, which must be saved by then.
	for _, ns := range slices.Backward(slices.Sorted(maps.Keys(e.buffered))) {
		b := e.buffered[ns]
		if ns != "" && !failed && !stable(ns) {
			continue
		}
		if err := e.run.savePut(e.Saver, b.put); err != nil {
			return err
		}
		if len(b.writes) > 0 {
			if err := e.run.saveWrites(e.Saver, b.put.Key, b.writes); err != nil {
				return err
			}
		}
		if b.tell != nil && b.told == b.put.ID {
			b.tell()
		}
	}
	return nil
}

// mergeChanges merges the changes of two consecutive steps.
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
