package store

import (
	"slices"
	"strings"
)

// space is a namespace in memory.
type space struct {
	name      string // encoded
	namespace Namespace
	versions  map[string][]*entry // all records by key, oldest first

	// The current items, and the positions of those with a word, both in order of Seq.
	// Entries that are no longer current remain until there are too many of them.
	items []*entry
	words map[string][]int32
	old   int
	stale bool // words must be rebuilt

	leaves *leafIndex // of items; nil until a search needs it
}

// space returns the space of a namespace, creating it if necessary.
func (m *memory) space(n Namespace) *space {
	name := n.Encode()
	s := m.byName[name]
	if s == nil {
		s = &space{name: name, namespace: n, versions: map[string][]*entry{}, words: map[string][]int32{}}
		m.byName[name] = s
		m.spaces = slices.Insert(m.spaces, m.findSpace(name), s)
	}
	return s
}

// removeEmpty removes a space if it has no records.
func (m *memory) removeEmpty(s *space) {
	if len(s.versions) > 0 {
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

// under returns the spaces of the namespaces under a prefix.
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

// add makes an entry visible to searches.
func (s *space) add(e *entry) {
	e.at = len(s.items)
	s.items = append(s.items, e)
	s.addWords(e)
	if s.leaves != nil {
		s.leaves.add(e)
	}
}

func (s *space) addWords(e *entry) {
	for _, t := range e.indexed.Terms {
		s.words[t.Text] = append(s.words[t.Text], int32(e.at))
	}
}

// retired counts an entry that is no longer current, and removes all such entries when
// they make up half of the list.
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
	s.rebuildWords()
	if s.leaves != nil {
		s.leaves = newLeafIndex(s.items)
	}
}

// rebuildWords rebuilds the word index.
func (s *space) rebuildWords() {
	s.words = make(map[string][]int32, len(s.words))
	for _, e := range s.items {
		if !e.old {
			s.addWords(e)
		}
	}
	s.stale = false
}
