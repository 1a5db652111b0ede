package pregel

import (
	"context"
	"slices"
	"time"

	"github.com/treadle-go/treadle/internal/observe"
)

// trace is the tracing state of a run. A run without a tracer has none, and its
// tasks pay only for the nil check.
type trace struct {
	tracer *observe.Tracer
	span   observe.Span // of the run
}

// startTrace starts the span of a run that has not started. sc is the attempt that
// contains the run, or nil.
func (r *Run) startTrace(in *Input, sc *scope) {
	tracer := observe.TracerOf(r.ctx)
	if tracer == nil {
		return
	}
	op := &observe.Op{Kind: observe.Run, Name: r.plan.name, Place: observe.Place{Graph: r.plan.name, Thread: r.set.Thread}}
	switch {
	case in.JSON != nil:
		op.Input = in.JSON
	case in.Resume == nil:
		op.Input = in.Value
	}
	if sc == nil {
		op.Place.RunID = r.id()
	} else {
		up := sc.task.run
		op.Place.Nested = true
		op.Place.RunID = up.id()
		op.Place.Thread = up.set.Thread
		op.Place.Namespace = sc.task.namespace()
	}
	ctx, span := tracer.Start(r.ctx, op)
	r.ctx, r.trace = ctx, &trace{tracer, span}
}

// endTrace ends the span of a run.
func (r *Run) endTrace(err error) {
	switch {
	case r.trace == nil:
	case r.slots == nil: // it did not start
		r.trace.span.End(nil, err)
	default:
		r.trace.span.End(r.plan.schema.record(r.slots, r.plan.output), err)
	}
}

// place returns the location of the task.
func (t *Task) place() observe.Place {
	r := t.run
	return observe.Place{
		Graph:     r.plan.name,
		Thread:    r.set.Thread,
		RunID:     r.id(),
		TaskID:    t.ID(),
		Namespace: r.ns(),
		Step:      t.step,
		Nested:    r.parent() != nil,
	}
}

// executeTraced is like complete, but with a span. Results restored from an earlier
// run have no span.
func (t *Task) executeTraced(ctx context.Context) {
	op := &observe.Op{Kind: observe.Node, Name: t.node.Name, Place: t.place()}
	if t.packet != nil {
		op.Input = t.packet.input
	} else {
		op.Input = t.inputRecord()
	}
	ctx, span := t.run.trace.tracer.Start(ctx, op)
	defer func() { // even if the node ends the goroutine
		if t.cached {
			span.End(observe.Hit{Output: t.written()}, t.err)
			return
		}
		span.End(t.written(), t.err)
	}()
	t.complete(ctx)
}

// traceRetry starts the span of an attempt after the first. It returns nil if the
// run is not traced.
func (t *Task) traceRetry(sc *scope, cause error, wait time.Duration) observe.Span {
	if t.run.trace == nil {
		return nil
	}
	op := &observe.Op{Kind: observe.Retry, Name: t.node.Name, Attempt: int(sc.attempt), Cause: cause, Wait: wait}
	ctx, span := t.run.trace.tracer.Start(sc.Context, op)
	sc.Context = ctx
	return span
}

// startTrace starts the span of a call. It returns nil if the run is not traced, or
// if the call appears as part of its caller.
func (c *startedCall) startTrace() observe.Span {
	t := &c.task
	if t.run.trace == nil || slices.Contains(t.node.Tags, TagHidden) {
		return nil
	}
	op := &observe.Op{Kind: observe.Task, Name: t.node.Name, Input: c.packet.input, Place: t.place()}
	ctx, span := t.run.trace.tracer.Start(c.ctx, op)
	c.ctx = ctx
	return span
}
