package pregel

import (
	"slices"
)

// state is the values of a run's fields.
type state struct {
	slots []slot
	ver   uint64 // of the last commit
	views []view // inputs of nodes, see view.go

	undo      []undoEntry // each slot that the current step changed, as it was before
	recent    []undoEntry // what the commit of version recentVer changed
	recentVer uint64

	viewSpace [1]view // memory for the views of a small graph
}

// allocate makes the slots and views.
func (s *state) allocate(p *Plan) {
	s.slots = make([]slot, len(p.schema.channels))
	if s.views = s.viewSpace[:]; len(p.views) > len(s.views) {
		s.views = make([]view, len(p.views))
	}
}

// reset sets the values of a new thread.
func (s *state) reset(p *Plan) {
	for i, c := range p.schema.channels {
		s.slots[i] = c.reset()
	}
	s.ver = 0
}

type undoEntry struct {
	ch    *channel
	was   slot
	whole bool // store the whole value, not only the change
}

// rollback undoes the commit of a step that failed.
func (s *state) rollback() {
	for _, u := range slices.Backward(s.undo) {
		s.slots[u.ch.id] = u.was
	}
	s.ver--
	s.undo, s.recentVer = s.undo[:0], 0
	clear(s.views) // they may show undone values
}

// touched reports whether values restricted to these fields have changed:
// always between steps, and after a step if it wrote one of the fields.
func (s *state) touched(keys []string) bool {
	return len(s.undo) == 0 || slices.ContainsFunc(s.undo, func(u undoEntry) bool {
		return s.slots[u.ch.id].has && slices.Contains(keys, u.ch.wire)
	})
}
