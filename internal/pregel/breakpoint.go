package pregel

import (
	"fmt"
	"slices"
)

// breakpoint returns the nodes among the tasks that have a breakpoint.
func (r *Run) breakpoint(names []string, tasks []*Task) []string {
	if len(names) == 0 {
		return nil
	}
	var hit []string
	for _, t := range tasks {
		at := func(name string) bool { return name == "*" || r.plan.current(name) == t.Name() }
		if slices.ContainsFunc(names, at) && !slices.Contains(hit, t.Name()) && t.node != startNode {
			hit = append(hit, t.Name())
		}
	}
	return hit
}

// stopAt ends the run at a breakpoint. For a subgraph run, the parent run emits the
// event.
func (r *Run) stopAt(before, after []string) error {
	if r.parent() == nil {
		r.emit(ModeUpdates, r.event(&Interrupted{Before: before, After: after}))
	}
	return &InterruptError{Graph: r.plan.name, Before: before, After: after}
}

// checkBreakpoints rejects breakpoints at unknown nodes, and breakpoints in a run
// that could not be continued.
func (r *Run) checkBreakpoints() error {
	for _, name := range slices.Concat(r.set.Before, r.set.After) {
		if name != "*" && r.plan.named(name) == nil {
			return fmt.Errorf("graph %q: breakpoint: unknown node %q%s", r.plan.name, name, r.plan.suggest())
		}
		switch {
		case r.set.Saver == nil:
			return fmt.Errorf("graph %q: breakpoint at %q: %w", r.plan.name, name, ErrNoSaver)
		case r.set.Thread == "":
			return fmt.Errorf("graph %q: breakpoint at %q: %w", r.plan.name, name, ErrNoThread)
		}
	}
	return nil
}
