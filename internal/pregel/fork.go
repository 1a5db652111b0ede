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

// Keep controls how a subgraph run is saved.
type Keep uint8

// The ways to save a subgraph run.
const (
	KeepTask    Keep = iota // with the parent's saver, for the duration of the parent's task
	KeepThread              // with the parent's saver, for the lifetime of the thread
	KeepNothing             // not at all
)

// loadOrFork reads the checkpoint that the run starts from: the thread's head, or
// an older checkpoint, from which the run then forks.
//
// For a subgraph run, the head is the checkpoint that an earlier attempt left in
// the same namespace. The run continues from it and ignores its input. If the
// previous attempt in the same run gave a different input, the subgraph run starts
// from scratch. A per-thread subgraph run starts from the checkpoint named by its
// parent's checkpoint.
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

// goOnFrom sets the state of the run to cp. It rejects the checkpoint of another
// graph, from which only the fields with the same names would be read, unless the
// settings allow it.
func (r *Run) goOnFrom(cp *checkpoint.Checkpoint) error {
	err := r.restoreFrom(cp)
	if err != nil { // perhaps because the checkpoint belongs to another graph
		var c struct{ Graph string }
		_ = json.Unmarshal(cp.Control, &c) // an unreadable control has no name
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

// Owns reports whether checkpoints with this graph name belong to p. Checkpoints of
// earlier versions have no name.
func (p *Plan) Owns(name string) bool {
	return name == "" || name == p.name || slices.Contains(p.spec.Was, name)
}

// get is like getFrom, but returns nil if key has no ID and the namespace has no
// checkpoint.
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

// forkFrom starts from an older checkpoint while the head is at tip. It does not
// use the results and answers of the older checkpoint: interrupts are raised again.
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
	if r.parent() != nil { // pending tasks of a per-thread subgraph belong to a run that has ended
		r.ctl.abandon()
		r.ctl.start, r.forked = nil, false
		r.newLog()
	}
	return nil
}

// fork saves the first checkpoint of a fork, if the run continues from an older
// checkpoint and something is scheduled. The tasks of the fork have new IDs.
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

// edited returns the head of a per-thread subgraph run if only edits were made
// since known, the checkpoint named by its parent. Otherwise it returns known.
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

// owner returns the task that a per-thread subgraph run was created for.
func owner(cp *checkpoint.Checkpoint) string {
	var c struct{ Owner string }
	_ = json.Unmarshal(cp.Control, &c) // an unreadable control is reported when it is restored
	return c.Owner
}

// owned returns the owner of this run, for saving.
func (r *Run) owned() string {
	switch {
	case r.parent() == nil:
		return r.ownerWas
	case r.set.Keep == KeepThread:
		return r.parent().namespace()
	}
	return ""
}

// of returns the parent graph's checkpoint of a subgraph run, for saving.
func (r *Run) of() checkpoint.ID {
	if r.parent() == nil {
		return r.ofWas
	}
	return r.parent().run.head
}

// child returns the head of a per-thread subgraph run, as recorded by this run or a
// run that contains it. A run without a saver has recorded none.
func (r *Run) child(ns string) checkpoint.ID {
	for ; r != nil; r = r.above() {
		if id, ok := r.childHeads()[ns]; ok {
			return id
		}
	}
	return checkpoint.ID{}
}

// addChildHeads records the heads of per-thread subgraph runs in every run that
// contains them, and on the tasks that they ran for. The saved results of these
// tasks name the heads, so a task that does not run again does not lose them.
func (t *Task) addChildHeads(children map[string]checkpoint.ID) {
	if len(children) == 0 {
		return
	}
	with := func(old map[string]checkpoint.ID) map[string]checkpoint.ID {
		next := maps.Clone(old) // a save may still be reading the old map
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

// childHeads returns the heads of the per-thread subgraph runs that ran for the
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

// childHeads returns the heads of per-thread subgraph runs, for saving.
func (r *Run) childHeads() map[string]checkpoint.ID {
	r.childMu.Lock()
	defer r.childMu.Unlock()
	return r.children
}

var taskID = regexp.MustCompile(`:[^|]*`)

// stablePath returns a namespace without task IDs and without call numbers, except
// the last one.
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

// stable reports whether ns is the namespace of a per-thread run.
func stable(ns string) bool { return !strings.Contains(ns, ":") }
