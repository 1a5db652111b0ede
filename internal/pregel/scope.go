package pregel

import (
	"context"
	"sync/atomic"

	"github.com/treadle-go/treadle/internal/observe"
)

// scope is the context of one attempt. The node is called with it, so the
// engine finds its way back from any context derived from it.
type scope struct {
	context.Context
	task    *Task
	beat    chan struct{} // signs of life, for an idle timeout
	attempt int32
	closed  atomic.Bool  // timed out: what comes late is dropped
	span    *span        // for lifecycle events
	asks    atomic.Int32 // questions asked without a key
	calls   atomic.Int32 // tasks called
}

type scopeKey struct{}

// enter makes ctx the context of the task's first attempt.
func (t *Task) enter(ctx context.Context) {
	t.scope.Context, t.scope.task, t.scope.attempt = ctx, t, 1 //nolint:fatcontext // set once in the life of a task, so nothing nests
}

// Value implements [context.Context] and finds the scope itself.
func (s *scope) Value(key any) any {
	if key == (scopeKey{}) || key == observe.Key {
		return s
	}
	return s.Context.Value(key)
}

// scopeOf finds the attempt that ctx belongs to, or nil.
func scopeOf(ctx context.Context) *scope {
	if ctx == nil {
		return nil
	}
	s, _ := ctx.Value(scopeKey{}).(*scope)
	return s
}

// alive notes a sign of life; heartbeat says it was an explicit one. It is one
// for the tasks around a nested graph too.
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

// late reports whether the attempt, or one that it is nested in, has timed out.
func (s *scope) late() bool {
	for ; s != nil; s = s.task.run.within() {
		if s.closed.Load() {
			return true
		}
	}
	return false
}
