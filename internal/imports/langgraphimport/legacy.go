package langgraphimport

import (
	"maps"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/checkpoint"
)

// Older versions of LangGraph do not store everything that an import needs. The functions
// in this file recover it from other parts of the thread.

// legacySends finds the sends of a checkpoint before format 4 that does not contain them
// itself: they are writes of the parent's tasks.
func (s *space) legacySends(p *point) {
	if p.format >= 4 || p.inline || p.source != checkpoint.Loop {
		return
	}
	writes := p.sent
	if up := s.byID[p.parent]; up != nil && len(writes) == 0 {
		writes = up.writes
	}
	for _, w := range writes {
		if w.channel == tasksChannel {
			p.next.send([]any{w.value})
		}
	}
}

// legacyEdges schedules the successors of the nodes that have run, using edges that the
// thread has followed at some point.
func (s *space) legacyEdges() {
	edges := map[string]map[string]bool{} // followed edges by source
	for _, p := range s.points {
		up := s.byID[p.parent]
		if up == nil || p.source != checkpoint.Loop {
			continue
		}
		for _, from := range up.next.after {
			if edges[from] == nil {
				edges[from] = map[string]bool{}
			}
		}
	}
	for _, p := range s.points {
		for to, seen := range p.seen {
			for from := range seen {
				if edges[from] != nil && to != interruptChannel {
					edges[from][to] = true
				}
			}
		}
	}
	for _, p := range s.points {
		p.next.after = slices.DeleteFunc(p.next.after, func(from string) bool {
			for to := range edges[from] {
				if newer(p.versions[from], p.seen[to][from]) {
					p.next.arm(to, false)
				}
			}
			return edges[from] != nil
		})
		slices.Sort(p.next.nodes)
		p.next.nodes = slices.Compact(p.next.nodes)
	}
}

// names returns the graph's node names that appear in the thread.
func (c *conversion) names(s *space) []string {
	found := map[string]bool{}
	depth := 0
	if s.lg != "" {
		depth = strings.Count(s.lg, "|") + 1
	}
	for _, p := range s.points {
		for node := range p.seen {
			found[node] = true
		}
		for _, w := range p.writes {
			if w.value == w.channel { // the node wrote to the channel with its own name
				found[w.channel] = true
			}
			if w.channel != interruptChannel {
				continue
			}
			for _, i := range interruptsOf(w) {
				ns, _ := i.field("ns", 2).([]any)
				if len(ns) > depth {
					segment, _ := ns[depth].(string)
					node, _, _ := strings.Cut(segment, ":")
					found[node] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// findFlow finds the node of a workflow. A workflow's function runs from the input's
// checkpoint; in other graphs, no node does.
func (s *space) findFlow(c *conversion) {
	for _, p := range s.points {
		for node, seen := range p.seen {
			if _, ok := seen[startChannel]; ok && node != startChannel && node != interruptChannel {
				s.flow = node
			}
		}
		_, has := p.values[startChannel]
		if !has {
			continue
		}
		for _, w := range p.writes {
			if node, ok := strings.CutPrefix(w.path, pullPath); ok && node != startChannel && !strings.Contains(node, ", ") {
				s.flow = node
			}
		}
		for _, w := range p.writes { // without task paths
			if s.flow != "" || w.task == nullTask || w.channel != returnChannel && !isControl(w.channel) {
				continue
			}
			s.isFlow = true
			q := *p
			q.flow = true
			for _, name := range slices.Concat(c.names(s), c.others()) {
				if name != startChannel && q.hashes(&task{node: name, sent: -1}, w.task) {
					s.flow = name
				}
			}
		}
	}
}
