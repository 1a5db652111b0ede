package pregel

import (
	"errors"
	"reflect"
	"slices"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/caught"
)

// settle commits the writes of a finished step, schedules the next step, and saves
// the checkpoint. If it fails, it restores the state from before the step.
func (r *Run) settle(tasks []*Task) error {
	if err := r.commit(tasks); err != nil {
		r.rollback()
		return r.voidResults(tasks, err)
	}
	if len(tasks) == 1 {
		t := tasks[0]
		if w := t.after(); len(w.branches) > 0 && !t.out.handled && !t.restored {
			if err := t.branch(r.ctx, w, nil); err != nil {
				r.rollback()
				if r.source == checkpoint.Update { // a failed edit changes nothing
					return r.unasked(t, err)
				}
				t.err = err
				return r.outcomeOf(tasks)
			}
		}
	}
	next := r.nextCtl
	next.follow(r.ctl)
	var ended []*Task
	if r.taken != nil {
		ended = r.taken.ended
	}
	for _, ran := range [...][]*Task{ended, tasks} {
		for _, t := range ran {
			if err := r.advance(next, t, t.after()); err != nil {
				r.rollback()
				return r.voidResults(tasks, err)
			}
		}
	}
	r.release(next)
	r.ctl, r.nextCtl = next, r.ctl
	r.forgetCalls()
	r.remember(tasks)
	if r.saving() {
		r.last = r.last[:0]
		for _, t := range tasks {
			if n := len(r.last); n == 0 || r.last[n-1] != t.Name() {
				r.last = append(r.last, t.Name())
			}
		}
		ran := tasks
		if r.taken != nil {
			r.mergeTaken()
			ran = slices.Concat(r.taken.finished, tasks)
		}
		err := r.attribute(ran)
		if err == nil {
			err = r.put(r.source)
		}
		if err != nil {
			r.rollback() // an unsaved step does not count
			return err
		}
	}
	if r.modes&ModeValues != 0 && r.changed() {
		r.emitValues()
	}
	r.undo = r.undo[:0] // the step is final
	r.step++
	return nil
}

// after returns the wiring of the task's successors.
func (t *Task) after() *wiring {
	if t.node == startNode {
		return &t.run.plan.start
	}
	return &t.node.wiring
}

// mergeTaken merges the undo entries that an edit took over with those of the edit.
func (r *Run) mergeTaken() {
	for _, m := range r.taken.undo {
		m.whole = true
		if i := slices.IndexFunc(r.undo, func(u undoEntry) bool { return u.ch == m.ch }); i >= 0 {
			r.undo[i] = m
		} else {
			r.undo = append(r.undo, m)
		}
	}
	r.taken.undo = nil
}

// commit folds the writes of all tasks into the slots, in task order.
func (r *Run) commit(tasks []*Task) (err error) {
	r.ver++
	r.undo = r.undo[:0]
	var at *Task
	returned := false
	defer func() {
		if returned {
			return
		}
		p := recover()
		err = at.nodeError(&at.scope, caught.New("reduce: ", p))
		if p == nil { // runtime.Goexit
			r.exited = err
		}
	}()
	err = r.foldAll(tasks, &at)
	r.recent, r.recentVer = r.undo, r.ver
	returned = true
	return err
}

// foldAll does the work of commit. It sets who to the task whose writes are being
// folded.
func (r *Run) foldAll(tasks []*Task, who **Task) error {
	var at *Task
	for _, t := range tasks {
		at, *who = t, t
		for i := range t.out.writes {
			w := t.out.writes[i]
			s := &r.slots[w.ch.id]
			if s.ver != r.ver {
				if r.undo == nil {
					r.undo = make([]undoEntry, 0, len(t.out.writes))
				}
				r.undo = append(r.undo, undoEntry{ch: w.ch, was: *s})
			}
			if err := s.fold(w, r.ver, t.node.id, true); err != nil {
				return t.nodeError(&t.scope, r.conflict(err, w.ch, s, t))
			}
		}
	}
	for _, c := range r.plan.ephem {
		if s := &r.slots[c.id]; s.has && s.ver != r.ver {
			r.undo = append(r.undo, undoEntry{ch: c, was: *s})
			*s = slot{ver: r.ver}
		}
	}
	if at == nil {
		return nil // no tasks
	}
	return r.validate(at)
}

func (r *Run) conflict(err error, c *channel, s *slot, t *Task) error {
	if !errors.Is(err, errTwoWriters) && !errors.Is(err, errTwoOverwrites) {
		return err
	}
	first := Start
	if s.by >= 0 {
		first = r.plan.nodes[s.by].Name
	}
	return &ConflictError{Field: c.wire, Nodes: []string{first, t.Name()}, Overwrite: errors.Is(err, errTwoOverwrites)}
}

// validate calls the Validate methods of the changed fields and of the state.
func (r *Run) validate(at *Task) error {
	for _, u := range r.undo {
		if u.ch.checks && r.slots[u.ch.id].has {
			if err := validate(r.slots[u.ch.id].val); err != nil {
				return at.nodeError(&at.scope, &ValidationError{Graph: r.plan.name, What: "field " + u.ch.wire, Err: err})
			}
		}
	}
	if !r.plan.validate {
		return nil
	}
	state := reflect.ValueOf(r.plan.state.fresh(r.slots, r.plan.schema.words, r.plan.public)).Elem().Interface()
	if err := validate(state); err != nil {
		return at.nodeError(&at.scope, &ValidationError{Graph: r.plan.name, What: "state", Err: err})
	}
	return nil
}

// changed reports whether the step wrote a field. Clearing a field does not count.
func (r *Run) changed() bool {
	return slices.ContainsFunc(r.undo, func(u undoEntry) bool {
		return r.slots[u.ch.id].has && (!r.plan.schema.workflow || u.ch.wire == End)
	})
}
