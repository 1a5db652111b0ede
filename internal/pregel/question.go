package pregel

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
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

// answer is a stored answer with the question it was given to.
type answer struct {
	Question json.RawMessage `json:"question,omitempty"` // absent if it is not known, in an imported thread
	Answer   json.RawMessage `json:"answer"`
}

// Ask returns the answer to a question, or notes the question and returns an
// error that the node must return. Questions are identified by their order
// within the task, or by key.
func Ask(ctx context.Context, question any, key string, schema json.RawMessage) (json.RawMessage, error) {
	sc := scopeOf(ctx)
	if sc == nil {
		return nil, ErrOutsideRun
	}
	if sc.late() { // another attempt may be running and ask the question itself
		return nil, context.Cause(sc)
	}
	t := sc.task
	r := t.run
	if err := t.anyFault(); err != nil {
		return nil, err
	}
	switch {
	case r.set.Saver == nil:
		return nil, t.noteFault(fmt.Errorf("interrupt: %w", ErrNoSaver))
	case r.set.Thread == "":
		return nil, t.noteFault(fmt.Errorf("interrupt: %w", ErrNoThread))
	}
	raw, err := toJSON(question)
	if err != nil {
		return nil, fmt.Errorf("interrupt: the question has no JSON: %w", err)
	}
	place := "key " + key
	if key == "" {
		place = "#" + strconv.Itoa(int(sc.asks.Add(1)-1))
	}
	p := Pause{ID: questionID(t.namespace(), place), Value: raw, Node: t.Name(), Namespace: r.path(), Key: key, Schema: schema}
	if a, ok := r.root().answers[p.ID]; ok {
		if a.Question != nil && string(a.Question) != string(raw) { // an imported answer may not know its question
			if err := r.changedQuestion(t, a.Question, raw); err != nil {
				return nil, err
			}
		}
		return a.Answer, nil
	}
	t.pause(2*sc.calls.Load(), p)
	return nil, &InterruptError{Graph: r.plan.name, Pauses: []Pause{p}}
}

func (r *Run) changedQuestion(t *Task, answered, asked json.RawMessage) error {
	err := &InterruptChangedError{Node: t.Name(), Answered: answered, Asked: asked}
	if r.plan.spec.Strict {
		return err
	}
	if r.set.Logger != nil {
		r.set.Logger.Warn("treadle: a question has changed since it was answered", "graph", r.plan.name, "node", t.Name(), "error", err)
	}
	return nil
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
