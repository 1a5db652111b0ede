package pregel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// prepare makes the tasks of the step in commit order: nodes by name, then
// sends in the order they were sent.
func (r *Run) prepare() ([]*Task, error) {
	n := len(r.ctl.armed) + len(r.ctl.sends)
	block := make([]Task, n)
	tasks := r.one[:]
	if n != 1 {
		tasks = make([]*Task, n)
	}
	for i := range block {
		t := &block[i]
		t.run, t.step, t.head, t.index = r, r.step, r.head, -1
		tasks[i] = t
		if k := i - len(r.ctl.armed); k >= 0 {
			t.packet, t.index = &r.ctl.sends[k], k
			t.node = r.plan.nodes[t.packet.node]
			continue
		}
		t.node = r.plan.nodes[r.ctl.armed[i]]
		if t.node.sendOnly != "" {
			return nil, t.nodeError(&t.scope, &GotoError{Graph: r.plan.name, To: t.node.Name,
				Msg: fmt.Sprintf("takes %s, which only Send supplies, and was reached without one", t.node.sendOnly)})
		}
		switch n := t.node; {
		case n.view >= 0:
			t.in = r.sync(n.view)
		case n.nest != nil && (n.Handler != nil || n.Cache != nil):
			t.in = r.inherited(n)
		}
	}
	return tasks, nil
}

// sync brings a view up to date.
func (r *Run) sync(i int) any {
	return r.plan.views[i].sync(&r.views[i], r.slots, r.ver, r.plan.schema.words, r.plan.public)
}

// executeAll runs the tasks of a step: a single one on this goroutine, several
// on one goroutine each, bounded by MaxConcurrency. The first failure cancels
// the others; what finished before is kept for a continuation.
func (r *Run) executeAll(tasks []*Task) (err error) {
	if err := r.oneEach(tasks); err != nil {
		return err
	}
	if err := r.restore(tasks); err != nil {
		return err
	}
	r.announce(tasks)
	ctx := r.ctx
	if d := r.set.StepTimeout; d > 0 {
		late := &TimeoutError{Limit: d}
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, d, late)
		defer stop()
		defer func() {
			if err != nil && errors.Is(context.Cause(ctx), late) && !Bubbles(err) {
				err = fmt.Errorf("graph %q: step %d %w", r.plan.name, r.step, late)
				for _, t := range tasks { // a command for the parent ends the graph anyway
					if up, ok := errors.AsType[*parentCommand](t.err); ok {
						err = up
					}
				}
			}
		}()
	}
	if len(tasks) == 1 {
		tasks[0].execute(ctx)
		return r.outcomeOf(tasks)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	workers := len(tasks)
	if m := r.set.MaxConcurrency; m > 0 && m < workers {
		workers = m
	}
	keeper := r.keeper(tasks)
	var next atomic.Int64
	var wg sync.WaitGroup
	var work func()
	one := func(t *Task) {
		returned := false
		defer keeper.ended(t)
		defer func() {
			if !returned {
				if err := t.unreturned(recover()); t.err == nil { // else it has noted by itself how it ended
					t.err = t.nodeError(&t.scope, err)
				}
			}
			if t.err != nil && !errors.Is(t.err, errNotStarted) && !Bubbles(t.err) {
				t.first = ctx.Err() == nil
				cancel(fmt.Errorf("cancelled because %q failed: %w", t.Name(), context.Canceled))
			}
			if !returned {
				wg.Go(work) // for this goroutine, which may be ending
			}
		}()
		if ctx.Err() != nil && !t.cached {
			t.err = errNotStarted
		} else {
			t.execute(ctx)
			if t.err == nil && !t.kept {
				t.route(ctx)
			}
		}
		returned = true
	}
	work = func() {
		for i := next.Add(1) - 1; i < int64(len(tasks)); i = next.Add(1) - 1 {
			one(tasks[i])
		}
	}
	for range workers {
		wg.Go(work)
	}
	wg.Wait()
	keeper.close()
	return r.outcomeOf(tasks)
}

// errNotStarted marks tasks that a sibling's failure kept from starting.
var errNotStarted = fmt.Errorf("not started: %w", context.Canceled)

// outcomeOf decides how the step ended: the first failure in task order that
// is a node's own, not the echo of a cancellation; then a command for the
// parent graph.
func (r *Run) outcomeOf(tasks []*Task) error {
	var first, echo, up error
	paused := false
	for _, t := range tasks {
		_, asked := errors.AsType[*InterruptError](t.err)
		switch {
		case t.err == nil:
		case asked:
			paused = true
		case Bubbles(t.err):
			if up == nil {
				up = t.err
			}
		case !t.first && (errors.Is(t.err, context.Canceled) || t.node.Handler != nil && len(tasks) > 1):
			// It was cancelled, or its handler was not asked because of that.
			if echo == nil {
				echo = t.err
			}
		case first == nil:
			first = t.err
		}
	}
	if paused && r.modes&ModeTasks != 0 {
		defer r.emitPaused(tasks) // after the questions themselves
	}
	switch {
	case r.ctx.Err() != nil && (first != nil || echo != nil):
		stopped := cancelled(r.ctx, r.plan.name, r.step)
		return joinErrors(stopped, first, r.keep(tasks))
	case first != nil:
		return joinErrors(first, r.keep(tasks))
	case echo != nil:
		return joinErrors(echo, r.keep(tasks))
	case paused:
		return r.interrupted(tasks)
	case errors.Is(up, ErrDrained):
		return joinErrors(up, r.keep(tasks))
	}
	return up
}

// joinErrors is errors.Join, but a lone error stays itself.
func joinErrors(errs ...error) error {
	errs = slices.DeleteFunc(errs, func(e error) bool { return e == nil })
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}
