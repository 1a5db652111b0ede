package pregel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/checkpoint"
)

// idleRun is a run that only looks at a checkpoint.
func (p *Plan) idleRun(ctx context.Context, set *Settings, cp *checkpoint.Checkpoint) (*Run, error) {
	r := &Run{plan: p, set: set, ctx: ctx, slots: make([]slot, len(p.schema.channels)), views: make([]view, len(p.views)),
		marks: make([]uint64, len(p.nodes)), wrote: make([]bool, len(p.schema.channels)), step: -1}
	for i, c := range p.schema.channels {
		r.slots[i] = c.reset()
	}
	r.ctl.joins = make([]bits, len(p.joins))
	for i, j := range p.joins {
		r.ctl.joins[i] = newBits(len(j.sources))
	}
	if cp == nil {
		return r, nil
	}
	r.ns = cp.Namespace
	return r, r.restoreFrom(cp)
}

// Snapshot describes a stored checkpoint.
func (p *Plan) Snapshot(ctx context.Context, set Settings, cp *checkpoint.Checkpoint) (*Checkpoint, error) {
	r, err := p.idleRun(ctx, &set, cp)
	if err != nil {
		return nil, err
	}
	out := &Checkpoint{ID: cp.ID, Parent: cp.Parent, Thread: cp.Thread, Step: cp.Step, Source: cp.Source, RunID: cp.RunID, Time: cp.Time(),
		Values: p.schema.record(r.slots, p.schema.channels)}
	if len(cp.Metadata) > 0 {
		if err := json.Unmarshal(cp.Metadata, &out.Metadata); err != nil {
			return nil, fmt.Errorf("graph %q: metadata of %s: %w", p.name, cp.ID, err)
		}
	}
	if r.ctl.start != nil {
		out.Next = []string{Start}
		out.Tasks = []TaskInfo{{ID: (&Task{run: r, node: startNode, step: r.step, index: -1}).ID(), Name: Start}}
		return out, nil
	}
	tasks, err := r.prepare()
	if err != nil {
		return nil, err
	}
	out.Tasks = r.infos(tasks)
	for i := range out.Tasks {
		info := &out.Tasks[i]
		for _, w := range cp.Pending {
			if w.Task != info.ID {
				continue
			}
			switch w.Kind {
			case checkpoint.Done:
				t := tasks[slices.IndexFunc(tasks, func(t *Task) bool { return t.ID() == info.ID })]
				if t.decodeResult(w.Data) == nil {
					info.Done = &Record{schema: p.schema, root: p.schema.root, list: true, items: t.out.writes}
				}
			case checkpoint.Failed:
				var e struct{ Message string }
				_ = json.Unmarshal(w.Data, &e) // an unreadable error shows as none
				info.Err = e.Message
			}
		}
		for _, p := range r.open {
			if r.owner[p.ID] == info.ID {
				info.Pauses = append(info.Pauses, p)
			}
		}
		if info.Done == nil {
			out.Next = append(out.Next, info.Name)
		}
	}
	return out, nil
}

// State reads the head of a thread, or the checkpoint id; nil if there is none.
func (p *Plan) State(ctx context.Context, set Settings, id checkpoint.ID) (*Checkpoint, error) {
	cp, err := set.Saver.Get(ctx, checkpoint.Key{Thread: set.Thread, ID: id})
	if errors.Is(err, checkpoint.ErrNotFound) && id.IsZero() {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return p.Snapshot(ctx, set, cp)
}

// History yields the checkpoints of a thread, newest first.
func (p *Plan) History(ctx context.Context, set Settings, q checkpoint.Query) iter.Seq2[*Checkpoint, error] {
	return func(yield func(*Checkpoint, error) bool) {
		q.Thread = set.Thread
		for cp, err := range set.Saver.List(ctx, q) {
			if err != nil {
				yield(nil, err)
				return
			}
			snap, err := p.Snapshot(ctx, set, cp)
			if !yield(snap, err) || err != nil {
				return
			}
		}
	}
}

// Update edits a thread as if a node had written, and moves control on from
// that node. Which node is inferred if it is not named and there is no doubt.
func (p *Plan) Update(ctx context.Context, set Settings, values any, asNode string) (checkpoint.ID, error) {
	r, err := p.idleRun(ctx, &set, nil)
	if err != nil {
		return checkpoint.ID{}, err
	}
	if err := r.loadOrFork(Input{}); err != nil {
		return checkpoint.ID{}, err
	}
	if r.ctl.start != nil {
		return checkpoint.ID{}, fmt.Errorf("graph %q: thread %q has an input that no step has taken yet: continue it first", p.name, set.Thread)
	}
	if r.step < 0 {
		r.step = 0
	}
	n, w, err := r.author(asNode)
	if err != nil {
		return checkpoint.ID{}, err
	}
	t := &Task{run: r, node: n, step: r.step, index: -1}
	t.scope.Context, t.scope.task, t.scope.attempt = ctx, t, 1
	if err := t.edit(values); err != nil {
		return checkpoint.ID{}, err
	}
	r.ctl.armed, r.ctl.sends = nil, nil // an edit decides anew what is next
	r.source = checkpoint.Update
	if err := r.settle([]*Task{t}, w); err != nil {
		return checkpoint.ID{}, err
	}
	return r.head, nil
}

// edit reads the values of an Update.
func (t *Task) edit(values any) error {
	switch v := values.(type) {
	case nil:
		return nil
	case json.RawMessage:
		if len(v) == 0 || string(v) == "null" {
			return nil
		}
		return t.run.plan.schema.decodeUpdate(&t.out, v)
	}
	rv := reflect.ValueOf(values)
	if rv.Kind() == reflect.Pointer && !rv.IsNil() {
		values = rv.Elem().Interface()
	}
	if _, ok := t.run.plan.schema.words.Command(reflect.TypeOf(values)); ok {
		return t.takeCommands(t.run.plan.schema.words.Commands(values))
	}
	return t.answer(Command{Update: values})
}

// author finds the node an update is made as.
func (r *Run) author(name string) (*node, *wiring, error) {
	p := r.plan
	switch {
	case name == Start || name == "" && r.ver == 0:
		return startNode, &p.start, nil
	case name != "":
		n := p.byName[name]
		if n == nil {
			return nil, nil, &UpdateError{Graph: p.name, Msg: fmt.Sprintf("as node %q: there is no such node; there are %s", name, strings.Join(p.NodeNames(), ", "))}
		}
		return n, &n.wiring, nil
	case len(p.nodes) == 1:
		return p.nodes[0], &p.nodes[0].wiring, nil
	}
	if len(r.last) == 1 {
		if r.last[0] == Start {
			return startNode, &p.start, nil
		}
		if n := p.byName[r.last[0]]; n != nil {
			return n, &n.wiring, nil
		}
	}
	return nil, nil, &UpdateError{Graph: p.name, Msg: fmt.Sprintf("it is not clear which node makes the update (the last step ran %s): name it with treadle.AsNode", strings.Join(r.last, ", "))}
}
