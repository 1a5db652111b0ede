package pregel

import (
	"encoding/json"
	"fmt"

	"github.com/treadle-go/treadle/checkpoint"
)

// journal collects the writes of a subgraph run's tasks. When the run ends, they
// are passed to the parent graph.
type journal struct {
	on     bool
	writes []write
	wrote  writtenSet // the written fields

	stored int // number of saved writes
	// Of the journal in the checkpoint that the run continues from:
	items int // saved length
	drop  int // number of items that the next put drops
}

// writtenSet is a set of channels. It does not allocate for up to 64 channels.
type writtenSet struct {
	few  uint64
	more bits
}

func (s *writtenSet) add(c *channel, channels int) {
	if c.id < 64 {
		s.few |= 1 << c.id
		return
	}
	if s.more == nil {
		s.more = newBits(channels)
	}
	s.more.set(c.id)
}

func (s *writtenSet) has(c *channel) bool {
	if c.id < 64 {
		return s.few&(1<<c.id) != 0
	}
	return s.more != nil && s.more.has(c.id)
}

// logChannel stores the journal, so that another process can pass it to the parent
// graph.
const logChannel = "__log__"

func (r *Run) decodeLog(v checkpoint.Value) error {
	r.journal.drop, r.journal.items = 0, len(v.Items)
	for _, item := range v.Items {
		var w writeJSON
		if err := json.Unmarshal(item, &w); err != nil {
			return fmt.Errorf("graph %q: saved log: %w", r.plan.name, err)
		}
		c := r.plan.schema.saved(w.Field)
		if c == nil {
			continue // the graph no longer has this field
		}
		got, err := r.decodeWrite(c, w)
		if err != nil {
			return err
		}
		r.journal.wrote.add(c, len(r.slots))
		r.journal.writes = append(r.journal.writes, got)
	}
	r.journal.stored = len(r.journal.writes)
	return nil
}

// newLog starts an empty journal for a per-thread subgraph run: the writes for an
// earlier task have already been passed to the parent.
func (r *Run) newLog() {
	r.journal.writes, r.journal.stored, r.journal.drop = nil, 0, r.journal.items
	r.journal.wrote = writtenSet{}
}

// logChange returns the unsaved part of the journal.
func (r *Run) logChange() (checkpoint.Change, error) {
	out := checkpoint.Change{Channel: logChannel, Version: r.ver, List: true, Drop: r.journal.drop}
	for _, w := range r.journal.writes[r.journal.stored:] {
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

// remember adds the writes of a step to the journal.
func (r *Run) remember(tasks []*Task) {
	if !r.journal.on || len(tasks) == 0 || tasks[0].node == startNode {
		return
	}
	for _, t := range tasks {
		if r.journal.writes == nil {
			r.journal.writes = make([]write, 0, 2*len(t.out.writes)) // most graphs have several steps
		}
		for _, w := range t.out.writes {
			if w.ch.accumulates() || !r.journal.wrote.has(w.ch) {
				r.journal.writes = append(r.journal.writes, w)
			}
			r.journal.wrote.add(w.ch, len(r.slots))
		}
	}
}
