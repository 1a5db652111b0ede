package pregel

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/caught"
	"github.com/treadle-go/treadle/internal/observe"
	"github.com/treadle-go/treadle/treadletype"
)

// A Task is one execution of a node in a step. A PULL task runs because an edge or
// goto leads to the node; a PUSH task runs because an input was sent to it.
type Task struct {
	run      *Run
	node     *node
	step     int
	head     checkpoint.ID // the checkpoint that the step started from
	index    int32         // index of a PUSH task among its step's sends; -1 for PULL
	nested   atomic.Int32
	packet   *packet  // for a PUSH task
	in       any      // for a PULL task: pointer to the shared view
	reads    []any    // see NodeSpec.Reads
	out      *outcome // nil for a task that does not run, and for a call
	err      error
	first    bool  // it failed before anything was canceled
	aborted  bool  // it ended because another task failed; see aborted
	cached   bool  // the result came from the cache or from an earlier, unfinished run
	restored bool  // the result came from an earlier run, which also ran the branches
	stored   bool  // the result is saved before the step's commit
	handling bool  // the error handler is running, and events belong to it
	together bool  // other tasks run in the same step
	began    int64 // start of the first attempt in Unix nanoseconds; set only with a retry policy

	scope  scope // of the first attempt
	caller *Task // the task that called this one from a workflow or node, if any
	extras atomic.Pointer[taskExtras]
	id     atomic.Pointer[string] // computed on first use
}

// taskExtras is allocated only for tasks that interrupt, make calls, retry, or
// encounter a fault.
type taskExtras struct {
	calls callQueue // calls made by the task

	mu       sync.Mutex
	pauses   []Pause                   // interrupts of the task and of its calls
	places   []int32                   // their order among the calls
	cancels  []context.CancelCauseFunc // cancel functions of the calls
	children map[string]checkpoint.ID  // heads of the per-thread subgraphs that ran for it
	fault    error                     // see noteFault
	exit     error                     // see noteExit
	tried    *Tried                    // nil after one attempt; see retry
	since    time.Time                 // start of the current attempt, if it is not the first
	stopped  *scope                    // the attempt that received a pause
	stop     error                     // that pause
}

// needExtras returns the task's extras, creating them on first use.
func (t *Task) needExtras() *taskExtras {
	if a := t.extras.Load(); a != nil {
		return a
	}
	t.extras.CompareAndSwap(nil, &taskExtras{})
	return t.extras.Load()
}

// dropPauses drops the interrupts of an ended attempt.
func (t *Task) dropPauses() {
	if a := t.extras.Load(); a != nil {
		a.mu.Lock()
		a.pauses, a.places = nil, nil
		a.mu.Unlock()
	}
}

// Name returns the name of the task's node.
func (t *Task) Name() string { return t.node.Name }

// ID returns the task ID. It is the same each time the task runs from the same
// checkpoint.
func (t *Task) ID() string {
	if id := t.id.Load(); id != nil {
		return *id
	}
	if t.caller != nil {
		return t.setID(callText(t.caller.namespace(), int(t.index)))
	}
	var space [256]byte
	sent := -1
	if t.packet != nil {
		sent = int(t.index)
	}
	return t.setID(taskText(space[:0], t.run.seed(), t.run.ns(), t.step, t.node.savedName(), sent))
}

// setID sets the task ID to a hash of text, unless it is already set.
func (t *Task) setID(text []byte) string {
	id := idOf(text)
	t.id.CompareAndSwap(nil, &id)
	return *t.id.Load()
}

// namespace returns the namespace of the subgraphs that the task starts.
func (t *Task) namespace() string {
	ns := t.node.savedName() + ":" + t.ID()
	switch {
	case t.caller != nil:
		ns = t.caller.namespace() + "|" + ns
	case t.run.ns() != "":
		ns = t.run.ns() + "|" + ns
	}
	return ns
}

// input returns a copy of the node's input that later steps do not modify.
func (t *Task) input() any {
	if t.packet != nil {
		return t.packet.input
	}
	if v := reflect.ValueOf(t.in); v.Kind() == reflect.Pointer {
		return v.Elem().Interface()
	}
	return t.in
}

// execute runs the node until it succeeds or its retries are exhausted, then its
// error handler, if any. It stores the result in t.out and the failure in t.err.
func (t *Task) execute(ctx context.Context) {
	if t.run.trace != nil && !t.cached {
		t.executeTraced(ctx)
		return
	}
	t.complete(ctx)
}

func (t *Task) complete(ctx context.Context) {
	returned := false
	defer func() {
		if !returned { // a function other than the node's panicked, or the goroutine is ending
			err := t.unreturned(recover())
			t.awaitCalls(err)
			t.out.clear()
			t.finish(&t.scope, err)
		}
	}()
	t.perform(ctx)
	returned = true
}

func (t *Task) perform(ctx context.Context) {
	n := t.node
	if len(n.Retry) > 0 {
		t.began = time.Now().UnixNano() // only if needed: reading the clock costs a tenth of a step
	}
	t.enter(ctx)
	sc := &t.scope
	if t.cached { // an earlier run finished it
		t.finish(sc, nil)
		return
	}
	t.emitStart(sc)
	if n.Handler != nil && len(t.run.failures) > 0 {
		if failure := t.run.failures[t.ID()]; failure != nil { // an earlier run exhausted the node's retries
			t.finish(sc, t.handle(sc, failure))
			return
		}
	}
	known, hit, err := t.fromCache(sc)
	if known != nil {
		defer known.finish()
	}
	if hit {
		t.cached = true
		t.finish(sc, nil)
		return
	}
	if err == nil {
		err = t.attempt(sc)
		for err != nil && ctx.Err() == nil && !t.final(err) {
			next, span, bad := t.retry(ctx, sc, err)
			if next == nil {
				err = bad
				break
			}
			sc = next
			err = t.attempt(sc)
			observe.Ended(span, err)
		}
	}
	if sc != &t.scope { // branches continue the numbering of the last attempt
		t.scope.asks.Store(sc.asks.Load())
		t.scope.calls.Store(sc.calls.Load())
	}
	if sc.beat != nil { // the attempt had a timeout, and its context has ended
		sc = &scope{Context: ctx, task: t, attempt: sc.attempt, span: sc.span}
	}
	if err == nil {
		err = t.toCache(sc, known)
	}
	if err != nil && n.Handler != nil && ctx.Err() == nil && !t.final(err) {
		if unstored := t.putFailure(err); unstored != nil {
			err = joinErrors(err, unstored)
		} else {
			err = t.handle(sc, err)
		}
	}
	t.finish(sc, err)
}

// nodeError wraps err with the graph, node, and step.
func (t *Task) nodeError(sc *scope, err error) *NodeError {
	ne := &NodeError{Graph: t.run.plan.name, Node: t.node.Name, Path: t.run.ns(), Step: t.step, Attempt: int(sc.attempt), Err: err}
	if e, ok := errors.AsType[*caught.Error](err); ok {
		ne.Stack = e.Stack
	}
	return ne
}

// finish records the outcome of the task and emits the event.
func (t *Task) finish(sc *scope, err error) {
	if err != nil {
		if !treadletype.IsPause(err) {
			t.aborted = aborted(sc.Context, err)
			err = t.nodeError(sc, err)
		}
		t.err = err
	} else {
		t.nameMessages()
	}
	t.emitEnd(sc, err)
}
