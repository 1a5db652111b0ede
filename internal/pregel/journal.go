package pregel

import (
	"encoding/json"
	"fmt"

	"github.com/treadle-go/treadle/checkpoint"
)

// logChannel holds what a nested graph's nodes wrote, for handing it up when
// the graph ends, perhaps in another process.
const logChannel = "__log__"

func (r *Run) decodeLog(v checkpoint.Value) error {
	r.logDrop, r.logItems = 0, len(v.Items)
	for _, item := range v.Items {
		var w writeJSON
		if err := json.Unmarshal(item, &w); err != nil {
			return fmt.Errorf("graph %q: stored log: %w", r.plan.name, err)
		}
		c := r.plan.schema.byWire[w.Field]
		if c == nil {
			continue // a field that is gone cannot be handed up
		}
		got, err := r.decodeWrite(c, w)
		if err != nil {
			return err
		}
		r.wrote.set(int(c.id))
		r.log = append(r.log, got)
	}
	r.logged = len(r.log)
	return nil
}

// newLog begins the log anew, for a nested graph that lasts: what it wrote for
// an earlier task has been handed up.
func (r *Run) newLog() {
	r.log, r.logged, r.logDrop = nil, 0, r.logItems
	clear(r.wrote)
}

// logChange is the part of the log that is not stored yet.
func (r *Run) logChange() (checkpoint.Change, error) {
	out := checkpoint.Change{Channel: logChannel, Version: r.ver, List: true, Drop: r.logDrop}
	for _, w := range r.log[r.logged:] {
		stored, err := r.encodeWrite(w)
		if err != nil {
			return out, err
		}
		raw, err := json.Marshal(stored)
		if err != nil {
			return out, err
		}
		out.Items = append(out.Items, raw)
	}
	return out, nil
}

// remember notes what a nested graph's nodes wrote.
func (r *Run) remember(tasks []*Task) {
	if !r.journal || len(tasks) == 0 || tasks[0].node == startNode {
		return
	}
	for _, t := range tasks {
		if r.log == nil {
			r.log = make([]write, 0, 2*len(t.out.writes)) // most graphs have several steps
		}
		for _, w := range t.out.writes {
			if w.ch.accumulates() || !r.wrote.has(int(w.ch.id)) {
				r.log = append(r.log, w)
			}
			r.wrote.set(int(w.ch.id))
		}
	}
}
