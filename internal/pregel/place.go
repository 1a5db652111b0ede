package pregel

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/treadle-go/treadle/checkpoint"
)

// place is where a run's checkpoints and events belong: the namespace of a
// nested run, or nothing. It is found out when it is first asked for, because
// it has the ids of the tasks around it, which are hashes.
type place struct {
	once sync.Once
	nth  int32 // how many runs the task around it has made before
	ns   string
	path []string // ns, split
}

func (r *Run) ns() string {
	if r.parent != nil {
		r.place.once.Do(r.locate)
	}
	return r.place.ns
}

// path is the namespace, split.
func (r *Run) path() []string {
	r.ns()
	return r.place.path
}

func (r *Run) locate() {
	p := &r.place
	p.ns = r.parent.namespace()
	if p.nth > 0 {
		p.ns += fmt.Sprintf("|%d", p.nth)
	}
	if r.set.Keep == KeepThread {
		p.ns = stablePath(p.ns)
	}
	p.path = strings.Split(p.ns, "|")
}

// nestIn makes r a part of the run that sc belongs to. The settings are the
// run's own, and what they do not say is taken from the run around it.
func (r *Run) nestIn(sc *scope) {
	t := sc.task
	up := t.run
	r.parent, r.within = t, sc
	r.place.nth = t.nested.Add(1) - 1
	set := r.set
	if set.Context == nil {
		set.Context = up.set.Context
	}
	if set.MaxConcurrency == 0 {
		set.MaxConcurrency = up.set.MaxConcurrency
	}
	if set.StepLimit == 0 { // each graph counts its own steps
		set.StepLimit = up.set.StepLimit
	}
	set.Tags = slices.Concat(up.set.Tags, set.Tags)
	set.Metadata = merged(up.set.Metadata, set.Metadata)
	set.RunID = up.set.RunID
	set.Saver, set.Thread, set.At = up.set.Saver, up.set.Thread, checkpoint.ID{}
	if set.Keep == KeepNothing {
		set.Saver = nil
	}
	set.Codecs = up.set.Codecs // whoever reads the thread has these
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
	if r.sinks != nil || up.sinks != nil {
		r.sinks = r.sinks.under(up.sinks, r.ns())
	}
	if up.saving() {
		r.ns() // the ids that it is made of belong to the step that is under way
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
