package pregel

import (
	"encoding/json"
	"errors"

	"github.com/treadle-go/treadle/internal/caught"
	"github.com/treadle-go/treadle/treadletype"
)

// A fault is a failure of the engine itself, not of a node: a saver or cache
// that fails, a stored value that cannot be read, a question that cannot be
// asked. It is noted on the task in which it happened and on the tasks around
// it. The task ends with the fault even if the node, a tool, an error handler
// or a branch hides the error. It is not retried and not handled, because the
// stored state may differ from what happened.
type faultError struct{ err error }

func (e *faultError) Error() string { return e.err.Error() }

func (e *faultError) Unwrap() error { return e.err }

// IsFault reports whether err is a failure of an engine, of any run.
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

// noteFault notes a fault on the task and on the tasks around it. The first
// fault of a task counts.
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

// around returns the task that this one runs for: its caller, or the task that
// its graph is nested in.
func (t *Task) around() *Task {
	if t.caller != nil {
		return t.caller
	}
	if t.run.within().late() { // abandoned: another attempt may be running
		return nil
	}
	return t.run.parent()
}

// fault returns the fault noted on the task.
func (t *Task) fault() error {
	extras := t.extras.Load()
	if extras == nil {
		return nil
	}
	extras.mu.Lock()
	defer extras.mu.Unlock()
	return extras.fault
}

// anyFault returns the fault noted on the task or on one around it. After a
// fault nothing new is started.
func (t *Task) anyFault() error {
	for ; t != nil; t = t.around() {
		if err := t.fault(); err != nil {
			return err
		}
	}
	return nil
}

// Failed implements observe.Failing. A pause ends the attempt like a fault does.
func (s *scope) Failed() error {
	if err := s.task.anyFault(); err != nil {
		return err
	}
	return s.stop()
}

// orFault returns the result of a call of a user's function: the noted fault,
// or err if there is none or if err wraps the fault.
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

// final reports errors that are not retried and not handled.
func (t *Task) final(err error) bool {
	if treadletype.IsPause(err) || t.fault() != nil || IsFault(err) {
		return true
	}
	e, ok := errors.AsType[*caught.Error](err)
	return ok && e.Exit
}

// saverFault marks a failure of the run's saver. In a nested run it is noted on
// the task around it.
func (r *Run) saverFault(err error) error {
	switch {
	case err == nil:
		return nil
	case r.parent() != nil && !r.within().late():
		return r.parent().noteFault(err)
	}
	return asFault(err)
}

// readFault is saverFault for reads. The end of the reader's context is not a
// failure of the saver.
func (r *Run) readFault(err error) error {
	if r.ctx.Err() != nil {
		return err
	}
	return r.saverFault(err)
}

// noteExit notes the error of a function that ended its goroutine, and with it
// the calls of the tasks around it.
func (t *Task) noteExit(err error) {
	extras := t.needExtras()
	extras.mu.Lock()
	defer extras.mu.Unlock()
	if extras.exit == nil {
		extras.exit = err
	}
}

// exitError returns the error that noteExit noted.
func (t *Task) exitError() error {
	extras := t.extras.Load()
	if extras == nil {
		return nil
	}
	extras.mu.Lock()
	defer extras.mu.Unlock()
	return extras.exit
}

// unreturned returns the error of a task in which a function did not return. It
// is called in a deferred function with the result of recover.
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

// unreturned is the same for a run: for its work between tasks, such as
// reducing and storing, or for its only task.
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

// located adds the graph, step and stack to the error of a function that did
// not return and that no node called.
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

// toJSON is json.Marshal. A panic of a method of the value is returned as an
// error.
func toJSON(v any) (raw []byte, err error) {
	if s, ok := v.(string); ok { // most questions
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
