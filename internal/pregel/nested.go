package pregel

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/treadle-go/treadle/checkpoint"
)

// nest is the place of a run: inside a task of another run, or at the top level,
// where all fields are zero.
type nest struct {
	parent *Task  // the task that contains this run
	within *scope // the attempt of that task
	nth    int32  // number of earlier runs in the attempt

	otherInput bool // the previous attempt gave a different input

	// The namespace is computed on first use, because it contains the IDs of the
	// containing tasks, which are hashes.
	once sync.Once
	ns   string
	path []string // ns, split at "|"
}

// nestedScope returns the attempt that contains a run with these settings, or nil.
// A run with a thread is always at the top level, even if a node starts it.
func nestedScope(ctx context.Context, set *Settings) *scope {
	if set.Thread != "" {
		return nil
	}
	return scopeOf(ctx)
}

func (r *Run) parent() *Task { return r.nest.parent }

func (r *Run) within() *scope { return r.nest.within }

func (r *Run) ns() string {
	if r.nest.parent != nil {
		r.nest.once.Do(r.locate)
	}
	return r.nest.ns
}

// path returns the namespace, split at "|".
func (r *Run) path() []string {
	r.ns()
	return r.nest.path
}

func (r *Run) locate() {
	n := &r.nest
	n.ns = n.parent.namespace()
	if n.nth > 0 {
		n.ns += fmt.Sprintf("|%d", n.nth)
	}
	if r.set.Keep == KeepThread {
		n.ns = n.parent.run.lastingNS(n.parent, stablePath(n.ns))
	}
	n.path = strings.Split(n.ns, "|")
}

// lastingNS returns the namespace of the per-thread subgraph at ns. If a node on the
// way to task was renamed, it is the namespace where the thread already has the state.
func (r *Run) lastingNS(task *Task, ns string) string {
	was := map[string][]string{} // other names of the nodes in ns
	for t := task; t != nil; t = t.run.parent() {
		for ; ; t = t.caller {
			if len(t.node.Was) > 0 {
				was[t.node.savedName()] = append(slices.Clip(t.node.Was), t.node.Name)
			}
			if t.caller == nil {
				break
			}
		}
	}
	if len(was) == 0 {
		return ns
	}
	names := split(ns)
	same := func(name, known string) bool { return name == known || slices.Contains(was[name], known) }
	for ; r != nil; r = r.above() {
		heads := r.childHeads()
		if _, ok := heads[ns]; ok {
			return ns
		}
		for _, known := range slices.Sorted(maps.Keys(heads)) {
			if slices.EqualFunc(names, split(known), same) {
				return known
			}
		}
	}
	return ns
}

// nestIn makes r a subgraph run of the run that sc belongs to. r inherits the
// settings that it does not set itself.
func (r *Run) nestIn(sc *scope) {
	t := sc.task
	up := t.run
	r.nest.parent, r.nest.within = t, sc
	r.nest.nth = t.nested.Add(1) - 1
	set := r.set
	if set.Context == nil {
		set.Context = up.set.Context
	}
	if set.MaxConcurrency == 0 {
		set.MaxConcurrency = up.set.MaxConcurrency
	}
	if set.StepLimit == 0 { // each graph counts its steps separately
		set.StepLimit = up.set.StepLimit
	}
	set.Tags = slices.Concat(up.set.Tags, set.Tags)
	set.Metadata = merged(up.set.Metadata, set.Metadata)
	set.RunID = up.set.RunID
	set.Saver, set.Thread, set.At = up.set.Saver, up.set.Thread, checkpoint.ID{}
	if set.Keep == KeepNothing {
		set.Saver = nil
	}
	set.Codecs = up.set.Codecs // readers of the thread use these
	set.PutTimeout = up.set.PutTimeout
	set.Sizer, set.SizeWarning = up.set.Sizer, up.set.SizeWarning
	if up.set.Cache != nil {
		set.Cache = up.set.Cache
	}
	if up.set.Store != nil {
		set.Store = up.set.Store
	}
	set.Check = set.Check || up.set.Check
	set.Logger = up.set.Logger
	set.Drain = up.set.Drain
	set.Fence = up.set.Fence
	set.Config = up.set.Config
	set.Recorded = up.set.Recorded
	set.Memory = up.set.Memory
	if r.sinks != nil || up.sinks != nil {
		r.sinks = r.sinks.under(up.sinks, r.ns())
	}
	if up.saving() {
		r.ns() // now, because the IDs in it depend on the current step
	}
	sc.alive(false)
}

func merged(a, b map[string]any) map[string]any {
	if len(a) == 0 {
		return b
	}
	if len(b) == 0 {
		return a
	}
	out := make(map[string]any, len(a)+len(b))
	for _, m := range []map[string]any{a, b} {
		maps.Copy(out, m)
	}
	return out
}
