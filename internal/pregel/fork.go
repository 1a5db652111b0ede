package pregel

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/checkpoint"
)

// Keep is how a nested run is stored.
type Keep uint8

// The ways to store a nested run.
const (
	KeepTask    Keep = iota // with the parent's saver, for as long as the parent's task takes
	KeepThread              // with the parent's saver, for as long as the thread lives
	KeepNothing             // not at all
)

// loadOrFork reads the checkpoint that the run starts from: the thread's head,
// or an older one, from which the run then forks.
//
// For a nested run the head is the checkpoint that an earlier attempt left
// under the same namespace. The run continues from it and ignores its input. If
// the previous attempt in the same run gave another input, the nested run
// begins anew. A per-thread nested run starts from the checkpoint that its
// parent's checkpoint names.
func (r *Run) loadOrFork(in Input) error {
	if !r.saving() {
		return nil
	}
	if r.parent() == nil && r.ns() != r.set.NS {
		return r.travel(in)
	}
	key := checkpoint.Key{Thread: r.set.Thread, Namespace: r.ns()}
	cp, err := r.get(key)
	if cp == nil || err != nil {
		return err
	}
	switch {
	case r.parent() == nil && !r.set.At.IsZero() && r.set.At != cp.ID:
		if in.Resume != nil {
			return r.notHere("")
		}
		return r.forkFrom(key, r.set.At, cp.ID)
	case r.parent() == nil:
		return r.goOnFrom(cp)
	case r.set.Keep == KeepThread && (r.nest.otherInput || owner(cp) != r.parent().namespace()):
		from, err := r.edited(cp, r.parent().run.child(r.ns()))
		if err != nil {
			return err
		}
		return r.forkFrom(key, from, cp.ID)
	case r.nest.otherInput:
		return r.forkFrom(key, checkpoint.ID{}, cp.ID) // from an empty state
	}
	r.resumed = true
	return r.goOnFrom(cp)
}

// goOnFrom makes cp the state of the run. It refuses the checkpoint of another
// graph, of which only the fields with the same names would be taken, unless the
// settings allow that.
func (r *Run) goOnFrom(cp *checkpoint.Checkpoint) error {
	err := r.restoreFrom(cp)
	if err != nil { // perhaps because the checkpoint is another graph's
		var c struct{ Graph string }
		_ = json.Unmarshal(cp.Control, &c) // an unreadable one has no name
		r.madeBy = c.Graph
	}
	if other := r.plan.otherGraph(r.set, r.ns(), r.madeBy); other != nil {
		return other
	}
	return err
}

// otherGraph returns the error for a checkpoint of another graph, or nil.
func (p *Plan) otherGraph(set *Settings, ns, name string) error {
	if p.Owns(name) || set.AnyGraph && ns == "" {
		return nil
	}
	return &GraphError{Graph: p.name, Thread: set.Thread, Namespace: ns, Of: name}
}

// Owns reports whether checkpoints with the name are of this graph. Checkpoints of
// earlier versions have no name.
func (p *Plan) Owns(name string) bool {
	return name == "" || name == p.name || slices.Contains(p.spec.Was, name)
}

// get is Get with nil for a checkpoint that does not exist.
func (r *Run) get(key checkpoint.Key) (*checkpoint.Checkpoint, error) {
	cp, err := getFrom(r.ctx, r.set.Saver, key)
	if errors.Is(err, checkpoint.ErrNotFound) && key.ID.IsZero() {
		return nil, nil
	}
	if err != nil {
		err = fmt.Errorf("graph %q: load thread %q: %w", r.plan.name, r.set.Thread, err)
		if !errors.Is(err, checkpoint.ErrNotFound) {
			err = r.readFault(err)
		}
		return nil, err
	}
	return cp, nil
}

// forkFrom starts from an older checkpoint while the head is at tip. Results
// and answers of the older checkpoint are not used: questions are asked again.
func (r *Run) forkFrom(key checkpoint.Key, id, tip checkpoint.ID) error {
	r.tip = tip
	if id.IsZero() {
		return nil
	}
	key.ID = id
	cp, err := r.get(key)
	if err != nil {
		return err
	}
	if id != tip {
		cp.Pending, r.forked = nil, true
		r.memory.forks = r.parent() == nil
	}
	if err := r.goOnFrom(cp); err != nil {
		return err
	}
	r.tip = tip
	if r.parent() != nil { // pending tasks of a per-thread graph belong to a run that is over
		r.ctl.abandon()
		r.ctl.start, r.forked = nil, false
		r.newLog()
	}
	return nil
}

// fork puts the first checkpoint of a new branch, if the run continues from an
// older checkpoint and has something to run. Tasks of the branch have new ids.
func (r *Run) fork() error {
	if !r.forked || r.ctl.idle() && r.ctl.start == nil {
		return nil
	}
	r.forked = false
	r.undo = r.undo[:0]
	if err := r.put(checkpoint.Fork); err != nil {
		return err
	}
	r.step++
	r.stop++
	return nil
}

// edited returns the head of a per-thread nested run if only edits were made
// since known, the checkpoint that its parent names. Otherwise it returns
// known.
func (r *Run) edited(head *checkpoint.Checkpoint, known checkpoint.ID) (checkpoint.ID, error) {
	for cp := head; cp.ID != known; {
		if cp.Source != checkpoint.Update || cp.Parent.IsZero() {
			return known, nil
		}
		var err error
		if cp, err = r.get(checkpoint.Key{Thread: cp.Thread, Namespace: cp.Namespace, ID: cp.Parent}); err != nil {
			return known, err
		}
	}
	return head.ID, nil
}

// owner returns the task that a per-thread nested run was made for.
func owner(cp *checkpoint.Checkpoint) string {
	var c struct{ Owner string }
	_ = json.Unmarshal(cp.Control, &c) // an unreadable one is reported when it is restored
	return c.Owner
}

// owned returns the owner of this run, for storing.
func (r *Run) owned() string {
	switch {
	case r.parent() == nil:
		return r.ownerWas
	case r.set.Keep == KeepThread:
		return r.parent().namespace()
	}
	return ""
}

// of returns the checkpoint around a nested run, for storing.
func (r *Run) of() checkpoint.ID {
	if r.parent() == nil {
		return r.ofWas
	}
	return r.parent().run.head
}

// child returns the head of a per-thread nested run that this run or one around
// it has noted. A run without a saver has noted none.
func (r *Run) child(ns string) checkpoint.ID {
	for ; r != nil; r = r.above() {
		if id, ok := r.childHeads()[ns]; ok {
			return id
		}
	}
	return checkpoint.ID{}
}

// addChildHeads notes the heads of per-thread nested runs in every enclosing
// run, and on the tasks that they ran for. The stored results of those tasks
// name the heads, so a task that does not run again does not lose them.
func (t *Task) addChildHeads(children map[string]checkpoint.ID) {
	if len(children) == 0 {
		return
	}
	with := func(old map[string]checkpoint.ID) map[string]checkpoint.ID {
		next := maps.Clone(old) // a store may still read the old one
		if next == nil {
			next = map[string]checkpoint.ID{}
		}
		maps.Copy(next, children)
		return next
	}
	for ; t != nil; t = t.run.parent() {
		for c := t; c != nil; c = c.caller {
			extras := c.needExtras()
			extras.mu.Lock()
			extras.children = with(extras.children)
			extras.mu.Unlock()
		}
		t.run.childMu.Lock()
		t.run.children = with(t.run.children)
		t.run.childMu.Unlock()
	}
}

// childHeads returns the heads of the per-thread nested runs that ran for the
// task.
func (t *Task) childHeads() map[string]checkpoint.ID {
	extras := t.extras.Load()
	if extras == nil {
		return nil
	}
	extras.mu.Lock()
	defer extras.mu.Unlock()
	return extras.children
}

func (r *Run) above() *Run {
	if r.parent() == nil {
		return nil
	}
	return r.parent().run
}

// childHeads returns the heads of per-thread nested runs, for storing.
func (r *Run) childHeads() map[string]checkpoint.ID {
	r.childMu.Lock()
	defer r.childMu.Unlock()
	return r.children
}

var taskID = regexp.MustCompile(`:[^|]*`)

// stablePath returns a namespace without task ids and without the numbers of
// calls, except the last one.
func stablePath(ns string) string {
	parts := strings.Split(taskID.ReplaceAllString(ns, ""), "|")
	out := parts[:0]
	for i, p := range parts {
		if i < len(parts)-1 && strings.Trim(p, "0123456789") == "" {
			continue
		}
		out = append(out, p)
	}
	return strings.Join(out, "|")
}

// stable reports whether a namespace is that of a per-thread run.
func stable(ns string) bool { return !strings.Contains(ns, ":") }
