package draw

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func ids(s Shape) (out []string) {
	for _, n := range s.Nodes {
		out = append(out, n.ID)
	}
	return out
}

func TestExpand(t *testing.T) {
	inner := "__start__ -> a\na -> b\nb -> __end__"
	for _, c := range []struct {
		name, inner string
		nodes       []string
		edges       []Edge
	}{
		{
			"drops a start and an end with one plain edge", inner,
			[]string{"x", "sub:a", "sub:b", "y"},
			[]Edge{{From: "x", To: "sub:a"}, {From: "sub:b", To: "y"}, {From: "sub:a", To: "sub:b"}},
		},
		{
			"keeps an end that several edges reach", "__start__ -> a\na .> b\na .> __end__\nb -> __end__",
			[]string{"x", "sub:a", "sub:b", "sub:__end__", "y"},
			[]Edge{
				{From: "x", To: "sub:a"}, {From: "sub:__end__", To: "y"},
				{From: "sub:a", To: "sub:b", Conditional: true}, {From: "sub:a", To: "sub:__end__", Conditional: true},
				{From: "sub:b", To: "sub:__end__"},
			},
		},
		{
			"keeps a start with a conditional edge", "__start__ .> a\na -> __end__",
			[]string{"x", "sub:__start__", "sub:a", "y"},
			[]Edge{{From: "x", To: "sub:__start__"}, {From: "sub:a", To: "y"}, {From: "sub:__start__", To: "sub:a", Conditional: true}},
		},
		{
			"keeps both if nothing is between them", "__start__ -> __end__",
			[]string{"x", "sub:__start__", "sub:__end__", "y"},
			[]Edge{{From: "x", To: "sub:__start__"}, {From: "sub:__end__", To: "y"}, {From: "sub:__start__", To: "sub:__end__"}},
		},
		{
			"does not expand a node without an exit", "__start__ -> a\na -> b\nb -> a",
			[]string{"x", "sub", "y"},
			[]Edge{{From: "x", To: "sub"}, {From: "sub", To: "y"}},
		},
		{
			"does not expand a subgraph of one node", "a",
			[]string{"x", "sub", "y"},
			[]Edge{{From: "x", To: "sub"}, {From: "sub", To: "y"}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			sub := shape("", c.inner)
			s := shape("", "x -> sub\nsub -> y")
			s.at("sub").Graph = &sub
			got := s.Expand(-1)
			if diff := cmp.Diff(c.nodes, ids(got)); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.edges, got.Edges); diff != "" {
				t.Errorf("edges (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExpandStopsAtDepth(t *testing.T) {
	for depth, want := range map[int]string{0: "work", 1: "work:fetch", 2: "work:fetch:get", -1: "work:fetch:get"} {
		if got := nested().Expand(depth); !got.has(want) {
			t.Errorf("depth %d: no %s in %v", depth, want, ids(got))
		}
	}
}

func TestExpandDoesNotModifyShape(t *testing.T) {
	s := nested()
	_ = s.Expand(-1)
	if diff := cmp.Diff(nested(), s); diff != "" {
		t.Errorf("changed:\n%s", diff)
	}
}

func TestExpandedLoopJoinsLastToFirstNode(t *testing.T) {
	sub := shape("", "__start__ -> a\na -> b\nb -> __end__")
	s := shape("", "sub .> sub : again")
	s.at("sub").Graph = &sub
	want := Edge{From: "sub:b", To: "sub:a", Label: "again", Conditional: true}
	if got := s.Expand(1).Edges[0]; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}
