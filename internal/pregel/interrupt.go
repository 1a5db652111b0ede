package pregel

import (
	"errors"
)

// interrupted ends a step whose tasks raised interrupts. It saves the results of
// finished tasks and commits nothing.
func (r *Run) interrupted(tasks []*Task) error {
	if err := r.putResults(tasks); err != nil {
		return err
	}
	e := &InterruptError{Graph: r.plan.name}
	for _, t := range tasks {
		inner, asked := errors.AsType[*InterruptError](t.err)
		if !asked {
			continue
		}
		// A subgraph of the task may have stopped at a breakpoint.
		stop := &Interrupted{Pauses: t.paused(), Before: within(t.Name(), inner.Before), After: within(t.Name(), inner.After)}
		e.Pauses = append(e.Pauses, stop.Pauses...)
		e.Before, e.After = append(e.Before, stop.Before...), append(e.After, stop.After...)
		r.emit(ModeUpdates, t.event(stop))
	}
	if r.parent() != nil {
		if r.modes&ModeValues != 0 && len(e.Pauses) > 0 {
			ev := r.event(&Values{Record: r.plan.schema.record(r.slots, r.shown()), Pauses: e.Pauses})
			r.emit(ModeValues, ev)
		}
		r.parent().pause(2*r.within().calls.Load(), e.Pauses...)
		return e
	}
	r.showFinished(tasks, e.Pauses)
	return e
}

// within returns node names as seen by the parent graph.
func within(node string, names []string) []string {
	var out []string
	for _, name := range names {
		out = append(out, node+"/"+name)
	}
	return out
}

// Interrupted is the event of a run that stopped and can be resumed.
type Interrupted struct {
	Pauses        []Pause
	Before, After []string
}

// showFinished shows the caller the writes of the finished tasks of an interrupted
// step. They are not saved as a commit, because the step runs again.
func (r *Run) showFinished(tasks []*Task, pauses []Pause) {
	var done []*Task
	for _, t := range tasks {
		if t.err == nil {
			done = append(done, t)
		}
	}
	if len(done) > 0 && r.commit(done) != nil {
		r.rollback()
	}
	if r.modes&ModeValues != 0 {
		ev := r.event(&Values{Record: r.plan.schema.record(r.slots, r.plan.schema.channels), Pauses: pauses})
		r.emit(ModeValues, ev)
	}
}
