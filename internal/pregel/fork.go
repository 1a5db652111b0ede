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

// Keep says how a nested run is stored.
type Keep int

// The ways to store a nested run.
const (
	KeepTask    Keep = iota // with the parent's saver, for as long as the parent's task takes
	KeepThread              // with the parent's saver, for as long as the thread lives
	KeepNothing             // not at all
)

// loadOrFork reads the checkpoint that the run starts from: the thread's head,
// or an older one, from which the run then forks.
//
// For a nested run the head is what an attempt before this one left under the
// same namespace: the run goes on from there, and its input does not count
// again, unless the attempt before this one, in the same run, gave another: then
// the nested run begins anew. A nested run that lasts as long as the thread starts from the
// checkpoint that its parent's checkpoint knows of.
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
		return r.forkFrom(key, checkpoint.ID{}, cp.ID) // from nothing
	}
	r.resumed = true
	return r.goOnFrom(cp)
}

// goOnFrom makes cp the state of a run that goes on from it. The checkpoint of
// another graph is refused: what of it has the same name would be taken over,
// and the rest dropped.
func (r *Run) goOnFrom(cp *checkpoint.Checkpoint) error {
	err := r.restoreFrom(cp)
	if err != nil { // perhaps because of that
		var c struct{ Graph string }
		_ = json.Unmarshal(cp.Control, &c) // it says so itself if it cannot be read
		r.madeBy = c.Graph
	}
	name := r.madeBy
	if name == "" || name == r.plan.name || slices.Contains(r.plan.spec.Was, name) {
		return err // checkpoints of earlier versions have no name
	}
	if r.ns() != "" {
		return fmt.Errorf("graph %q: thread %q: the state at %q is of graph %q: a node must run the same graphs in the same order each time; if the graph was renamed, give its old name in Options.Was", r.plan.name, r.set.Thread, r.ns(), name)
	}
	return fmt.Errorf("graph %q: thread %q is of graph %q: use another thread; if the graph was renamed, give its old name in Options.Was", r.plan.name, r.set.Thread, name)
}

// get is Get with nil for what is not there.
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

// forkFrom starts from an older checkpoint while the head is at tip. What ran
// from it before is not taken over: questions are asked again.
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
	}
	if err := r.goOnFrom(cp); err != nil {
		return err
	}
	r.tip = tip
	if r.parent() != nil { // what a lasting graph had left to do belongs to a run that is over
		r.ctl.abandon()
		r.ctl.start, r.forked = nil, false
		r.newLog()
	}
	return nil
}

// fork puts a checkpoint that begins a new branch, if the run continues from
// an older one and there is something to run. Its tasks have ids of their own.
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

// edited is the head of a lasting nested run if all that happened since the
// checkpoint that its parent knows of is edits; otherwise that checkpoint.
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

// owner is the task that a lasting nested run was made for.
func owner(cp *checkpoint.Checkpoint) string {
	var c struct{ Owner string }
	_ = json.Unmarshal(cp.Control, &c) // an unreadable one is reported when it is restored
	return c.Owner
}

// owned is the owner of this run, for storing.
func (r *Run) owned() string {
	switch {
	case r.parent() == nil:
		return r.ownerWas
	case r.set.Keep == KeepThread:
		return r.parent().namespace()
	}
	return ""
}

// of is the checkpoint around a nested run, for storing.
func (r *Run) of() checkpoint.ID {
	if r.parent() == nil {
		return r.ofWas
	}
	return r.parent().run.head
}

// child is the head of a lasting nested run as this run knows it, or one
// around it: a run that does not last has known nothing before.
func (r *Run) child(ns string) checkpoint.ID {
	for ; r != nil; r = r.above() {
		if id, ok := r.childHeads()[ns]; ok {
			return id
		}
	}
	return checkpoint.ID{}
}

// addChildHeads notes the heads of lasting nested runs, in every enclosing run and on
// the tasks that they ran for, whose stored results name them: a task that is
// not run again must not lose them.
func (t *Task) addChildHeads(kids map[string]checkpoint.ID) {
	if len(kids) == 0 {
		return
	}
	with := func(old map[string]checkpoint.ID) map[string]checkpoint.ID {
		next := maps.Clone(old) // the old one may be on its way to the saver
		if next == nil {
			next = map[string]checkpoint.ID{}
		}
		maps.Copy(next, kids)
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

// childHeads are the heads of the lasting nested runs that ran for the task.
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

// childHeads are the heads of lasting nested runs, for storing.
func (r *Run) childHeads() map[string]checkpoint.ID {
	r.childMu.Lock()
	defer r.childMu.Unlock()
	return r.children
}

var taskID = regexp.MustCompile(`:[^|]*`)

// stablePath is a namespace without the ids of tasks and without the numbers
// of calls, except its own.
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

// stable reports a namespace that lasts as long as its thread.
func stable(ns string) bool { return !strings.Contains(ns, ":") }
