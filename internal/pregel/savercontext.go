package pregel

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/caught"
	"github.com/treadle-go/treadle/internal/delay"
)

// DefaultPutTimeout is the time that a run waits for its saver after its context
// has ended.
const DefaultPutTimeout = 10 * time.Second

// saverContext is the context for calls to a run's saver.
//
// The results of a step are saved even if the run's context ends, and the run waits
// for a slow saver. But a run whose context has ended must return, so from then on
// the saver's time is limited. A saver that exceeds this time is not called again.
//
// Many savers are so fast that they never wait, so the machinery that ends the
// context is created only when Done or Err needs it.
type saverContext struct {
	context.Context // the run's context, without its cancellation
	run             *Run
	once            sync.Once
	made            atomic.Pointer[saverEnd]
}

// saverEnd ends a saverContext.
type saverEnd struct {
	ctx     context.Context // ends PutTimeout after the run's context
	cancel  context.CancelCauseFunc
	stop    func() bool
	stopped chan struct{}
}

func newSaverContext(r *Run) *saverContext {
	return &saverContext{Context: context.WithoutCancel(r.ctx), run: r}
}

// end returns the saverEnd, creating it on first use.
func (c *saverContext) end() *saverEnd {
	c.once.Do(func() {
		e := &saverEnd{stopped: make(chan struct{})}
		e.ctx, e.cancel = context.WithCancelCause(c.Context)
		e.stop = context.AfterFunc(c.run.ctx, func() {
			defer close(e.stopped)
			if delay.For(e.ctx, c.run.putTimeout()) == nil {
				e.cancel(errStalled)
			}
		})
		c.made.Store(e)
	})
	return c.made.Load()
}

// release ends the context.
func (c *saverContext) release() {
	c.once.Do(func() { c.made.Store(released) }) // if it was never needed
	e := c.made.Load()
	if e == released {
		return
	}
	e.cancel(nil)
	if !e.stop() {
		<-e.stopped
	}
}

// released is the saverEnd of contexts that were released before one was needed.
var released = func() *saverEnd {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(nil)
	return &saverEnd{ctx: ctx}
}()

// Done implements [context.Context].
func (c *saverContext) Done() <-chan struct{} { return c.end().ctx.Done() }

// Err implements [context.Context].
func (c *saverContext) Err() error {
	if c.made.Load() == nil && c.run.ctx.Err() == nil {
		return nil
	}
	return c.end().ctx.Err()
}

// Value implements [context.Context]. It delegates to the context of the saverEnd,
// so that derived contexts and context.Cause find it.
func (c *saverContext) Value(key any) any {
	if e := c.made.Load(); e != nil && e != released {
		return e.ctx.Value(key)
	}
	return c.Context.Value(key)
}

// saverState is the state of the saver, shared by a top-level run and its subgraph
// runs.
type saverState struct {
	mu      sync.Mutex
	stalled error // set if the saver exceeded its time
}

var errStalled = errors.New("saver timed out")

// contextForSaver returns the context for a saver call. The caller must hold the
// lock of the saver's state.
func (r *Run) contextForSaver() (context.Context, context.CancelFunc) {
	none := func() {}
	switch {
	case r.ctx.Done() == nil:
		return r.ctx, none
	case r.ctx.Err() != nil:
		return context.WithTimeoutCause(context.WithoutCancel(r.ctx), r.putTimeout(), errStalled)
	}
	if r.saverCtx == nil {
		r.saverCtx = newSaverContext(r)
	}
	return r.saverCtx, none
}

func (r *Run) putTimeout() time.Duration {
	if r.set.PutTimeout == 0 {
		return DefaultPutTimeout
	}
	return r.set.PutTimeout
}

// releaseSaver ends the saver's context. The run saves nothing afterward.
func (r *Run) releaseSaver() {
	if r.saverCtx != nil {
		r.saverCtx.release()
	}
}

// save calls the saver with a context that limits its time.
func (r *Run) save(call func(context.Context) error) error {
	state := &r.shared.saver
	state.mu.Lock()
	if state.stalled != nil {
		defer state.mu.Unlock()
		return state.stalled
	}
	ctx, cancel := r.contextForSaver()
	state.mu.Unlock()
	defer cancel()
	err := callSaver(ctx, call)
	if err == nil || !errors.Is(context.Cause(ctx), errStalled) {
		return err
	}
	err = fmt.Errorf("saver did not respond within %v after the run's context ended (%w): %w", r.putTimeout(), context.Cause(r.ctx), err)
	state.mu.Lock()
	defer state.mu.Unlock()
	state.stalled = err
	return err
}

// callSaver converts a saver's panic to an error.
func callSaver(ctx context.Context, call func(context.Context) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = caught.New("saver: ", p)
		}
	}()
	return call(ctx)
}

// savePut saves a checkpoint.
func (r *Run) savePut(s checkpoint.Saver, p *checkpoint.Put) error {
	if _, later := s.(deferred); later { // it calls savePut again when it saves
		return s.Put(r.ctx, p)
	}
	return r.saveRecorded(func(ctx context.Context) error { return s.Put(ctx, p) })
}

// saveBoth saves two checkpoints in one call. The saver must be a Batcher.
func (r *Run) saveBoth(first, second *checkpoint.Put) error {
	return r.saveRecorded(func(ctx context.Context) error {
		return r.set.Saver.(checkpoint.Batcher).PutAll(ctx, []*checkpoint.Put{first, second})
	})
}

// saveWrites saves task writes.
func (r *Run) saveWrites(s checkpoint.Saver, at checkpoint.Key, ws []checkpoint.Write) error {
	if _, later := s.(deferred); later {
		return s.PutWrites(r.ctx, at, r.set.Fence, ws)
	}
	return r.saveRecorded(func(ctx context.Context) error { return s.PutWrites(ctx, at, r.set.Fence, ws) })
}

// saveRecorded calls the saver after the preceding events are recorded.
func (r *Run) saveRecorded(call func(context.Context) error) error {
	if r.set.Recorded == nil {
		return r.save(call)
	}
	return r.save(func(ctx context.Context) error {
		if err := r.set.Recorded(); err != nil {
			return err
		}
		return call(ctx)
	})
}
