package pregel

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// questions are the questions of a run's tasks, as its checkpoint has them.
// Only the outermost run has answers.
type questions struct {
	open      []Pause
	answered  []Pause                      // answered, but their tasks are not finished
	owner     map[string]string            // question id → task of this run
	answers   map[string]answer            // by question id
	answersOf map[string]map[string]answer // by task
}

// noQuestions are those of a run that has not loaded a checkpoint. They are never changed.
var noQuestions = &questions{}

// answer is a stored answer with the question it was given to.
type answer struct {
	Question json.RawMessage `json:"question,omitempty"` // absent if it is not known, in an imported thread
	Answer   json.RawMessage `json:"answer,omitempty"`   // nil if the deadline has passed and has no default
	Deadline time.Time       `json:"deadline,omitzero"`  // the deadline that gave the answer; zero if somebody did
}

// Asked is a question, or a signal that is waited for.
type Asked struct {
	Value    any // of a question
	Key      string
	Schema   json.RawMessage
	Deadline *Deadline // nil: none
}

// waiter returns the attempt that ctx belongs to if it can wait for something that
// comes after the run. what names the function that asks.
func waiter(ctx context.Context, what string) (*scope, error) {
	sc := scopeOf(ctx)
	if sc == nil {
		return nil, ErrOutsideRun
	}
	if sc.late() { // another attempt may be running and ask the question itself
		return nil, context.Cause(sc)
	}
	t := sc.task
	if err := t.anyFault(); err != nil {
		return nil, err
	}
	switch {
	case t.run.set.Saver == nil:
		return nil, t.noteFault(fmt.Errorf("%s: %w", what, ErrNoSaver))
	case t.run.set.Thread == "":
		return nil, t.noteFault(fmt.Errorf("%s: %w", what, ErrNoThread))
	}
	return sc, nil
}

// Ask returns the answer to a question, or notes the question and returns an
// error that the node must return. Questions are identified by their order
// within the task, or by key.
func Ask(ctx context.Context, q Asked) (json.RawMessage, error) {
	sc, err := waiter(ctx, "interrupt")
	if err != nil {
		return nil, err
	}
	t := sc.task
	if pause := sc.stop(); pause != nil && q.Key == "" { // with keys, a node can ask several questions together
		return nil, pause
	}
	raw, err := toJSON(q.Value)
	if err != nil {
		return nil, fmt.Errorf("interrupt: the question has no JSON: %w", err)
	}
	place := "key " + q.Key
	if q.Key == "" {
		place = "#" + strconv.Itoa(int(sc.asks.Add(1)-1))
	}
	p := t.newPause(place)
	p.Value, p.Key, p.Schema = raw, q.Key, q.Schema
	for a, ok := t.run.root().answers[p.ID]; ok; a, ok = t.run.root().answers[p.ID] {
		if a.Answer == nil && !a.Deadline.IsZero() {
			p.Due = a.Deadline
			return nil, &DeadlineError{Pause: p}
		}
		if err := t.run.plan.fits(p, a.Answer); err != nil {
			t.waitAgain(&p, "a stored answer does not fit any more, and the question is asked again", err)
			continue
		}
		if a.Question != nil && !sameJSON(a.Question, raw) { // an imported answer may not know its question
			if err := t.run.changedQuestion(t, a.Question, raw); err != nil {
				return nil, err
			}
		}
		return a.Answer, nil
	}
	if err := t.expires(ctx, &p, q.Deadline); err != nil {
		return nil, err
	}
	if p.Due.IsZero() || time.Now().Before(p.Due) {
		return nil, t.waitsFor(sc, p)
	}
	if p.Default == nil {
		return nil, &DeadlineError{Pause: p}
	}
	return p.Default, nil
}

// newPause returns a pause of the task. place is where the task waits.
func (t *Task) newPause(place string) Pause {
	return Pause{ID: questionID(t.namespace(), place), Node: t.Name(), Namespace: t.run.path()}
}

// waitAgain gives the pause another ID. An older version of the node has waited with this
// one, for a value of another type, and got it.
func (t *Task) waitAgain(p *Pause, why string, err error) {
	t.run.warn(why, "node", t.Name(), "error", err)
	p.ID = questionID(t.namespace(), p.ID+" again")
}

// waitsFor notes a pause and returns the error that the node must return.
func (t *Task) waitsFor(sc *scope, p Pause) error {
	t.pause(2*sc.calls.Load(), p)
	pause := &InterruptError{Graph: t.run.plan.name, Pauses: []Pause{p}}
	sc.stopAt(pause)
	return pause
}

func (r *Run) changedQuestion(t *Task, answered, asked json.RawMessage) error {
	err := &InterruptChangedError{Node: t.Name(), Answered: answered, Asked: asked}
	if r.plan.spec.Strict {
		return err
	}
	r.warn("a question has changed since it was answered", "node", t.Name(), "error", err)
	return nil
}

// warn logs something that the graph's owner should know and the run survives.
func (r *Run) warn(what string, details ...any) {
	if r.set.Logger != nil {
		r.set.Logger.Warn("treadle: "+what, append([]any{"graph", r.plan.name}, details...)...)
	}
}

// pause notes questions on the task and on its callers. Calls run side by side,
// and their questions are ordered by call: at is twice the number of calls that
// the task had started when it asked, and one more for a question of the next
// call.
func (t *Task) pause(at int32, ps ...Pause) {
	for ; t != nil; t = t.caller {
		extras := t.needExtras()
		extras.mu.Lock()
		for _, p := range ps {
			if slices.ContainsFunc(extras.pauses, func(o Pause) bool { return o.ID == p.ID }) {
				continue
			}
			i, _ := slices.BinarySearch(extras.places, at+1)
			extras.places = slices.Insert(extras.places, i, at)
			extras.pauses = slices.Insert(extras.pauses, i, p)
		}
		extras.mu.Unlock()
		at = 2*t.index + 1
	}
}

// paused returns the questions that the task has asked.
func (t *Task) paused() []Pause {
	extras := t.extras.Load()
	if extras == nil {
		return nil
	}
	extras.mu.Lock()
	defer extras.mu.Unlock()
	return slices.Clone(extras.pauses)
}
