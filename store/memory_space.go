package store

import (
	"slices"
	"strings"
)

// A space is a namespace in memory.
type space struct {
	name      string // encoded
	namespace Namespace
	lines     map[string][]*entry // all records by key, oldest first

	// The items and what words they have, in the order of their Seqs. Entries
	// that have become old stay in until there are too many of them.
	items []*entry
	words map[string][]*entry
	old   int
	stale bool // words are to be made anew
}

// space is that of a namespace, made if there is none.
func (m *memory) space(n Namespace) *space {
	name := n.Encode()
	s := m.byName[name]
	if s == nil {
		s = &space{name: name, namespace: n, lines: map[string][]*entry{}, words: map[string][]*entry{}}
		m.byName[name] = s
		m.spaces = slices.Insert(m.spaces, m.findSpace(name), s)
	}
	return s
}

// tidy removes a space without records.
func (m *memory) tidy(s *space) {
	if len(s.lines) > 0 {
		return
	}
	delete(m.byName, s.name)
	i := m.findSpace(s.name)
	m.spaces = slices.Delete(m.spaces, i, i+1)
}

func (m *memory) findSpace(name string) int {
	i, _ := slices.BinarySearchFunc(m.spaces, name, func(s *space, name string) int { return strings.Compare(s.name, name) })
	return i
}

// under are the spaces of the namespaces under a prefix.
func (m *memory) under(prefix Namespace) []*space {
	name := prefix.Encode()
	from := m.findSpace(name)
	n, _ := slices.BinarySearchFunc(m.spaces[from:], name, func(s *space, name string) int {
		if strings.HasPrefix(s.name, name) {
			return -1
		}
		return 1
	})
	return m.spaces[from : from+n]
}

// add makes a current entry one that searches find.
func (s *space) add(e *entry) {
	e.at = len(s.items)
	s.items = append(s.items, e)
	s.addWords(e)
}

func (s *space) addWords(e *entry) {
	for _, t := range e.indexed.Terms {
		s.words[t.Text] = append(s.words[t.Text], e)
	}
}

// retired counts entries that have become old, and clears up when they are half.
func (s *space) retired() {
	s.old++
	if s.old < 32 || s.old < len(s.items)/2 {
		return
	}
	s.items = slices.DeleteFunc(s.items, func(e *entry) bool { return e.old })
	for i, e := range s.items {
		e.at = i
	}
	s.old = 0
	s.reword()
}

// reword makes the words anew.
func (s *space) reword() {
	s.words = make(map[string][]*entry, len(s.words))
	for _, e := range s.items {
		if !e.old {
			s.addWords(e)
		}
	}
	s.stale = false
}
