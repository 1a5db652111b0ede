package pregel

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
)

// oneEach refuses a step in which several tasks run one graph whose state lasts
// as long as the thread: its state cannot go on twice at once.
func (r *Run) oneEach(tasks []*Task) error {
	if len(tasks) < 2 || len(r.ctl.sends) == 0 || !r.saving() { // an armed node runs once
		return nil
	}
	var ran []int32
	for _, t := range tasks {
		if t.node.nest == nil || t.node.Keep != KeepThread {
			continue
		}
		if slices.Contains(ran, t.node.id) {
			return fmt.Errorf("graph %q: %w", r.plan.name, &GotoError{Graph: r.plan.name, To: t.Name(),
				Msg: "several tasks of one step run it, and it keeps its state per thread, which can go on only once at a time: send to it in steps that follow each other, or leave out treadle.PerThread"})
		}
		ran = append(ran, t.node.id)
	}
	return nil
}

// beginPerThread notes that a nested run whose state lasts is at work, and refuses
// another one beside it: from another task of the same step, whether that is
// over or not, or from a call that runs at the same time.
func (r *Run) beginPerThread() error {
	all := &r.shared.nested
	all.mu.Lock()
	defer all.mu.Unlock()
	use, used := all.lasting[r.ns()]
	if used && use.task != r.parent() && (use.active && !use.within.late() || siblings(use.task, r.parent())) {
		return fmt.Errorf("graph %q: another task of this step runs it as %q, and it keeps its state per thread, which can go on only once at a time: run it in steps that follow each other, or leave out treadle.PerThread", r.plan.name, r.ns())
	}
	if all.lasting == nil {
		all.lasting = map[string]perThreadUse{}
	}
	all.lasting[r.ns()] = perThreadUse{r.parent(), r.within(), true}
	return nil
}

// endPerThread notes that the run is over.
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

// nestedRuns is what is known of the runs inside an outermost run, by namespace.
type nestedRuns struct {
	mu      sync.Mutex
	given   map[string][32]byte // digests of the inputs of those that may be tried again
	lasting map[string]perThreadUse
}

// perThreadUse is the task that has last run a graph whose state lasts.
type perThreadUse struct {
	task   *Task
	within *scope // the attempt of it
	active bool
}

// perThread reports a nested run whose state lasts as long as the thread.
func (r *Run) perThread() bool { return r.parent() != nil && r.set.Keep == KeepThread && r.saving() }

// siblings reports whether the two tasks are parts of different tasks of one step.
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

// outermost is the task of a step that the task runs for.
func (t *Task) outermost() *Task {
	for t.caller != nil {
		t = t.caller
	}
	return t
}

// retried reports whether a task that the run is nested in may be tried again.
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

// noteInput finds out whether an earlier attempt gave the nested run another
// input. What is in the checkpoint is not compared: a thread that is continued
// goes on with what the graph has done, whatever the node makes of its input
// the second time.
func (r *Run) noteInput(in Input) {
	var o outcome
	var sum [32]byte // of an input that cannot be read or has no JSON
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
