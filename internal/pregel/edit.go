package pregel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/caught"
)

// takenOver holds what an edit takes over from the unfinished step that it ends.
type takenOver struct {
	undo     []undoEntry // the slots changed by the step
	ended    []*Task     // the tasks that changed them
	finished []*Task     // finished tasks whose results are committed
}

// InputNode is the node name of an edit that is an input to the graph.
const InputNode = "__input__"

// CopyNode is the node name of an edit that copies the checkpoint.
const CopyNode = "__copy__"

// Update edits a thread. Each list of edits is one step and creates one checkpoint.
// Update returns the ID of the last checkpoint.
func (p *Plan) Update(ctx context.Context, set Settings, steps [][]Edit) (id checkpoint.ID, err error) {
	root := p
	defer func() {
		if v := recover(); v != nil { // from a reducer, which may be user code
			err = fmt.Errorf("graph %q: update of thread %q: %w", root.name, set.Thread, caught.New("", v))
		}
	}()
	if len(steps) == 0 {
		return id, &UpdateError{Graph: p.name, Msg: "no edits"}
	}
	if p, err = root.Nested(split(set.NS)); err != nil {
		return id, err
	}
	for i, edits := range steps {
		if len(edits) == 0 {
			return id, &UpdateError{Graph: p.name, Msg: fmt.Sprintf("step %d has no edits", i+1)}
		}
		if set.NS != "" && !set.At.IsZero() {
			if err := root.branchToEdit(ctx, &set, edits); err != nil {
				return id, err
			}
		}
		if id, err = p.editStep(ctx, set, edits); err != nil {
			return id, err
		}
		set.At = checkpoint.ID{}
	}
	return id, nil
}

func (p *Plan) editStep(ctx context.Context, set Settings, edits []Edit) (checkpoint.ID, error) {
	r, err := p.idleRun(ctx, &set, nil)
	if err != nil {
		return checkpoint.ID{}, err
	}
	defer r.releaseSaver()
	r.journal.on = set.NS != "" // edits are part of what the subgraph passes to its parent
	if err := r.loadOrFork(Input{}); err != nil {
		return checkpoint.ID{}, err
	}
	if err := r.openMemory(); err != nil {
		return checkpoint.ID{}, err
	}
	err = r.edit(edits)
	return r.head, err
}

// edit applies one step of edits.
func (r *Run) edit(edits []Edit) error {
	p := r.plan
	edits = slices.Clone(edits)
	for i := range edits {
		edits[i].As = p.current(edits[i].As)
	}
	if r.ctl.start != nil && edits[0].As != Start && edits[0].As != CopyNode {
		return &UpdateError{Graph: p.name, Msg: fmt.Sprintf("thread %q has a pending input: continue it first", r.set.Thread)}
	}
	switch first := edits[0]; first.As {
	case InputNode, CopyNode, End:
		if len(edits) > 1 {
			return &UpdateError{Graph: p.name, Msg: fmt.Sprintf("as %s: must be the only edit of its step", first.As)}
		}
		if first.As == InputNode {
			return r.editInput(first.Values)
		}
		if !nothing(first.Values) {
			return &UpdateError{Graph: p.name, Msg: "as " + first.As + ": takes no values"}
		}
		if first.As == CopyNode {
			return r.copyHead()
		}
	}
	ended, err := r.mergeFinished()
	if err != nil {
		return err
	}
	if edits[0].As != End {
		r.reopen(edits)
		if r.taken != nil {
			r.taken.ended = ended
		}
	}
	// A scheduled node keeps its task ID, so that the history shows the edit as its
	// result.
	r.ctl.armed, r.ctl.sends, r.ctl.start = nil, nil, nil
	// A deferred node keeps waiting, unless the edit is made as that node.
	r.ctl.waiting = slices.DeleteFunc(slices.Clone(r.ctl.waiting), func(id int32) bool {
		return edits[0].As == End || slices.ContainsFunc(edits, func(e Edit) bool { return e.As == p.nodes[id].Name })
	})
	if r.step < 0 {
		r.step = 0
	}
	r.source = checkpoint.Update
	var tasks []*Task
	if edits[0].As != End {
		for _, e := range edits {
			t, err := r.editTask(e, len(edits) == 1)
			if err != nil {
				return err
			}
			tasks = append(tasks, t)
		}
	}
	slices.SortStableFunc(tasks, func(a, b *Task) int { return strings.Compare(a.Name(), b.Name()) })
	if len(tasks) > 1 {
		for _, t := range tasks {
			t.route(r.ctx)
			if t.err != nil {
				return r.unasked(t, t.err)
			}
		}
	}
	return r.settle(tasks)
}

// unasked returns the error of a branch after an edit. An edit cannot wait for an
// answer.
func (r *Run) unasked(t *Task, err error) error {
	e, asked := errors.AsType[*InterruptError](err)
	if !asked {
		return err
	}
	msg := fmt.Sprintf("as %s: a branch after it asks a question, and an update cannot wait for the answer", t.Name())
	if len(e.Pauses) > 0 {
		msg = fmt.Sprintf("as %s: a branch after it asks %s, and an update cannot wait for the answer", t.Name(), e.Pauses[0].Value)
	}
	return &UpdateError{Graph: r.plan.name, Msg: msg + ": update as a node without such a branch, or as " + InputNode + " and continue the thread"}
}

func (r *Run) editTask(e Edit, alone bool) (*Task, error) {
	if e.As == "" && !alone {
		return nil, &UpdateError{Graph: r.plan.name, Msg: "several edits in one step: name the node of each with treadle.AsNode"}
	}
	n, err := r.author(e.As)
	if err != nil {
		return nil, err
	}
	t := &Task{run: r, node: n, step: r.step, index: -1, out: &outcome{}}
	t.enter(r.ctx)
	if r.plan.schema.workflow && n != startNode {
		if done, err := t.editResult(e.Values); done || err != nil {
			return t, err
		}
	}
	return t, t.edit(e.Values)
}

// editResult edits a workflow as if it had returned the value, which becomes its
// output and the previous value of the next run. done is false for an edit by
// fields.
func (t *Task) editResult(values any) (done bool, err error) {
	s := t.run.plan.schema
	raw, isJSON := values.(json.RawMessage)
	if values == nil || isJSON && (len(raw) == 0 || string(raw) == "null") {
		return false, nil
	}
	var fields map[string]json.RawMessage
	if isJSON && json.Unmarshal(raw, &fields) == nil && (fields[End] != nil || fields[previous] != nil) {
		return false, nil
	}
	for _, c := range []*channel{s.byWire[End], s.byWire[previous]} {
		w := write{ch: c, val: values}
		if isJSON {
			if w, err = s.decodeWrite(c, raw); err != nil {
				return false, err
			}
		} else if reflect.TypeOf(values) != c.typ {
			continue
		}
		t.out.add(w)
		done = true
	}
	return done, nil
}

// previous is the field that holds the saved value of a workflow.
const previous = "__previous__"

// editInput saves an input for the next run of the thread.
func (r *Run) editInput(values any) error {
	if nothing(values) {
		return &UpdateError{Graph: r.plan.name, Msg: "as " + InputNode + ": requires values, which are the input"}
	}
	t := &Task{run: r, node: startNode, step: r.step, index: -1, out: &outcome{}}
	if err := t.edit(values); err != nil {
		return err
	}
	r.abandon()
	r.last = []string{Start}
	return r.putInput(t.out)
}

// reopen restores the sources that a join had seen, if the edit drops the join's
// target before it has run: the edit must not discard what the other sources
// contributed. A join that is empty right after one of its sources ran has fired.
func (r *Run) reopen(edits []Edit) {
	for i, j := range r.plan.joins {
		target := r.plan.nodes[j.target].Name
		ran := slices.ContainsFunc(j.sources, func(id int32) bool { return slices.Contains(r.last, r.plan.nodes[id].Name) })
		edited := slices.ContainsFunc(edits, func(e Edit) bool { return e.As == target })
		if !ran || edited || r.ctl.joins[i].any() || !slices.Contains(r.ctl.armed, j.target) {
			continue
		}
		for bit := range j.sources {
			r.ctl.joins[i].set(bit)
		}
	}
}

// mergeFinished commits the writes of the finished tasks of an unfinished step, as
// part of the edit that ends the step.
func (r *Run) mergeFinished() ([]*Task, error) {
	if len(r.saved) == 0 || r.forked {
		return nil, nil
	}
	done, err := r.finished()
	if err != nil || len(done) == 0 {
		return nil, err
	}
	if err := r.commit(done); err != nil {
		r.rollback()
		return nil, err
	}
	r.taken = &takenOver{undo: slices.Clone(r.undo), finished: done}
	r.remember(done)
	return done, nil
}

// finished returns the tasks of the loaded step whose results are saved.
func (r *Run) finished() (done []*Task, err error) {
	tasks, err := r.prepare()
	if err != nil {
		return nil, err
	}
	for _, t := range slices.Clone(tasks) {
		if raw, ok := r.saved[t.ID()]; ok {
			if err := t.decodeResult(raw); err != nil {
				return nil, fmt.Errorf("graph %q: saved result of %q: %w", r.plan.name, t.Name(), err)
			}
			done = append(done, t)
		}
	}
	return done, nil
}

// JSONCommand is a command in JSON.
type JSONCommand struct {
	Update json.RawMessage
	Goto   any // of the type Vocabulary.Goto, or nil
}

// nothing reports whether the values of an edit write nothing.
func nothing(values any) bool {
	raw, ok := values.(json.RawMessage)
	return values == nil || ok && (len(raw) == 0 || string(raw) == "null")
}

// edit collects the writes and targets of an edit's values.
func (t *Task) edit(values any) error {
	switch v := values.(type) {
	case nil:
		return nil
	case JSONCommand:
		if v.Goto != nil {
			t.out.targets = t.run.plan.schema.words.Targets(t.out.to(), v.Goto)
		}
		if pairs, ok := pairsOf(v.Update); ok && !t.run.plan.schema.root {
			return t.run.plan.schema.decodePairs(t.out, pairs)
		}
		return t.edit(v.Update)
	case json.RawMessage:
		if nothing(v) {
			return nil
		}
		return t.run.plan.schema.decodeUpdate(t.out, v)
	}
	rv := reflect.ValueOf(values)
	if rv.Kind() == reflect.Pointer && !rv.IsNil() {
		values = rv.Elem().Interface()
	}
	words := t.run.plan.schema.words
	if reflect.TypeOf(values) == words.Goto {
		t.out.targets = words.Targets(t.out.to(), values)
		return nil
	}
	if _, ok := t.run.plan.schema.words.Command(reflect.TypeOf(values)); ok {
		return t.takeCommands(t.run.plan.schema.words.Commands(values))
	}
	return t.answer(Command{Update: values})
}

// pairsOf decodes an update in the form of a list of [name, value] pairs, where a
// name may occur several times.
func pairsOf(raw json.RawMessage) ([][2]json.RawMessage, bool) {
	var list [][]json.RawMessage
	if len(raw) == 0 || json.Unmarshal(raw, &list) != nil || list == nil {
		return nil, false
	}
	pairs := make([][2]json.RawMessage, len(list))
	for i, p := range list {
		if len(p) != 2 {
			return nil, false
		}
		pairs[i] = [2]json.RawMessage(p)
	}
	return pairs, true
}

// decodePairs decodes updates by JSON name, in order.
func (s *Schema) decodePairs(o *outcome, pairs [][2]json.RawMessage) error {
	for _, p := range pairs {
		var name string
		if err := json.Unmarshal(p[0], &name); err != nil {
			return &UpdateError{Graph: s.graph, Msg: fmt.Sprintf("want [name, value], got the name %s", p[0])}
		}
		c := s.byWire[name]
		if c == nil {
			return s.unknownKey(map[string]any{name: nil})
		}
		w, err := s.decodeWrite(c, p[1])
		if err != nil {
			return err
		}
		o.add(w)
	}
	return nil
}

// author returns the node that an edit is made as. It infers the node if name is
// empty.
func (r *Run) author(name string) (*node, error) {
	p := r.plan
	switch {
	case name == Start || name == "" && r.ver == 0:
		return startNode, nil
	case name != "":
		n := p.byName[name]
		if n == nil {
			return nil, &UpdateError{Graph: p.name, Msg: fmt.Sprintf("as node %q: unknown node; the graph has %s", name, strings.Join(p.NodeNames(), ", "))}
		}
		return n, nil
	case len(p.defined) == 1:
		return p.defined[0], nil
	}
	if len(r.last) == 1 {
		if r.last[0] == Start {
			return startNode, nil
		}
		if n := p.byName[r.last[0]]; n != nil {
			return n, nil
		}
	}
	return nil, &UpdateError{Graph: p.name, Msg: fmt.Sprintf("ambiguous author of the update (the last step ran %s): name a node with treadle.AsNode", strings.Join(r.last, ", "))}
}
