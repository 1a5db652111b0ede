package pregel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/checkpoint"
)

// A run may start from a checkpoint inside a subgraph. Each checkpoint of a
// subgraph run names the parent graph's checkpoint from which its task ran, so
// there is one path from it up to the root. A fork copies the checkpoints of that
// path:
//
//	root    C0 ─ C1 ─ C2          C0 ─ C1 ─ C2
//	              │                    │ └─ C1′
//	sub:T   M0 ─ M1 ─ M2               M1    └─ M1′   in sub:T′
//	              │                    │         │
//	sub:U   X0 ─ X1 ─ X2               X1        X1′   in sub:T′|sub:U′
//
// The copies have new IDs, and so do their tasks and the namespaces of the
// subgraphs that the tasks run. A run that continues from C1′ finds M1′ and X1′
// like the checkpoints of an earlier attempt. The root's copy is saved last; until
// then, the thread does not change.

// level is a checkpoint on the path from the root to a checkpoint of a subgraph.
type level struct {
	plan *Plan
	cp   *checkpoint.Checkpoint
	task int    // index of its task that runs the next level
	call string // "|n" if this is not the first subgraph of its task
}

// origin describes where a subgraph run comes from, according to its checkpoints.
type origin struct {
	of    checkpoint.ID // the parent graph's checkpoint
	up    string        // the namespace of that checkpoint
	task  string        // the namespace of the task that runs it
	call  string        // "|n" if it is not the task's first subgraph
	lasts bool
}

func originOf(cp *checkpoint.Checkpoint) origin {
	var c struct {
		Of    checkpoint.ID
		Owner string
	}
	_ = json.Unmarshal(cp.Control, &c) // an unreadable control is reported when it is restored
	o := origin{of: c.Of, task: c.Owner, lasts: c.Owner != ""}
	if !o.lasts {
		o.task = cp.Namespace
		if i := strings.LastIndexByte(o.task, '|'); i >= 0 && isNumber(o.task[i+1:]) {
			o.task, o.call = o.task[:i], o.task[i:]
		}
	}
	if i := strings.LastIndexByte(o.task, '|'); i >= 0 {
		o.up = o.task[:i]
	}
	return o
}

func isNumber(s string) bool { return strings.Trim(s, "0123456789") == "" }

// split splits a namespace into a path.
func split(ns string) []string {
	if ns == "" {
		return nil
	}
	return strings.Split(ns, "|")
}

// stored reads a checkpoint of the thread named by set, or the head if id is zero.
func (p *Plan) stored(ctx context.Context, set *Settings, ns string, id checkpoint.ID) (*checkpoint.Checkpoint, error) {
	cp, err := getFrom(ctx, undeferred(set.Saver), checkpoint.Key{Thread: set.Thread, Namespace: ns, ID: id})
	if err != nil {
		return nil, fmt.Errorf("graph %q: thread %q: checkpoint %s of %q: %w", p.name, set.Thread, id, ns, err)
	}
	return cp, nil
}

// runs returns the index of the checkpoint's task that runs the given namespace, or
// -1.
func (p *Plan) runs(ctx context.Context, set *Settings, cp *checkpoint.Checkpoint, task string) (int, error) {
	plan, err := p.Nested(split(cp.Namespace))
	if err != nil {
		return -1, err
	}
	r, err := plan.idleRun(ctx, set, cp)
	if err != nil {
		return -1, err
	}
	if len(r.ctl.gone) > 0 {
		return -1, plan.gone(r.ctl.gone[0])
	}
	tasks, err := r.prepare()
	if err != nil {
		return -1, err
	}
	return slices.IndexFunc(tasks, func(t *Task) bool { return t.namespace() == task }), nil
}

// way returns the path from the root to a checkpoint of a subgraph.
func (p *Plan) way(ctx context.Context, set *Settings, cp *checkpoint.Checkpoint) ([]level, error) {
	var levels []level
	task := -1
	for {
		plan, err := p.Nested(split(cp.Namespace))
		if err != nil {
			return nil, err
		}
		if cp.Namespace == "" {
			return slices.Insert(levels, 0, level{plan: plan, cp: cp, task: task}), nil
		}
		o := originOf(cp)
		if o.of.IsZero() {
			return nil, fmt.Errorf("graph %q: thread %q: checkpoint %s of %q does not name the parent graph's checkpoint: %w", p.name, set.Thread, cp.ID, cp.Namespace, checkpoint.ErrNotFound)
		}
		levels = slices.Insert(levels, 0, level{plan: plan, cp: cp, task: task, call: o.call})
		up, err := p.stored(ctx, set, o.up, o.of)
		if err != nil {
			return nil, err
		}
		if task, err = p.runs(ctx, set, up, o.task); err != nil {
			return nil, err
		}
		if task < 0 {
			return nil, fmt.Errorf("graph %q: thread %q: checkpoint %s of %q has no task that runs %q: %w", p.name, set.Thread, up.ID, o.up, cp.Namespace, checkpoint.ErrNotFound)
		}
		cp = up
	}
}

// present reports whether the head of namespace ns is waiting for a subgraph that
// is itself at its head. This is the case if, at every level between them, the
// containing task is still pending.
func (p *Plan) present(ctx context.Context, set *Settings, ns string, head *checkpoint.Checkpoint) (bool, error) {
	for head.Namespace != ns && head.Namespace != "" {
		o := originOf(head)
		up, err := p.stored(ctx, set, o.up, checkpoint.ID{})
		if errors.Is(err, checkpoint.ErrNotFound) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if i, err := p.runs(ctx, set, up, o.task); i < 0 || err != nil {
			return false, err
		}
		head = up
	}
	return true, nil
}

// find reads the subgraph checkpoint named by set, and reports whether the thread
// is already at that checkpoint.
func (p *Plan) find(ctx context.Context, set *Settings) (cp *checkpoint.Checkpoint, there bool, err error) {
	if cp, err = p.stored(ctx, set, set.NS, set.At); err != nil {
		return nil, false, err
	}
	head, err := p.stored(ctx, set, set.NS, checkpoint.ID{})
	if err != nil || head.ID != cp.ID {
		return cp, false, err
	}
	there, err = p.present(ctx, set, "", cp)
	return cp, there, err
}

// resting reports whether cp is the state of a per-thread subgraph that no task is
// running, or an edit of that state. In both cases, the next task starts from it.
func (p *Plan) resting(ctx context.Context, set *Settings, cp *checkpoint.Checkpoint) (bool, error) {
	if !stable(cp.Namespace) {
		return false, nil
	}
	root, err := p.stored(ctx, set, "", checkpoint.ID{})
	if err != nil {
		return false, err
	}
	r, err := p.idleRun(ctx, set, root)
	if err != nil {
		return false, err
	}
	known, ok := r.children[cp.Namespace]
	if !ok {
		return false, nil
	}
	head, err := p.stored(ctx, set, cp.Namespace, checkpoint.ID{})
	if err != nil || head.ID != cp.ID {
		return false, err
	}
	at, err := r.edited(cp, known)
	return at == cp.ID, err
}

// branch forks the thread at a checkpoint of a subgraph, and returns the namespace
// of the copy.
func (p *Plan) branch(ctx context.Context, set *Settings, cp *checkpoint.Checkpoint) (string, error) {
	levels, err := p.way(ctx, set, cp)
	if err != nil {
		return "", err
	}
	meta, err := encodeMetadata(p, set)
	if err != nil {
		return "", err
	}
	storing := newRun(ctx, p, set, nil)
	defer storing.releaseSaver()
	if storing.follows() {
		at := memoryOf(cp.Metadata)
		forked, err := p.forkMemory(ctx, set, storing.id(), cp.ID, at)
		if err != nil {
			return "", fmt.Errorf("graph %q: thread %q: %w", p.name, set.Thread, err)
		}
		if meta, err = storing.withMemory(set.Metadata, &memoryAt{Version: at.Version, Branch: forked.BranchInfo().Name}); err != nil {
			return "", err
		}
	}
	saver := undeferred(set.Saver)
	var puts []*checkpoint.Put
	var of checkpoint.ID
	var task string
	for i := range levels {
		l := &levels[i]
		o := originOf(l.cp)
		next, parent := *l.cp, checkpoint.ID{}
		var tip checkpoint.ID
		if i == 0 || o.lasts {
			head, err := p.stored(ctx, set, l.cp.Namespace, checkpoint.ID{})
			if err != nil {
				return "", err
			}
			tip, parent = head.ID, l.cp.ID
		} else {
			next.Namespace = task + l.call
		}
		next.ID, next.Step, next.Pending = checkpoint.NewID(l.cp.Step+1, tip), l.cp.Step+1, nil
		if next.Control, err = recontrol(l.cp.Control, of, task, o.lasts); err != nil {
			return "", fmt.Errorf("graph %q: checkpoint %s: %w", p.name, l.cp.ID, err)
		}
		put := &checkpoint.Put{Key: next.Key, Parent: parent, Head: tip, Fence: set.Fence, Step: next.Step, Source: checkpoint.Fork,
			RunID: set.RunID, Metadata: meta, Control: next.Control}
		if parent.IsZero() {
			put.Changes = changesFrom(nil, l.cp.Values)
		}
		puts = append(puts, put)
		if i == len(levels)-1 {
			break
		}
		r, err := l.plan.idleRun(ctx, set, &next)
		if err != nil {
			return "", err
		}
		tasks, err := r.prepare()
		if err != nil {
			return "", err
		}
		of, task = next.ID, tasks[l.task].namespace()
	}
	for _, put := range slices.Backward(puts) {
		if err := storing.savePut(saver, put); err != nil {
			return "", fmt.Errorf("graph %q: save thread %q: %w", p.name, set.Thread, err)
		}
	}
	return puts[len(puts)-1].Namespace, nil
}

// branchToEdit makes set name the head of the subgraph whose checkpoint it named.
// If the thread is not at that checkpoint, branchToEdit forks it first, but not for
// an edit that will be rejected.
func (p *Plan) branchToEdit(ctx context.Context, set *Settings, edits []Edit) error {
	cp, there, err := p.find(ctx, set)
	if err == nil && !there {
		there, err = p.resting(ctx, set, cp)
	}
	if err != nil {
		return err
	}
	if !there {
		nested, err := p.Nested(split(set.NS))
		if err != nil {
			return err
		}
		try := *set
		try.Saver = unsaved{undeferred(set.Saver)}
		if _, err := nested.editStep(ctx, try, edits); err != nil {
			return err
		}
		if set.NS, err = p.branch(ctx, set, cp); err != nil {
			return err
		}
	}
	set.At = checkpoint.ID{}
	return nil
}

// unsaved is a saver that saves nothing, for a trial run of an edit.
type unsaved struct{ checkpoint.Saver }

// Put does nothing.
func (unsaved) Put(context.Context, *checkpoint.Put) error { return nil }

// PutWrites does nothing.
func (unsaved) PutWrites(context.Context, checkpoint.Key, uint64, []checkpoint.Write) error {
	return nil
}

// recontrol returns the control of a copied checkpoint, whose tasks have new IDs.
func recontrol(raw []byte, of checkpoint.ID, task string, lasts bool) ([]byte, error) {
	var c controlJSON
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, err
	}
	c.Seed = ""
	c.Of = of
	c.Owner = ""
	c.Results = nil
	if lasts {
		c.Owner = task
	}
	return json.Marshal(c)
}

// changesFrom returns the changes that turn the values old into now.
func changesFrom(old, now map[string]checkpoint.Value) []checkpoint.Change {
	var out []checkpoint.Change
	for _, name := range slices.Sorted(keys(old, now)) {
		was, had := old[name]
		v, has := now[name]
		c := checkpoint.Change{Channel: name, Version: v.Version, Data: v.Data, Items: v.Items, List: v.List}
		switch {
		case !has:
			c.Clear, c.Version = true, was.Version
		case had && was.Version == v.Version:
			continue // between parent and child, equal versions imply equal values
		case was.List && v.List:
			same := 0
			for same < len(was.Items) && same < len(v.Items) && string(was.Items[same]) == string(v.Items[same]) {
				same++
			}
			c.Drop, c.Items = len(was.Items)-same, v.Items[same:]
		}
		out = append(out, c)
	}
	return out
}

// keys yields the names in either map, each once.
func keys(a, b map[string]checkpoint.Value) func(func(string) bool) {
	return func(yield func(string) bool) {
		for name := range a {
			if !yield(name) {
				return
			}
		}
		for name := range b {
			if _, ok := a[name]; !ok && !yield(name) {
				return
			}
		}
	}
}

// copyHead saves a copy of the loaded checkpoint alongside it, with the same
// parent, values, and pending tasks, but new task IDs.
func (r *Run) copyHead() error {
	if r.head.IsZero() {
		return &UpdateError{Graph: r.plan.name, Msg: "as " + CopyNode + ": no checkpoint to copy"}
	}
	cp, err := r.get(r.key())
	if err != nil {
		return err
	}
	parent, err := r.get(checkpoint.Key{Thread: cp.Thread, Namespace: cp.Namespace, ID: cp.Parent})
	if cp.Parent.IsZero() || errors.Is(err, checkpoint.ErrNotFound) { // the first checkpoint, or the oldest one not pruned
		parent, err = &checkpoint.Checkpoint{}, nil
	}
	if err != nil {
		return err
	}
	meta, err := encodeMetadata(r.plan, r.set)
	if err != nil {
		return err
	}
	if at := memoryOf(cp.Metadata); r.follows() && at != nil {
		// The copy reflects the checkpoint, not the current store.
		if meta, err = r.withMemory(r.set.Metadata, &memoryAt{Version: at.Version, Branch: r.set.Store.BranchInfo().Name}); err != nil {
			return err
		}
	}
	o := originOf(cp)
	ctl, err := recontrol(cp.Control, o.of, o.task, o.lasts)
	if err != nil {
		return fmt.Errorf("graph %q: checkpoint %s: %w", r.plan.name, cp.ID, err)
	}
	put := &checkpoint.Put{Key: cp.Key, Parent: parent.ID, Head: r.tip, Fence: r.set.Fence, Step: cp.Step + 1, Source: checkpoint.Fork,
		RunID: r.set.RunID, Metadata: meta, Changes: changesFrom(parent.Values, cp.Values), Control: ctl}
	put.ID = checkpoint.NewID(put.Step, r.tip)
	if err := r.savePut(r.set.Saver, put); err != nil {
		return fmt.Errorf("graph %q: save thread %q: %w", r.plan.name, r.set.Thread, err)
	}
	r.before, r.head, r.tip = put.Parent, put.ID, put.ID
	return nil
}

// travel makes the run start from a checkpoint of a subgraph.
func (r *Run) travel(in Input) error {
	if !r.set.At.IsZero() {
		cp, there, err := r.plan.find(r.ctx, r.set)
		if err != nil {
			return err
		}
		if !there && in.Resume != nil {
			return r.notHere(cp.Namespace)
		}
		if !there {
			if _, err := r.plan.branch(r.ctx, r.set, cp); err != nil {
				return err
			}
		}
	}
	cp, err := r.get(checkpoint.Key{Thread: r.set.Thread})
	if cp == nil || err != nil {
		return err
	}
	return r.goOnFrom(cp)
}

// notHere returns the error for answers at a checkpoint that is not the thread's
// head.
func (r *Run) notHere(ns string) error {
	of := ""
	if ns != "" {
		of = fmt.Sprintf(" of %q", ns)
	}
	return fmt.Errorf("graph %q: thread %q: cannot answer at %s%s, which is not the head: continue from there to be asked again", r.plan.name, r.set.Thread, r.set.At, of)
}

// errInside returns the error for an input to a subgraph.
func (p *Plan) errInside(set *Settings) error {
	return fmt.Errorf("graph %q: subgraph %q takes its input from its parent graph: continue thread %q, or run it with an input", p.name, set.NS, set.Thread)
}
