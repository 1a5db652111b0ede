package pregel

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/treadle-go/treadle/treadletype"
)

// prepare creates the tasks of the step in commit order: nodes by name, then sends
// in the order sent.
func (r *Run) prepare() ([]*Task, error) {
	n := len(r.ctl.armed) + len(r.ctl.sends)
	block := r.newTasks(n)
	tasks := r.one[:]
	if n != 1 {
		tasks = make([]*Task, n)
	}
	outs := r.oneOut[:]
	if n != 1 || r.modes != 0 { // an event may refer to a task's writes indefinitely
		outs = make([]outcome, n)
	}
	for i := range block {
		t := &block[i]
		t.run = r
		t.step = r.step
		t.head = r.head
		t.index = -1
		t.out = outs[i].reset()
		tasks[i] = t
		if k := i - len(r.ctl.armed); k >= 0 {
			t.packet, t.index = &r.ctl.sends[k], int32(k)
			t.node = r.plan.nodes[t.packet.node]
			t.reads = r.readsOf(t.node)
			continue
		}
		t.node = r.plan.nodes[r.ctl.armed[i]]
		if t.node.sendOnly != "" {
			return nil, t.nodeError(&t.scope, &GotoError{Graph: r.plan.name, To: t.node.Name,
				Msg: fmt.Sprintf("takes %s, which only Send can supply, but was reached without a Send", t.node.sendOnly)})
		}
		switch n := t.node; {
		case n.view >= 0:
			t.in = r.sync(n.view)
		case n.nest != nil && (n.Handler != nil || n.Cache != nil):
			t.in = r.inherited(n)
		}
		t.reads = r.readsOf(t.node)
	}
	return tasks, nil
}

// readsOf returns a copy of each of the structs that n reads in addition to its input.
func (r *Run) readsOf(n *node) []any {
	if len(n.reads) == 0 {
		return nil
	}
	out := make([]any, len(n.reads))
	for i, v := range n.reads {
		out[i] = reflect.ValueOf(r.sync(v)).Elem().Interface()
	}
	return out
}

// Field describes a field of a graph's state.
type Field struct {
	Name    string       // in JSON
	Updates reflect.Type // the type of an update; nil if the field is unknown
	Reduces bool         // it has a reducer
}

// FieldOf returns the field with a JSON or Go name of the graph that ctx belongs to.
func FieldOf(ctx context.Context, name string) Field {
	sc := scopeOf(ctx)
	if sc == nil {
		return Field{Name: name}
	}
	schema := sc.task.run.plan.schema
	ch := schema.byName[name]
	if ch == nil {
		ch = schema.byWire[name]
	}
	if ch == nil {
		return Field{Name: name}
	}
	return Field{ch.wire, ch.upd, ch.accumulates()}
}

// ReadOf returns the value of type t that the node of ctx reads in addition to its input;
// see NodeSpec.Reads. It returns nil if the node does not read a t. A call made by the node
// reads the same values.
func ReadOf(ctx context.Context, t reflect.Type) any {
	sc := scopeOf(ctx)
	if sc == nil {
		return nil
	}
	task := sc.task
	for task.caller != nil {
		task = task.caller
	}
	for _, v := range task.reads {
		if reflect.TypeOf(v) == t {
			return v
		}
	}
	return nil
}

// newTasks returns memory for the tasks of a step. Most steps have one task, so
// memory for several steps is allocated together: first for the input and two
// steps, which is enough for many subgraphs, then for two steps at a time.
func (r *Run) newTasks(n int) []Task {
	if n != 1 {
		return make([]Task, n)
	}
	if len(r.spareTasks) == 0 {
		n = 3
		if r.spareTasks != nil {
			n = 2
		}
		r.spareTasks = make([]Task, n)
	}
	one := r.spareTasks[:1:1]
	r.spareTasks = r.spareTasks[1:]
	return one
}

// sync updates a view.
func (r *Run) sync(i int) any {
	p, v := r.plan.views[i], &r.views[i]
	if v.init && r.recentVer == r.ver && v.gen == r.ver-1 && p.fieldOf != nil {
		for k := range r.recent {
			if c := r.recent[k].ch; p.fieldOf[c.id] >= 0 {
				set(p.fields[p.fieldOf[c.id]].in(v.elem), &r.slots[c.id])
			}
		}
		v.gen = r.ver
		return v.ptr
	}
	return p.sync(v, r.slots, r.ver, r.plan.schema.words, r.plan.public)
}

// executeAll runs the tasks of a step: one task on this goroutine, several
// concurrently. If a task fails, the results of finished tasks are saved for a
// later continuation.
func (r *Run) executeAll(tasks []*Task) error {
	if err := r.oneEach(tasks); err != nil {
		return err
	}
	if err := r.restore(tasks); err != nil {
		return err
	}
	r.emitStarts(tasks)
	if r.set.StepTimeout > 0 {
		return r.executeInTime(tasks)
	}
	return r.executeIn(r.ctx, tasks)
}

func (r *Run) executeIn(ctx context.Context, tasks []*Task) error {
	if len(tasks) == 1 {
		tasks[0].execute(ctx)
	} else {
		r.executeTogether(ctx, tasks)
	}
	return r.outcomeOf(tasks)
}

// executeInTime is like executeIn, but enforces the step timeout.
func (r *Run) executeInTime(tasks []*Task) error {
	late := &TimeoutError{Limit: r.set.StepTimeout}
	ctx, stop := context.WithTimeoutCause(r.ctx, late.Limit, late)
	defer stop()
	err := r.executeIn(ctx, tasks)
	if err == nil || !errors.Is(context.Cause(ctx), late) || treadletype.IsPause(err) {
		return err
	}
	for _, t := range tasks { // a command for the parent graph ends the run anyway
		if up, ok := errors.AsType[*parentCommand](t.err); ok {
			return up
		}
	}
	return fmt.Errorf("graph %q: step %d %w", r.plan.name, r.step, late)
}

// executeTogether runs several tasks concurrently, limited by MaxConcurrency. The
// first failure cancels the others.
//
// Each goroutine starts the next goroutine before it runs its task, and takes
// another task afterward. A blocked task therefore never delays another, and short
// tasks share a few goroutines.
func (r *Run) executeTogether(ctx context.Context, tasks []*Task) {
	for _, t := range tasks {
		t.together = true
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := len(tasks)
	if m := r.set.MaxConcurrency; m > 0 && m < limit {
		limit = m
	}
	writer := r.newResultWriter(tasks)
	var wg sync.WaitGroup
	var mu sync.Mutex // guards the following
	next, working, starting := 0, 0, 0
	var work func()
	start := func() { // mu must be held
		if next < len(tasks) && starting == 0 && working < limit {
			starting++
			working++
			wg.Go(work)
		}
	}
	one := func(t *Task) {
		returned := false
		defer writer.ended(t)
		defer func() {
			ending := false // the goroutine is ending, not only the task
			if !returned {
				p := recover()
				ending = p == nil
				if err := t.unreturned(p); t.err == nil { // otherwise the task has recorded its error
					t.err = t.nodeError(&t.scope, err)
				}
			}
			if t.err != nil && !errors.Is(t.err, errNotStarted) && !treadletype.IsPause(t.err) {
				t.first = ctx.Err() == nil
				cancel(&abortError{t.Name()})
			}
			if ending {
				mu.Lock()
				working--
				start()
				mu.Unlock()
			}
		}()
		if ctx.Err() != nil && !t.cached {
			t.err, t.aborted = errNotStarted, aborted(ctx, errNotStarted)
		} else {
			t.execute(ctx)
			if t.err == nil && !t.restored {
				t.route(ctx)
			}
		}
		returned = true
	}
	work = func() {
		mu.Lock()
		starting--
		for next < len(tasks) {
			t := tasks[next]
			next++
			start()
			mu.Unlock()
			one(t)
			mu.Lock()
		}
		working--
		mu.Unlock()
	}
	mu.Lock()
	start()
	mu.Unlock()
	wg.Wait()
	writer.close()
}

// errNotStarted is the error of a task that did not start because another task
// failed or the run's context ended.
var errNotStarted = fmt.Errorf("not started: %w", context.Canceled)

// outcomeOf returns the error that ends the step, if any. In order of precedence, it is
// the first failure in task order that was not caused by a cancellation, an error
// caused by one, the interrupts, or a command for the parent graph.
func (r *Run) outcomeOf(tasks []*Task) error {
	var first, echo, up error
	paused := false
	for _, t := range tasks {
		_, asked := errors.AsType[*InterruptError](t.err)
		switch {
		case t.err == nil:
		case asked:
			paused = true
		case treadletype.IsPause(t.err):
			if up == nil {
				up = t.err
			}
		case !t.first && (errors.Is(t.err, context.Canceled) || t.node.Handler != nil && len(tasks) > 1):
			// It was canceled, or its handler did not run for that reason.
			if echo == nil {
				echo = t.err
			}
		case first == nil:
			first = t.err
		}
	}
	if paused && r.modes&ModeTasks != 0 {
		defer r.emitPaused(tasks) // after the interrupt events
	}
	switch {
	case r.ctx.Err() != nil && (first != nil || echo != nil):
		stopped := canceled(r.ctx, r.plan.name, r.step)
		return joinErrors(stopped, first, r.putResults(tasks))
	case first != nil:
		return joinErrors(first, r.putResults(tasks))
	case echo != nil:
		return joinErrors(echo, r.putResults(tasks))
	case paused:
		return r.interrupted(tasks)
	case errors.Is(up, ErrDrained):
		return joinErrors(up, r.putResults(tasks))
	}
	return up
}

// joinErrors is like errors.Join, but returns a single error unwrapped.
func joinErrors(errs ...error) error {
	errs = slices.DeleteFunc(errs, func(e error) bool { return e == nil })
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}
