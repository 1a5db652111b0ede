package pregel

import (
	"fmt"

	"github.com/treadle-go/treadle/internal/caught"
)

// handlerFirst is the first ordinal of the interrupts, calls, and subgraph runs of
// an error handler. A fixed start makes their IDs independent of the node's
// progress, because the node does not run again.
const handlerFirst = 1 << 20

// handlerError reports the failure or interrupt of an error handler.
type handlerError struct{ err, failure error }

func (e *handlerError) Error() string {
	return fmt.Sprintf("error handler: %v (handling: %v)", e.err, e.failure)
}

func (e *handlerError) Unwrap() []error { return []error{e.err, e.failure} }

// handle calls the node's error handler.
func (t *Task) handle(sc *scope, failure error) (err error) {
	t.out.clear()
	t.dropPauses()
	ne := t.nodeError(sc, failure)
	sc = &scope{Context: sc.Context, task: t, attempt: sc.attempt, span: sc.span}
	sc.asks.Store(handlerFirst)
	sc.calls.Store(handlerFirst)
	t.nested.Store(handlerFirst)
	returned := false
	defer func() {
		if !returned {
			p := recover()
			e := caught.New("", p)
			err = e
			if p == nil {
				t.noteExit(&handlerError{err, failure})
			}
		}
		t.awaitCalls(err)
		err = t.orFault(err)
		if ps := t.paused(); err == nil && len(ps) > 0 {
			err = &SwallowedInterruptError{Pauses: ps}
		}
		if err != nil {
			t.out.clear()
			err = &handlerError{err, failure}
		}
	}()
	in := t.in
	if t.packet != nil {
		in = t.packet.input
	}
	t.emitFailure(ne)
	t.handling = true
	if t.node.wholeState {
		r := t.run
		in = r.plan.state.fresh(r.slots, r.plan.schema.words, r.plan.public)
	}
	out, err := t.node.Handler.Call(sc, in, ne)
	returned = true
	if err != nil {
		return err
	}
	t.out.handled = true
	return t.take(t.node.handler, out)
}
