package pregel

import (
	"context"
	"sync/atomic"

	"github.com/treadle-go/treadle/internal/observe"
)

// scope is the context of one attempt. It is passed to the node, so the engine can
// find the attempt from any derived context.
type scope struct {
	context.Context
	task    *Task
	beat    chan struct{} // resets the idle timeout
	attempt int32
	closed  atomic.Bool  // timed out: later events and interrupts are dropped
	span    *span        // for lifecycle events
	asks    atomic.Int32 // interrupts without a key so far
	calls   atomic.Int32 // calls so far
}

type scopeKey struct{}

// enter makes ctx the context of the task's first attempt.
func (t *Task) enter(ctx context.Context) {
	t.scope.Context, t.scope.task, t.scope.attempt = ctx, t, 1 //nolint:fatcontext // set once per task, so contexts do not nest
}

// Value implements [context.Context]. It returns the scope for the engine's keys.
func (s *scope) Value(key any) any {
	if key == (scopeKey{}) || key == observe.Key {
		return s
	}
	if key == observe.TracerKey {
		if t := s.task.run.trace; t != nil {
			return t.tracer
		}
		return nil // none was set when the run started
	}
	return s.Context.Value(key)
}

// scopeOf returns the attempt that ctx belongs to, or nil.
func scopeOf(ctx context.Context) *scope {
	if ctx == nil {
		return nil
	}
	s, _ := ctx.Value(scopeKey{}).(*scope)
	return s
}

// alive resets the idle timeout of the attempt and of the attempts that contain it.
// heartbeat is set if the node called Heartbeat.
func (s *scope) alive(heartbeat bool) {
	for ; s != nil; s = s.task.run.within() {
		if s.beat == nil || !heartbeat && s.task.timeout().HeartbeatOnly {
			continue
		}
		select {
		case s.beat <- struct{}{}:
		default:
		}
	}
}

// stopAt records that the attempt received a pause. Its later calls and waits then
// return the pause instead of starting: the node is about to end, and runs again
// from the top when the run resumes. Otherwise, a node that handles every error
// would compensate for a pause as if it were a failure.
//
// A call stops its caller when the caller receives the call's pause, not when the
// call pauses. Therefore, all calls that a node starts before waiting for one of
// them run, and all their interrupts surface.
func (s *scope) stopAt(pause error) {
	extras := s.task.needExtras()
	extras.mu.Lock()
	defer extras.mu.Unlock()
	if extras.stopped != s {
		extras.stopped, extras.stop = s, pause
	}
}

// stop returns the first pause that the attempt has received, or nil.
func (s *scope) stop() error {
	extras := s.task.extras.Load()
	if extras == nil {
		return nil
	}
	extras.mu.Lock()
	defer extras.mu.Unlock()
	if extras.stopped != s {
		return nil
	}
	return extras.stop
}

// late reports whether the attempt, or an attempt that contains it, has timed out.
func (s *scope) late() bool {
	for ; s != nil; s = s.task.run.within() {
		if s.closed.Load() {
			return true
		}
	}
	return false
}
