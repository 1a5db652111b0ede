package pregel

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/caught"
)

// accept applies the input as step __start__, or continues from the checkpoint.
func (r *Run) accept(in Input) error {
	if in.First && in.Resume == nil && r.head.IsZero() && !r.plan.schema.workflow {
		in = Input{command: in.Also}
	}
	goesOn := in.Continue || in.Resume != nil || in.Also != nil || r.resumed
	if goesOn && len(r.ctl.gone) > 0 {
		return r.plan.gone(r.ctl.gone[0])
	}
	if goesOn && len(r.saved) > 0 && r.ctl.start == nil {
		if _, err := r.finished(); err != nil { // detect an unreadable result before anything is saved
			return err
		}
	}
	if goesOn && r.parent() == nil && !r.forked || in.Resume != nil || in.Also != nil {
		if err := r.applyResume(in); err != nil {
			return err
		}
	}
	if in.Continue || in.Resume != nil || r.resumed {
		in = Input{Continue: true}
		r.resumed = true
		if r.ver == 0 && r.ctl.start == nil {
			return fmt.Errorf("graph %q: %w", r.plan.name, ErrNothingToContinue)
		}
		if err := r.fork(); err != nil {
			return err
		}
		if r.ctl.start == nil {
			if r.modes&ModeValues != 0 {
				r.emitValues()
			}
			return nil
		}
	}
	t := &r.newTasks(1)[0]
	t.run, t.node, t.index = r, startNode, -1
	if r.modes == 0 {
		t.out = r.oneOut[0].reset()
	} else {
		t.out = &outcome{}
	}
	if err := r.readInput(in, t.out); err != nil {
		return err
	}
	if in.Continue {
		return r.apply(t)
	}
	err := r.takeInput(t)
	if r.fromCachedHead && errors.Is(err, checkpoint.ErrConflict) {
		if err := r.reload(); err != nil {
			return err
		}
		err = r.takeInput(&Task{run: r, node: startNode, index: -1, out: &outcome{writes: t.out.writes}})
	}
	return err
}

// takeInput saves an input at the head of the thread and applies it.
func (r *Run) takeInput(t *Task) (err error) {
	if err := r.storeInput(t.out); err != nil {
		return err
	}
	defer func() { err = r.storeHeld(err) }() // even if a method of a value ends the goroutine
	r.emitAbandoned()
	return r.apply(t)
}

// apply runs step __start__ with the input in t.out.
func (r *Run) apply(t *Task) error {
	if r.modes&ModeCheckpoints != 0 {
		r.emitCheckpoint([]string{Start})
	}
	r.ctl.start, r.abandoned = nil, nil
	t.step = r.step
	t.enter(r.ctx)
	t.out.targets = r.ctl.targets(r.plan, t.out.targets)
	t.spanInput()
	r.resumed = false // breakpoints before the first nodes still apply
	r.one[0] = t
	return r.settle(r.one[:])
}

// reload reads the thread again after the cached head proved stale.
func (r *Run) reload() error {
	r.dropCachedHead()
	r.fromCachedHead = false
	r.reset()
	clear(r.marks)
	r.results = nil
	if err := r.loadOrFork(Input{}); err != nil {
		return err
	}
	if err := r.openMemory(); err != nil {
		return err
	}
	r.stop = r.step + r.set.StepLimit + 1
	return nil
}

func (r *Run) storeInput(o *outcome) error {
	r.abandon()
	if r.saving() {
		r.last = append(r.last[:0], Start)
	}
	if err := r.followInput(o); err != nil {
		return err
	}
	return r.putInput(o)
}

// followInput schedules the targets of an input that is a command, in addition to
// the regular successors of an input. They are saved with the input.
func (r *Run) followInput(o *outcome) error {
	if len(o.targets) == 0 {
		return nil
	}
	t := &Task{run: r, node: startNode, step: r.step, index: -1}
	t.enter(r.ctx)
	r.ver++ // a node is armed once per version
	defer func() {
		r.ver--
		clear(r.marks)
	}()
	for i := range o.targets {
		if err := r.follow(r.ctl, t, &o.targets[i]); err != nil {
			return err
		}
	}
	o.targets = nil
	slices.Sort(r.ctl.armed)
	return nil
}

// targets moves the scheduled nodes and sends to the targets of an input that is
// about to be applied.
func (c *control) targets(p *Plan, to []Target) []Target {
	for _, s := range c.sends {
		to = append(to, Target{Node: p.nodes[s.node].Name, IsSend: true, Input: s.input, Timeout: s.timeout})
	}
	for _, id := range c.armed {
		to = append(to, Target{Node: p.nodes[id].Name})
	}
	c.sends, c.armed = nil, c.armed[:0]
	return to
}

// startNode is the pseudo-node of the input.
var startNode = &node{NodeSpec: &NodeSpec{Name: Start}, id: -1}

func (r *Run) readInput(in Input, o *outcome) error {
	p := r.plan
	switch {
	case in.inherit != nil:
		o.writes = in.inherit
		return nil
	case in.Continue:
		return r.decodeStart(o)
	case in.JSON != nil:
		return p.readJSON(in.JSON, o)
	case in.command != nil:
		t := &Task{run: r, node: startNode, step: r.step, index: -1, out: o}
		return t.edit(in.command)
	}
	val := in.Value
	if p.inChecks {
		if err := validate(val); err != nil {
			return &ValidationError{Graph: p.name, What: "input", Err: err}
		}
	}
	if err := p.in.collect(p.schema, o, val); err != nil {
		return err
	}
	o.targets = nil // an input cannot choose the next nodes
	return nil
}

// readJSON reads an input as an update keyed by JSON name. An input type is a
// filter, so fields that it lacks are dropped. Fields that the graph lacks are
// errors.
func (p *Plan) readJSON(raw json.RawMessage, o *outcome) error {
	if p.schema.workflow {
		w, err := p.schema.decodeWrite(p.schema.byWire[Start], raw)
		o.add(w)
		return err
	}
	if err := p.schema.decodeUpdate(o, raw); err != nil {
		return err
	}
	if p.in.kind == updateStruct {
		o.writes = slices.DeleteFunc(o.writes, func(w write) bool {
			return !slices.ContainsFunc(p.in.fields, func(f writeField) bool { return f.ch == w.ch })
		})
	}
	return nil
}

func validate(v any) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = caught.New("Validate: ", p)
		}
	}()
	type validator interface{ Validate() error }
	if c, ok := v.(validator); ok {
		return c.Validate()
	}
	if v == nil || !reflect.PointerTo(reflect.TypeOf(v)).Implements(validatorType) {
		return nil
	}
	p := reflect.New(reflect.TypeOf(v)) // a copy: the method must not modify the shared value
	p.Elem().Set(reflect.ValueOf(v))
	return p.Interface().(validator).Validate()
}
