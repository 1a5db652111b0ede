package pregel

import (
	"context"
	"errors"
	"time"
)

// attempt calls the node once and collects its result.
func (t *Task) attempt(sc *scope) error {
	t.out.clear()
	if t.nested.Load() != 0 { // a load is faster than a store
		t.nested.Store(0)
	}
	t.dropPauses()
	var out any
	var err error
	in := t.in
	if t.packet != nil {
		in = t.packet.input
	}
	switch {
	case t.timeout().isZero():
		out, err = t.call(sc, in)
	default:
		out, err = t.timed(sc, in)
	}
	t.awaitCalls(err)
	err = t.orFault(err)
	if err == nil {
		if ps := t.paused(); len(ps) > 0 {
			return &SwallowedInterruptError{Pauses: ps}
		}
		return t.take(t.node.out, out)
	}
	// A subgraph that ran inside this task sent a command to this task's graph.
	if cmd, ok := errors.AsType[*parentCommand](err); ok {
		return t.applyParentCommand(cmd)
	}
	return err
}

func (t *Task) timeout() Timeout {
	if t.packet != nil && t.packet.timeout != 0 {
		return Timeout{Run: t.packet.timeout}
	}
	return t.node.Timeout
}

// call runs the user's function. It returns a panic or the end of the goroutine as
// an error.
func (t *Task) call(sc *scope, in any) (out any, err error) {
	returned := false
	defer func() {
		if !returned {
			out, err = nil, t.unreturned(recover())
		}
	}()
	out, err = t.callNode(sc, in)
	returned = true
	return out, err
}

func (t *Task) callNode(sc *scope, in any) (out any, err error) {
	if t.node.nest != nil {
		return t.runNested(sc)
	}
	if !t.run.set.Check {
		return t.node.Call(sc, in)
	}
	before := fingerprint(in)
	out, err = t.node.Call(sc, in)
	if err == nil {
		if f := before.changed(fingerprint(in)); f != "" {
			return nil, &MutationError{Node: t.node.Name, Field: f}
		}
	}
	return out, err
}

// grace is the time that a timed-out node has to return before it is abandoned.
const grace = 5 * time.Second

// timed calls the node on a separate goroutine and enforces its timeouts.
func (t *Task) timed(sc *scope, in any) (any, error) {
	limit := t.timeout()
	if t.packet == nil {
		in = t.input() // an abandoned attempt must not read the shared view
	}
	type result struct {
		out any
		err error
	}
	ctx, cancel := context.WithCancelCause(sc.Context)
	defer cancel(nil)
	sc.Context = ctx
	sc.beat = make(chan struct{}, 1)
	done := make(chan result, 1)
	go func() {
		r := result{}
		defer func() {
			if err := t.exitError(); err != nil && r.err == nil {
				r = result{err: err}
			}
			done <- r
		}()
		r.out, r.err = t.call(sc, in)
	}()
	var run, idle <-chan time.Time
	var idler *time.Timer
	if limit.Run > 0 {
		timer := time.NewTimer(limit.Run)
		defer timer.Stop()
		run = timer.C
	}
	if limit.Idle > 0 {
		idler = time.NewTimer(limit.Idle)
		defer idler.Stop()
		idle = idler.C
	}
	expire := func(e *TimeoutError) (any, error) {
		sc.closed.Store(true)
		cancel(e)
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-done:
		case <-timer.C:
			e.Abandoned = true
		}
		return nil, e
	}
	for {
		select {
		case r := <-done:
			return r.out, r.err
		case <-sc.beat:
			if idler != nil {
				idler.Reset(limit.Idle)
			}
		case <-run:
			return expire(&TimeoutError{Node: t.node.Name, Limit: limit.Run})
		case <-idle:
			return expire(&TimeoutError{Node: t.node.Name, Limit: limit.Idle, Idle: true})
		}
	}
}
