package pregel

import (
	"slices"
)

// state is the values of a run's fields.
type state struct {
	slots []slot
	ver   uint64 // of the last commit
	views []view // inputs of nodes, see view.go

	undo      []undoEntry // slots before the step under way, each once
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

// reset gives the fields the values of a new thread.
func (s *state) reset(p *Plan) {
	for i, c := range p.schema.channels {
		s.slots[i] = c.reset()
	}
	s.ver = 0
}

type undoEntry struct {
	ch    *channel
	was   slot
	whole bool // store the value as a whole, whatever the step did to it
}

// rollback undoes the commit of a step that failed.
func (s *state) rollback() {
	for _, u := range slices.Backward(s.undo) {
		s.slots[u.ch.id] = u.was
	}
	s.ver--
	s.undo, s.recentVer = s.undo[:0], 0
	clear(s.views) // they may show what was undone
}

// touched reports whether values with these fields only are news: between
// steps they always are, after one if it wrote one of them.
func (s *state) touched(keys []string) bool {
	return len(s.undo) == 0 || slices.ContainsFunc(s.undo, func(u undoEntry) bool {
		return s.slots[u.ch.id].has && slices.Contains(keys, u.ch.wire)
	})
}
