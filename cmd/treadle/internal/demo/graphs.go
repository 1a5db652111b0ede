package demo

import (
	"fmt"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

// GraphInfo describes a graph that the command can draw.
type GraphInfo struct {
	Name, About string
	// Build makes the graph. A nil saver is enough for drawing.
	Build func(checkpoint.Saver) (treadle.AnyGraph, error)
}

// Graphs are the graphs that the command can draw, the default first.
func Graphs() []GraphInfo {
	return []GraphInfo{
		{"jokes", "a joke writer: fan out with Send, pick the best, ask (treadle jokes runs it)", func(s checkpoint.Saver) (treadle.AnyGraph, error) { return NewJokes(0, s) }},
		{"demo", "an agent: model and tools in a loop, with memory (treadle demo runs it)", newAssistantGraph},
		{"essay", "an essay writer: a nested graph for research, and a branch on the review", newEssay},
	}
}

// FindGraph returns the graph with that name, or the default if it is empty.
func FindGraph(name string) (GraphInfo, error) {
	all := Graphs()
	var names []string
	for _, g := range all {
		if g.Name == name || name == "" {
			return g, nil
		}
		names = append(names, g.Name)
	}
	return GraphInfo{}, fmt.Errorf("unknown graph %q: use one of %s", name, strings.Join(names, ", "))
}
