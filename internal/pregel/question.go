package pregel

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"
)

// questions holds the interrupts of a run's tasks, as loaded from its checkpoint.
// Only the top-level run has answers.
type questions struct {
	open      []Pause
	answered  []Pause                      // answered, but their tasks have not finished
	owner     map[string]string            // interrupt ID → task of this run
	answers   map[string]answer            // by interrupt ID
	answersOf map[string]map[string]answer // by task
}

// noQuestions is used by a run that has not loaded a checkpoint. It is never
// modified.
var noQuestions = &questions{}

// answer is a saved answer, together with its interrupt value.
type answer struct {
	Question json.RawMessage `json:"question,omitempty"` // absent if unknown, in an imported thread
	Answer   json.RawMessage `json:"answer,omitempty"`   // nil if the deadline passed without a default
	Deadline time.Time       `json:"deadline,omitzero"`  // the deadline that supplied the answer; zero if a caller did
}

// Asked is an interrupt to raise, or a signal to wait for.
type Asked struct {
	Value    any // of an interrupt
	Key      string
	Schema   json.RawMessage
	Deadline *Deadline // nil means none
}

// waiter returns the attempt that ctx belongs to, if the attempt can wait for an
// event after the run. what names the calling function, for errors.
func waiter(ctx context.Context, what string) (*scope, error) {
	sc := scopeOf(ctx)
	if sc == nil {
		return nil, ErrOutsideRun
	}
	if sc.late() { // another attempt may be running and raise the interrupt itself
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

// Ask returns the answer to an interrupt. If there is none yet, Ask records the
// interrupt and returns an error that the node must return. Interrupts are
// identified by their order within the task, or by key.
func Ask(ctx context.Context, q Asked) (json.RawMessage, error) {
	sc, err := waiter(ctx, "interrupt")
	if err != nil {
		return nil, err
	}
	t := sc.task
	if pause := sc.stop(); pause != nil && q.Key == "" { // with keys, a node can raise several interrupts together
		return nil, pause
	}
	raw, err := toJSON(q.Value)
	if err != nil {
		return nil, fmt.Errorf("interrupt: cannot encode question as JSON: %w", err)
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
			t.waitAgain(&p, "saved answer no longer valid; asking again", err)
			continue
		}
		if a.Question != nil && !sameJSON(a.Question, raw) { // the value of an imported interrupt may be unknown
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

// newPause returns a pause of the task. place identifies the pause within the task.
func (t *Task) newPause(place string) Pause {
	return Pause{ID: questionID(t.namespace(), place), Node: t.Name(), Namespace: t.run.path()}
}

// waitAgain gives the pause a new ID. An older version of the node waited under the
// current ID for a value of another type, and received it.
func (t *Task) waitAgain(p *Pause, why string, err error) {
	t.warn(why, err)
	p.ID = questionID(t.namespace(), p.ID+" again")
}

// waitsFor records a pause and returns the error that the node must return.
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
	t.warn("question changed since it was answered", err)
	return nil
}

// warn logs a problem that does not fail the run.
func (t *Task) warn(what string, err error) {
	if log := t.run.set.Logger; log != nil {
		log.Warn("treadle: "+what, "graph", t.run.plan.name, "node", t.Name(), "error", err) //nolint:sloglint // what is a constant of the caller
	}
}

// Logger returns the logger of the run that ctx belongs to, or slog.Default().
func Logger(ctx context.Context) *slog.Logger {
	if sc := scopeOf(ctx); sc != nil && sc.task.run.set.Logger != nil {
		return sc.task.run.set.Logger
	}
	return slog.Default()
}

// pause records interrupts on the task and on its callers. Calls run concurrently,
// so their interrupts are ordered by call: at is twice the number of calls that the
// task had started when it was interrupted, plus one for an interrupt of the next
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

// paused returns the interrupts recorded on the task.
func (t *Task) paused() []Pause {
	extras := t.extras.Load()
	if extras == nil {
		return nil
	}
	extras.mu.Lock()
	defer extras.mu.Unlock()
	return slices.Clone(extras.pauses)
}
