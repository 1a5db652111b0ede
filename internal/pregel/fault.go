package pregel

import (
	"encoding/json"
	"errors"

	"github.com/treadle-go/treadle/internal/caught"
	"github.com/treadle-go/treadle/treadletype"
)

// A faultError is a failure of the engine itself, not of a node: a failing saver or
// cache, an unreadable saved value, or an interrupt that cannot be raised. It is
// recorded on the task where it happened and on the tasks that contain it. The task
// ends with the fault even if the node, a tool, an error handler, or a branch hides
// the error. A fault is neither retried nor handled, because the saved state may
// differ from what happened.
type faultError struct{ err error }

func (e *faultError) Error() string { return e.err.Error() }

func (e *faultError) Unwrap() error { return e.err }

// IsFault reports whether err is an engine failure, from any run.
func IsFault(err error) bool {
	_, ok := errors.AsType[*faultError](err)
	return ok
}

// asFault marks an error as a fault.
func asFault(err error) error {
	if err == nil || IsFault(err) {
		return err
	}
	return &faultError{err}
}

// noteFault records a fault on the task and on the tasks that contain it. The first
// fault of a task wins.
func (t *Task) noteFault(err error) error {
	err = asFault(err)
	for ; t != nil; t = t.around() {
		extras := t.needExtras()
		extras.mu.Lock()
		if extras.fault == nil {
			extras.fault = err
		}
		extras.mu.Unlock()
	}
	return err
}

// around returns the task that contains this one: its caller, or the task that its
// graph runs in.
func (t *Task) around() *Task {
	if t.caller != nil {
		return t.caller
	}
	if t.run.within().late() { // abandoned: another attempt may be running
		return nil
	}
	return t.run.parent()
}

// fault returns the fault recorded on the task, or nil.
func (t *Task) fault() error {
	extras := t.extras.Load()
	if extras == nil {
		return nil
	}
	extras.mu.Lock()
	defer extras.mu.Unlock()
	return extras.fault
}

// anyFault returns the fault recorded on the task or on a task that contains it.
// After a fault, nothing new starts.
func (t *Task) anyFault() error {
	for ; t != nil; t = t.around() {
		if err := t.fault(); err != nil {
			return err
		}
	}
	return nil
}

// Failed implements observe.Failing. A pause ends the attempt, as a fault does.
func (s *scope) Failed() error {
	if err := s.task.anyFault(); err != nil {
		return err
	}
	return s.stop()
}

// orFault returns the error of a call to user code: the recorded fault, or err if
// there is none or if err wraps it.
func (t *Task) orFault(err error) error {
	fault := t.fault()
	switch {
	case fault == nil:
		return err
	case err != nil && !treadletype.IsPause(err) && errors.Is(err, fault):
		return err
	}
	return fault
}

// final reports whether err must be neither retried nor handled.
func (t *Task) final(err error) bool {
	if treadletype.IsPause(err) || t.fault() != nil || IsFault(err) {
		return true
	}
	e, ok := errors.AsType[*caught.Error](err)
	return ok && e.Exit
}

// saverFault marks err as a saver failure. In a subgraph run, it also records the
// fault on the task that contains the run.
func (r *Run) saverFault(err error) error {
	switch {
	case err == nil:
		return nil
	case r.parent() != nil && !r.within().late():
		return r.parent().noteFault(err)
	}
	return asFault(err)
}

// readFault is like saverFault, but for reads: it does not treat the end of the
// run's context as a saver failure.
func (r *Run) readFault(err error) error {
	if r.ctx.Err() != nil {
		return err
	}
	return r.saverFault(err)
}

// noteExit records the error of a function that ended its goroutine, which also
// ends the calls of the containing tasks.
func (t *Task) noteExit(err error) {
	extras := t.needExtras()
	extras.mu.Lock()
	defer extras.mu.Unlock()
	if extras.exit == nil {
		extras.exit = err
	}
}

// exitError returns the error recorded by noteExit.
func (t *Task) exitError() error {
	extras := t.extras.Load()
	if extras == nil {
		return nil
	}
	extras.mu.Lock()
	defer extras.mu.Unlock()
	return extras.exit
}

// unreturned returns the error of a task in which a function did not return. It is
// called in a deferred function with the result of recover.
func (t *Task) unreturned(p any) error {
	if err := t.exitError(); err != nil && p == nil {
		return err
	}
	err := caught.New("", p)
	if p == nil {
		t.noteExit(err)
	}
	return err
}

// unreturned is like [Task.unreturned], but for a run: for its work between tasks,
// such as reducing and saving, or for its only task.
func (r *Run) unreturned(p any) error {
	err := r.exited
	if t := r.one[0]; err == nil && t != nil && t.err != nil && p == nil {
		if e, ok := errors.AsType[*caught.Error](t.err); ok && e.Exit {
			err = t.err
		}
	}
	if err == nil {
		e := caught.New("", p)
		err = &NodeError{Graph: r.plan.name, Path: r.ns(), Step: r.step, Attempt: 1, Err: e, Stack: e.Stack}
	}
	if p == nil && r.parent() != nil {
		r.parent().noteExit(err)
	}
	return err
}

// located adds the graph, step, and stack to the error of a function that did not
// return and that no node called.
func (r *Run) located(err error) error {
	if err == nil {
		return nil
	}
	e, ok := errors.AsType[*caught.Error](err)
	if !ok {
		return err
	}
	if _, has := errors.AsType[*NodeError](err); has {
		return err
	}
	return &NodeError{Graph: r.plan.name, Path: r.ns(), Step: r.step, Attempt: 1, Err: err, Stack: e.Stack}
}

// toJSON is like json.Marshal, but returns a panic of one of the value's methods as
// an error.
func toJSON(v any) (raw []byte, err error) {
	if s, ok := v.(string); ok { // most interrupt values are strings
		return appendText(make([]byte, 0, len(s)+2), s), nil
	}
	defer func() {
		if p := recover(); p != nil {
			err = caught.New("MarshalJSON: ", p)
		}
	}()
	return json.Marshal(v)
}

// textOf returns an error's text, or the panic of its Error method.
func textOf(err error) (text string) {
	defer func() {
		if p := recover(); p != nil {
			text = caught.New("Error: ", p).Error()
		}
	}()
	return err.Error()
}
