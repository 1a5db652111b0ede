package pregel

import (
	"encoding/json"
	"errors"

	"github.com/treadle-go/treadle/internal/caught"
)

// A fault is a failure of the engine itself, not of what it runs: a saver or a
// cache that fails, a stored value that cannot be read, a question that cannot be
// asked. It is noted on the task in which it happened and on those around it.
// Whatever the node, a tool, an error handler or a branch makes of the error, the
// task ends with it: nothing is tried again and nothing handles it, because what
// has happened is not what is stored.
type faultError struct{ err error } //nolint:errname // the name says which errors these are

func (e *faultError) Error() string { return e.err.Error() }

func (e *faultError) Unwrap() error { return e.err }

// IsFault reports a failure of an engine, of whatever run it was.
func IsFault(err error) bool {
	_, ok := errors.AsType[*faultError](err)
	return ok
}

// asFault marks an error as the engine's own.
func asFault(err error) error {
	if err == nil || IsFault(err) {
		return err
	}
	return &faultError{err}
}

// noteFault notes a fault on the task and on those that it runs for. The first one
// counts.
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

// around is the task that this one runs for: the one that called it, or the one
// that its graph is nested in.
func (t *Task) around() *Task {
	if t.caller != nil {
		return t.caller
	}
	if t.run.within().late() { // left behind: another attempt may be at work
		return nil
	}
	return t.run.parent()
}

// fault is what was noted on the task.
func (t *Task) fault() error {
	extras := t.extras.Load()
	if extras == nil {
		return nil
	}
	extras.mu.Lock()
	defer extras.mu.Unlock()
	return extras.fault
}

// anyFault is what was noted on the task or on one that it runs for: nothing new is
// begun then.
func (t *Task) anyFault() error {
	for ; t != nil; t = t.around() {
		if err := t.fault(); err != nil {
			return err
		}
	}
	return nil
}

// Failed implements observe.Failing.
func (s *scope) Failed() error { return s.task.anyFault() }

// orFault is how the call of a user's function ended in which a fault may have
// been noted. What the function returned counts if it holds the fault and says
// more.
func (t *Task) orFault(err error) error {
	fault := t.fault()
	switch {
	case fault == nil:
		return err
	case err != nil && !Bubbles(err) && errors.Is(err, fault):
		return err
	}
	return fault
}

// final reports errors that no policy tries again and no handler answers for.
func (t *Task) final(err error) bool {
	if Bubbles(err) || t.fault() != nil || IsFault(err) {
		return true
	}
	e, ok := errors.AsType[*caught.Error](err)
	return ok && e.Exit
}

// saverFault marks a failure of the run's saver. In a nested run it is noted on the
// task around it, whatever that does with the run's error.
func (r *Run) saverFault(err error) error {
	switch {
	case err == nil:
		return nil
	case r.parent() != nil && !r.within().late():
		return r.parent().noteFault(err)
	}
	return asFault(err)
}

// readFault is faulted for what could not be read. That the reader's context is
// over is no failure of the saver.
func (r *Run) readFault(err error) error {
	if r.ctx.Err() != nil {
		return err
	}
	return r.saverFault(err)
}

// noteExit notes the error of a function that has ended the goroutine it was called
// on, and with it the calls of the tasks around it.
func (t *Task) noteExit(err error) {
	extras := t.needExtras()
	extras.mu.Lock()
	defer extras.mu.Unlock()
	if extras.exit == nil {
		extras.exit = err
	}
}

// exitError is what noteExit noted.
func (t *Task) exitError() error {
	extras := t.extras.Load()
	if extras == nil {
		return nil
	}
	extras.mu.Lock()
	defer extras.mu.Unlock()
	return extras.exit
}

// unreturned is the error of a task in whose course a function did not return.
// It is made in a deferred function, with what recover returned.
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

// unreturned is the same of a run: of what it does between its tasks, such as
// reducing and storing, or of its only task.
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

// located gives an error of a function that did not return, and that no node
// called, the place and the stack that those of nodes have.
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

// toJSON is json.Marshal. A panic of one of the value's methods is an error.
func toJSON(v any) (raw []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = caught.New("MarshalJSON: ", p)
		}
	}()
	return json.Marshal(v)
}

// textOf is an error's text. A panic of its method is part of it.
func textOf(err error) (text string) {
	defer func() {
		if p := recover(); p != nil {
			text = caught.New("Error: ", p).Error()
		}
	}()
	return err.Error()
}
