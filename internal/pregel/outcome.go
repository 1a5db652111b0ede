package pregel

import (
	"reflect"
	"slices"
	"time"
)

// packet is an input sent to a node.
type packet struct {
	node    int32
	input   any
	timeout time.Duration // per attempt; 0 means the node's timeout
}

// outcome is the result of a task: its writes and its targets. It contains enough
// memory for the results of most tasks. It is allocated once for all tasks of a
// step, and a run reuses it for steps with one task.
type outcome struct {
	writes  []write
	targets []Target
	handled bool // by an error handler, so the node's edges are not followed
	space   struct {
		writes  [2]write
		targets [1]Target
	}
}

// reset clears the outcome for use by another task.
func (o *outcome) reset() *outcome {
	o.writes, o.targets, o.handled = nil, nil, false
	return o
}

// to returns the list of targets to append to.
func (o *outcome) to() []Target {
	if o.targets == nil {
		return o.space.targets[:0]
	}
	return o.targets
}

func (o *outcome) add(w write) {
	if o.writes == nil {
		o.writes = o.space.writes[:0]
	}
	o.writes = append(o.writes, w)
}

func (o *outcome) clear() { o.writes, o.targets = nil, nil }

// take decodes a node's result.
func (t *Task) take(o *outPlan, out any) error {
	s := t.run.plan.schema
	if t.node.nest != nil && o == nil {
		t.out.writes = out.(*Run).writesForParent(t.node.nest, t.out.space.writes[:0])
		return nil
	}
	switch o.kind {
	case outGoto:
		t.out.targets = s.words.Targets(t.out.to(), out)
		return nil
	case outCommand:
		return t.takeCommands(s.words.Commands(out))
	}
	if o.pointer {
		rv := reflect.ValueOf(out)
		if rv.IsNil() {
			return nil
		}
		out = rv.Elem().Interface()
	}
	return o.update.collect(s, t.out, out)
}

func (t *Task) takeCommands(cmds []Command) error {
	for _, c := range cmds {
		if c.Parent {
			return &parentCommand{cmd: c, node: t.node.Name, wrote: slices.Clone(t.out.writes)}
		}
		if err := t.answer(c); err != nil {
			return err
		}
	}
	return nil
}

// answer applies a command to the task's graph.
func (t *Task) answer(c Command) error {
	if c.Update != nil {
		u, err := t.run.plan.updateFor(reflect.TypeOf(c.Update))
		if err != nil {
			return err
		}
		if err := u.collect(t.run.plan.schema, t.out, c.Update); err != nil {
			return err
		}
	}
	t.out.targets = append(t.out.targets, c.Goto...)
	return nil
}

// applyParentCommand applies a command from a subgraph that ran inside this task.
// It also applies the subgraph's writes to fields that the command does not write,
// so a handoff loses nothing.
func (t *Task) applyParentCommand(cmd *parentCommand) error {
	if err := t.answer(cmd.cmd); err != nil {
		return err
	}
	said := t.out.writes
	for _, w := range cmd.above {
		if !slices.ContainsFunc(said, func(s write) bool { return s.ch == w.ch }) {
			t.out.writes = append(t.out.writes, w)
		}
	}
	return nil
}
