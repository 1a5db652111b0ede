package pregel

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
)

// oneEach rejects a step in which several tasks run the same per-thread subgraph,
// because only one run at a time can continue its state.
func (r *Run) oneEach(tasks []*Task) error {
	if len(tasks) < 2 || len(r.ctl.sends) == 0 || !r.saving() { // an armed node has only one task
		return nil
	}
	var ran []int32
	for _, t := range tasks {
		if t.node.nest == nil || t.node.Keep != KeepThread {
			continue
		}
		if slices.Contains(ran, t.node.now.id) {
			return fmt.Errorf("graph %q: %w", r.plan.name, &GotoError{Graph: r.plan.name, To: t.Name(),
				Msg: "run by several tasks of one step, but its per-thread state supports one run at a time: send to it in separate steps, or remove treadle.PerThread"})
		}
		ran = append(ran, t.node.now.id)
	}
	return nil
}

// beginPerThread records the start of a per-thread subgraph run. It rejects a
// second run in another task of the same step, even if the first has ended, and in
// a concurrent call.
func (r *Run) beginPerThread() error {
	all := &r.shared.nested
	all.mu.Lock()
	defer all.mu.Unlock()
	use, used := all.lasting[r.ns()]
	if used && use.task != r.parent() && (use.active && !use.within.late() || siblings(use.task, r.parent())) {
		return fmt.Errorf("graph %q: another task of this step runs it as %q, but its per-thread state supports one run at a time: run it in separate steps, or remove treadle.PerThread", r.plan.name, r.ns())
	}
	if all.lasting == nil {
		all.lasting = map[string]perThreadUse{}
	}
	all.lasting[r.ns()] = perThreadUse{r.parent(), r.within(), true}
	return nil
}

// endPerThread records the end of the run.
func (r *Run) endPerThread() {
	if !r.perThread() {
		return
	}
	all := &r.shared.nested
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.lasting[r.ns()].task == r.parent() {
		all.lasting[r.ns()] = perThreadUse{task: r.parent(), within: r.within()}
	}
}

// nestedRuns tracks the subgraph runs inside a top-level run, by namespace.
type nestedRuns struct {
	mu      sync.Mutex
	given   map[string][32]byte // digests of the inputs of runs that may be retried
	lasting map[string]perThreadUse
}

// perThreadUse is the last use of a per-thread subgraph.
type perThreadUse struct {
	task   *Task
	within *scope // the attempt of that task
	active bool
}

// perThread reports whether r is a subgraph run whose state lasts as long as the
// thread.
func (r *Run) perThread() bool { return r.parent() != nil && r.set.Keep == KeepThread && r.saving() }

// siblings reports whether two tasks run inside different tasks of the same step.
func siblings(a, b *Task) bool {
	for ; a != nil; a = a.run.parent() {
		a = a.outermost()
		for c := b; c != nil; c = c.run.parent() {
			if c = c.outermost(); c.run == a.run {
				return c != a && c.step == a.step
			}
		}
	}
	return false
}

// outermost returns the task of a step that made the call, directly or indirectly,
// or the task itself.
func (t *Task) outermost() *Task {
	for t.caller != nil {
		t = t.caller
	}
	return t
}

// retried reports whether a containing task has a retry policy.
func (r *Run) retried() bool {
	for t := r.parent(); t != nil; t = t.run.parent() {
		for c := t; c != nil; c = c.caller {
			if len(c.node.Retry) > 0 {
				return true
			}
		}
	}
	return false
}

// noteInput determines whether an earlier attempt in this run gave the subgraph a
// different input. It does not compare the input in the checkpoint: a continued
// thread keeps the subgraph's progress, whatever input the node passes the second
// time.
func (r *Run) noteInput(in Input) {
	var o outcome
	var sum [32]byte // stays zero for an input that cannot be read or encoded
	known := false
	if r.readInput(in, &o) == nil {
		o.writes = slices.DeleteFunc(o.writes, func(w write) bool { return w.ch.policy == untracked })
		rec := &Record{schema: r.plan.schema, root: r.plan.schema.root, items: o.writes}
		if raw, err := rec.MarshalJSON(); err == nil {
			sum, known = sha256.Sum256(append(raw, r.plan.name...)), true
		}
	}
	all := &r.shared.nested
	all.mu.Lock()
	defer all.mu.Unlock()
	before, again := all.given[r.ns()]
	r.nest.otherInput = again && (!known || before != sum)
	if all.given == nil {
		all.given = map[string][32]byte{}
	}
	all.given[r.ns()] = sum
}
