package pregel

import (
	"slices"
)

// state holds the values of a run's fields.
type state struct {
	slots []slot
	ver   uint64 // of the last commit
	views []view // node inputs; see view.go

	undo      []undoEntry // the previous value of each slot changed by the current step
	recent    []undoEntry // the slots changed by the commit of version recentVer
	recentVer uint64

	viewSpace [1]view // memory for the views of a small graph
}

// allocate allocates the slots and views.
func (s *state) allocate(p *Plan) {
	s.slots = make([]slot, len(p.schema.channels))
	s.views = s.viewSpace[:]
	if len(p.views) > len(s.views) {
		s.views = make([]view, len(p.views))
	}
}

// reset sets the slots to the values of a new thread.
func (s *state) reset(p *Plan) {
	for i, c := range p.schema.channels {
		s.slots[i] = c.reset()
	}
	s.ver = 0
}

type undoEntry struct {
	ch    *channel
	was   slot
	whole bool // save the whole value, not just the change
}

// rollback undoes the commit of a failed step.
func (s *state) rollback() {
	for _, u := range slices.Backward(s.undo) {
		s.slots[u.ch.id] = u.was
	}
	s.ver--
	s.undo, s.recentVer = s.undo[:0], 0
	clear(s.views) // they may show undone values
}

// touched reports whether the values of these fields may have changed. Between
// steps it always returns true; after a step, it checks whether the step wrote one
// of the fields.
func (s *state) touched(keys []string) bool {
	return len(s.undo) == 0 || slices.ContainsFunc(s.undo, func(u undoEntry) bool {
		return s.slots[u.ch.id].has && slices.Contains(keys, u.ch.wire)
	})
}
